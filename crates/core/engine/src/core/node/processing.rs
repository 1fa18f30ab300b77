//! Processing a batch at a node: counts, times, and the readers of the output.

use super::Node;
use crate::ticket::NodeBatch;
use millstream_model::trace::{Entered, Trace};
use millstream_model::{Batch, ComponentError, Outputs};
use millstream_recorder::recorder;
use millstream_recorder::schema::EventKind;
use std::sync::Arc;
use std::time::Instant;

/// Maximum number of event bytes that the log shows.
const SHOWN_BYTES_MAX: usize = 200;

/// A batch that a transform has received, with its counts.
pub(crate) struct Received {
    /// Receives the transform's output.
    pub out: Outputs,
    pub events: u64,
    pub bytes: u64,
}

impl Node {
    /// Applies a transform to a batch, counts and times the call, and returns a batch for each
    /// reader of the outputs.
    pub fn apply(
        &self,
        batch: Batch,
        trace: Option<&Arc<Trace>>,
        apply: impl FnOnce(Batch, &mut Outputs) -> Result<(), ComponentError>,
    ) -> Vec<NodeBatch> {
        let _entered = self.counters.enter();
        let begun = Instant::now();
        let timer = recorder::start(EventKind::BatchStage);
        let traced = trace.map(|trace| trace.enter(&batch, begun));
        let Received { mut out, events, bytes } = self.receive(&batch);
        if let Err(error) = apply(batch, &mut out) {
            self.refuse(events, &error);
        }
        let next = self.send(out, traced);
        self.counters.worked(begun.elapsed());
        self.counters.record_stage(timer, events, bytes);
        next
    }

    /// Counts a batch that a transform receives.
    pub fn receive(&self, batch: &Batch) -> Received {
        let events = batch.events() as u64;
        let bytes = batch.text_bytes();
        self.counters.received(events, bytes);
        let out = Outputs { counters: self.counters.clone(), ..Outputs::default() };
        Received { out, events, bytes }
    }

    /// Counts a transform's output, and returns one batch for each reader.
    pub fn send(&self, mut out: Outputs, mut traced: Option<Entered>) -> Vec<NodeBatch> {
        if let Some(warning) = out.warning.take() {
            log::warn!("{} {}: {warning}", self.kind, self.id);
            self.counters.set_last_error(&warning);
        }
        let mut next = Vec::new();
        for (output, batch) in out.batches {
            self.counters.sent(batch.events() as u64, batch.text_bytes());
            self.tap.offer(output, &batch);
            if let Some(traced) = &mut traced {
                traced.output(&self.id, output, &batch);
            }
            match self.outputs.get(output) {
                Some(readers) if !readers.is_empty() => {
                    NodeBatch::fan_out(readers, batch, &mut next);
                }
                // An output without a reader is normal; a rejected event without a reader is not.
                _ => {
                    let reason = if out.rejected == Some(output) { "rejected" } else { "unread" };
                    self.counters.dropped(reason, batch.events() as u64);
                }
            }
        }
        if let Some(traced) = traced {
            traced.leave(&self.id);
        }
        next
    }

    /// Counts and logs events that the node has rejected with an error.
    pub fn refuse(&self, events: u64, error: &ComponentError) {
        self.counters.error(error.kind);
        self.counters.dropped(error.kind, events);
        log::error!("{} {}: {events} events rejected: {error}", self.kind, self.id);
    }

    /// Counts events whose processing panics, and logs the first one.
    pub fn reject_panicking(&self, batch: &Batch) {
        self.counters.error("panic");
        self.counters.dropped("panic", batch.events() as u64);
        let row = (0..batch.rows()).find(|row| batch.is_selected(*row)).unwrap_or(0);
        let mut segments = batch.segments.iter();
        let segment = segments.find(|s| (s.first_row..s.first_row + s.rows).contains(&row));
        let place = segment.map_or(String::new(), |segment| {
            format!("{} offset {}", segment.origin.name, batch.offset(segment, row))
        });
        let shown_bytes = batch.text_len(row).min(SHOWN_BYTES_MAX);
        let text = String::from_utf8_lossy(&batch.text(row)[..shown_bytes]).into_owned();
        let kind = self.kind;
        let id = &self.id;
        match batch.events() {
            1 => log::error!("{kind} {id}: panic, event rejected ({place}): {text:?}"),
            events => log::error!(
                "{kind} {id}: panic, {events} events rejected, the first of them ({place}): {text:?}"
            ),
        }
    }
}
