//! Traces: the path of a batch's events through the topology, and the time in each component.
//!
//! A batch passes as a whole, so its events share their times, but each component may pass on
//! different events. Without a tracer, a batch costs one relaxed load, and each component one check
//! of an option. With a tracer, a bounded number of batches per second is traced.

use crate::batch::{Batch, EventId, EventSample};
use crate::outcome::Outcome;
use crate::side::TapSide;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Maximum number of events in a batch that a trace can follow: one bit each in [`Rows`].
pub const TRACED_ROWS_MAX: usize = 50;

/// Maximum number of stages in a trace. A batch that causes a panic is halved repeatedly, which
/// adds stages.
const STAGES_MAX: usize = 200;

/// A set of traced events, as a bitmap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rows(u64);

impl Rows {
    fn of(found: &TracedRows) -> Rows {
        Rows(found.iter().fold(0, |rows, (_, event)| rows | 1 << event))
    }

    /// All events.
    pub const ALL: Rows = Rows(u64::MAX);

    /// Returns the events that are in both sets.
    #[must_use]
    pub fn and(self, other: Rows) -> Rows {
        Rows(self.0 & other.0)
    }

    /// Returns the events that are in at least one of the sets.
    #[must_use]
    pub fn or(self, other: Rows) -> Rows {
        Rows(self.0 | other.0)
    }

    /// Returns the events that are not in the other set.
    #[must_use]
    pub fn without(self, other: Rows) -> Rows {
        Rows(self.0 & !other.0)
    }

    /// Returns whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether the event is in the set. Events are counted from 0 in the order of the
    /// batch.
    pub fn contains(self, event: usize) -> bool {
        self.0 >> event & 1 == 1
    }

    /// Returns the events, ascending.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..TRACED_ROWS_MAX).filter(move |event| self.contains(*event))
    }
}

/// Traced events in a batch, as pairs of row and event index.
type TracedRows = [(usize, usize)];

/// The point at which a trace copies the events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplePoint {
    /// The side of the component.
    pub side: TapSide,
    /// Id of the component.
    pub id: Arc<str>,
    /// Index of the output.
    pub output: usize,
}

/// Receives traces.
pub trait TraceListener: Send + Sync {
    /// Returns the counter of the bytes that the listener's samples take, if the listener has room
    /// for another trace; never waits.
    fn room(&self) -> Option<Arc<AtomicUsize>>;

    /// Takes a trace that is beginning, if there is still room; never waits.
    fn begin(&self, trace: &Arc<Trace>);
}

/// A part of a batch's path: through a source, a transform, or a sink with its endpoint.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Id of the component.
    pub component: Arc<str>,
    /// Times at which the batch entered and left the component, measured from the start of the
    /// trace. For a sink, the times of its encoder.
    pub times: (Duration, Duration),
    /// Number of events that entered.
    pub events: usize,
    /// The traced events that entered.
    pub input: Rows,
    /// The traced events that left through each output.
    pub outputs: Vec<(usize, Rows)>,
    /// Result of the stage.
    pub kind: StageKind,
}

/// The result of a stage.
#[derive(Clone, Debug)]
pub enum StageKind {
    /// A transform ran.
    Transform,
    /// The component did not get the events. Sinks downstream of it either had no capacity and get
    /// the events from a later batch, or already have the events.
    Skipped,
    /// The sink's encoder produced nothing for the events.
    NotSent,
    /// The events were encoded for delivery.
    Delivery(DeliveryStage),
}

/// The path of an encoded batch to the endpoint. Times are measured from the start of the trace.
#[derive(Clone, Debug, Default)]
pub struct DeliveryStage {
    /// Time at which the lane first received the batch.
    pub sent: Option<Duration>,
    /// Number of delivery attempts by the sink that failed while the batch was waiting to be
    /// settled.
    pub failures: u32,
    /// Error from the last failed attempt.
    pub error: Option<String>,
    /// Number of events that the endpoint rejected.
    pub refused: u64,
    /// Whether the batch was written to a disk buffer, to be delivered later.
    pub is_buffered: bool,
    /// Time and outcome of the settlement.
    pub settled: Option<(Duration, Outcome)>,
}

/// The path of one batch through the topology. The trace is complete once only one reference to it
/// remains.
pub struct Trace {
    /// Id of the source.
    pub source: Arc<str>,
    /// Wall-clock time at which the source issued the batch and the trace began, in nanoseconds
    /// since 1970.
    pub begun_ns: i64,
    /// Wall-clock time at which the block was read, in nanoseconds since 1970.
    pub read_ns: i64,
    /// Number of events in the batch.
    pub events: usize,
    begun: Instant,
    /// The traced events: the id of each event, and its row in the source's batch.
    traced: Vec<(EventId, usize)>,
    point: SamplePoint,
    progress: Mutex<Progress>,
}

/// The part of a trace that has been recorded so far.
#[derive(Default)]
pub struct Progress {
    /// The stages so far, in the order in which they ended.
    pub stages: Vec<Stage>,
    /// The copied events and their indices in the trace; `None` until they reach the sample point.
    pub sample: Option<(EventSample, Vec<usize>)>,
    /// Counter of the bytes that the listener's samples take; `None` after the trace has ended.
    sample_bytes: Option<Arc<AtomicUsize>>,
}

impl Progress {
    /// Returns the events that have reached the sample point.
    pub fn sampled(&self) -> Rows {
        let events = self.sample.iter().flat_map(|(_, events)| events);
        Rows(events.fold(0, |rows, event| rows | 1 << event))
    }
}

impl Trace {
    /// Begins the trace of a batch that a source has issued.
    pub(crate) fn begin(
        source: &Arc<str>,
        batch: &Batch,
        point: SamplePoint,
        sample_bytes: Arc<AtomicUsize>,
        rows: Vec<usize>,
        now_ns: i64,
    ) -> Arc<Trace> {
        let traced = |row: usize| Some((id_of(batch, row)?, row));
        let trace = Arc::new(Trace {
            source: source.clone(),
            begun_ns: now_ns,
            read_ns: batch.read_ns,
            events: batch.events(),
            begun: Instant::now(),
            traced: rows.into_iter().filter_map(traced).collect(),
            point,
            progress: Mutex::new(Progress {
                sample_bytes: Some(sample_bytes),
                ..Progress::default()
            }),
        });
        trace.sample(TapSide::Output, source, 0, batch, &trace.find(batch));
        trace
    }

    /// Returns the time since the trace began.
    pub fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Returns the traced events that are selected in a batch, as pairs of row and event.
    fn find(&self, batch: &Batch) -> Vec<(usize, usize)> {
        let (mut found, mut missing) = (Vec::with_capacity(self.traced.len()), Vec::new());
        for (event, (id, row)) in self.traced.iter().enumerate() {
            // Most transforms leave a row in place.
            match id_of(batch, *row) {
                Some(here) if here == *id => found.push((*row, event)),
                _ => missing.push((*id, event)),
            }
        }
        found.retain(|(row, _)| batch.is_selected(*row));
        if !missing.is_empty() {
            missing.sort_unstable();
            found.extend(find_moved(batch, &missing));
        }
        found
    }

    /// Copies the found events if this is the sample point of the trace.
    fn sample(&self, side: TapSide, id: &str, output: usize, batch: &Batch, found: &TracedRows) {
        let SamplePoint { side: at, id: at_id, output: at_output } = &self.point;
        if (*at, &**at_id, *at_output) != (side, id, output) || found.is_empty() {
            return;
        }
        let mut progress = self.progress.lock();
        let Some(sample_bytes) = progress.sample_bytes.clone() else { return };
        if progress.sample.is_some() {
            return;
        }
        let mut found = found.to_vec();
        found.sort_unstable();
        // A transform may produce several events from one traced event.
        found.truncate(TRACED_ROWS_MAX);
        let (rows, events): (Vec<usize>, Vec<usize>) = found.into_iter().unzip();
        let sample = batch.sample(&rows);
        sample_bytes.fetch_add(sample.bytes, Ordering::Relaxed);
        progress.sample = Some((sample, events));
    }

    /// Reads the progress so far. Workers that want to record a stage must wait during the call.
    pub fn read<R>(&self, read: impl FnOnce(&Progress) -> R) -> R {
        read(&self.progress.lock())
    }

    /// Ends the trace and returns its progress. Afterward, the trace takes up no memory for events
    /// and records nothing, even if a payload keeps a reference for a long time.
    pub fn end(&self) -> Progress {
        let mut progress = std::mem::take(&mut *self.progress.lock());
        if let (Some(bytes), Some((sample, _))) = (progress.sample_bytes.take(), &progress.sample) {
            bytes.fetch_sub(sample.bytes, Ordering::Relaxed);
        }
        progress
    }

    /// Records that a batch enters a component, at `begun`.
    pub fn enter(self: &Arc<Trace>, batch: &Batch, begun: Instant) -> Entered {
        let input = Rows::of(&self.find(batch));
        let begun = begun.saturating_duration_since(self.begun);
        Entered { trace: self.clone(), begun, events: batch.events(), input, outputs: Vec::new() }
    }

    /// Records that a batch does not enter a component.
    pub fn skip(self: &Arc<Trace>, component: &Arc<str>, batch: &Batch) {
        let stage = self.enter(batch, Instant::now()).stage(component, StageKind::Skipped);
        self.push(stage);
    }

    fn push(&self, stage: Stage) -> Option<usize> {
        let mut progress = self.progress.lock();
        let has_ended = progress.sample_bytes.is_none();
        let stages = &mut progress.stages;
        let has_room = stages.len() < STAGES_MAX && !has_ended;
        has_room.then(|| {
            stages.push(stage);
            stages.len() - 1
        })
    }
}

/// Subtracts the size of the trace's sample from the listener's bytes.
impl Drop for Trace {
    fn drop(&mut self) {
        self.end();
    }
}

/// A traced batch inside a component.
pub struct Entered {
    trace: Arc<Trace>,
    begun: Duration,
    events: usize,
    input: Rows,
    outputs: Vec<(usize, Rows)>,
}

impl Entered {
    /// Records a batch that leaves through an output.
    pub fn output(&mut self, component: &str, output: usize, batch: &Batch) {
        let found = self.trace.find(batch);
        self.trace.sample(TapSide::Output, component, output, batch, &found);
        self.outputs.push((output, Rows::of(&found)));
    }

    /// Records that the component is done with the batch.
    pub fn leave(self, component: &Arc<str>) {
        let trace = self.trace.clone();
        let stage = self.stage(component, StageKind::Transform);
        trace.push(stage);
    }

    /// Records that a sink's encoder is done. Returns the trace of the payload's delivery, unless
    /// there is nothing to send.
    pub fn encoded(
        self,
        sink: &Arc<str>,
        batch: &Batch,
        is_sent: bool,
    ) -> Option<Arc<TracedDelivery>> {
        let trace = self.trace.clone();
        trace.sample(TapSide::Input, sink, 0, batch, &trace.find(batch));
        let kind = match is_sent {
            true => StageKind::Delivery(DeliveryStage::default()),
            false => StageKind::NotSent,
        };
        let stage = trace.push(self.stage(sink, kind))?;
        is_sent.then(|| Arc::new(TracedDelivery { trace, stage }))
    }

    fn stage(self, component: &Arc<str>, kind: StageKind) -> Stage {
        Stage {
            component: component.clone(),
            times: (self.begun, self.trace.age()),
            events: self.events,
            input: self.input,
            outputs: self.outputs,
            kind,
        }
    }
}

/// The delivery of a traced payload.
pub struct TracedDelivery {
    trace: Arc<Trace>,
    stage: usize,
}

impl TracedDelivery {
    fn note(&self, note: impl FnOnce(&mut DeliveryStage, Duration)) {
        let now = self.trace.age();
        let mut progress = self.trace.progress.lock();
        // After the end of the trace, the stage no longer exists.
        if let Some(Stage { kind: StageKind::Delivery(delivery), .. }) =
            progress.stages.get_mut(self.stage)
        {
            note(delivery, now);
        }
    }

    /// Records when the lane first receives the payload.
    pub fn sent(&self) {
        self.note(|delivery, now| delivery.sent = delivery.sent.or(Some(now)));
    }

    /// Records that one of the sink's attempts failed.
    pub fn failed(&self, error: &dyn std::fmt::Display) {
        self.note(|delivery, _| {
            delivery.failures = delivery.failures.saturating_add(1);
            delivery.error = Some(error.to_string());
        });
    }

    /// Records that the endpoint rejected some of the payload's events.
    pub fn refused(&self, events: u64) {
        self.note(|delivery, _| delivery.refused = events);
    }

    /// Records that the payload is durable on disk.
    pub fn buffered(&self) {
        self.note(|delivery, _| delivery.is_buffered = true);
    }

    /// Records an outcome. If the batch has several segments, the time of the last settlement and
    /// the worst outcome count.
    pub(crate) fn settled(&self, outcome: Outcome) {
        self.note(|delivery, now| {
            let before = delivery.settled.map_or(outcome, |(_, before)| before);
            delivery.settled = Some((now, before.max(outcome)));
        });
    }
}

fn id_of(batch: &Batch, row: usize) -> Option<EventId> {
    let segment = batch
        .segments
        .iter()
        .find(|segment| (segment.first_row..segment.first_row + segment.rows).contains(&row))?;
    Some(batch.event_id(segment, row))
}

/// Finds traced events by id among the selected rows. `missing` is sorted by id.
fn find_moved(batch: &Batch, missing: &[(EventId, usize)]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for segment in batch.segments.iter() {
        for row in segment.first_row..segment.first_row + segment.rows {
            let id = batch.event_id(segment, row);
            let at = missing.binary_search_by_key(&id, |(id, _)| *id);
            found.extend(at.ok().filter(|_| batch.is_selected(row)).map(|at| (row, missing[at].1)));
        }
    }
    found
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trace").field("source", &self.source).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
