//! A worker: runs the whole chain on a ticket's batch while it is in cache.

use crate::core::{Core, Node, Op, SinkSlot, fan_out};
use crate::ticket::{Bound, Ticket};
use millstream_model::{
    Batch, ComponentError, EncodeCx, Encoder, Map, Outputs, Payload, Permit, Segment,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

/// A worker's own instances of transforms and encoders.
pub(crate) struct Worker {
    instances: Vec<Instance>,
    /// Current node, for the report of a panic.
    at: usize,
}

enum Instance {
    None,
    Map(Box<dyn Map>),
    Encoder(Box<dyn Encoder>),
}

/// Output of the chain; discarded as a whole if the chain panics.
#[derive(Default)]
struct ChainOutput {
    payloads: Vec<Bound>,
    at_cuts: Vec<(usize, Batch)>,
}

impl Worker {
    /// Creates a worker for `core`, without instances.
    pub fn new(core: &Core) -> Worker {
        Worker { instances: core.nodes.iter().map(|_| Instance::None).collect(), at: 0 }
    }

    /// Runs a ticket up to its next cut or its end.
    pub fn run(&mut self, core: &Core, mut ticket: Box<Ticket>) {
        loop {
            let mut made = ChainOutput::default();
            for (node, batch) in std::mem::take(&mut ticket.inputs) {
                self.guarded(core, node, batch, &mut ticket.permit, &mut made);
            }
            ticket.payloads.append(&mut made.payloads);
            ticket.at_cuts.append(&mut made.at_cuts);
            let Some(&cut) = core.sources[ticket.source].cuts.get(ticket.cuts_passed) else {
                return core.complete(*ticket);
            };
            ticket.cuts_passed += 1;
            match &core.nodes[cut].op {
                Op::Serial(stage) => {
                    return stage.enter(ticket, |serial, ticket| {
                        let now = core.now();
                        core.scheduler.resume(at_cut(core, cut, ticket, |batch, out| {
                            serial.apply(now, batch, out)
                        }));
                    });
                }
                Op::Offload(_, queue) if ticket.at_cuts.iter().any(|(node, _)| *node == cut) => {
                    return queue.push(ticket);
                }
                _ => {}
            }
        }
    }

    /// Runs a node and everything downstream. On a panic the batch is halved until the one event
    /// that causes it is found; that event is rejected and counted, the others are delivered.
    fn guarded(
        &mut self,
        core: &Core,
        node: usize,
        batch: Batch,
        permit: &mut Permit,
        made: &mut ChainOutput,
    ) {
        let mut halves = vec![batch];
        while let Some(batch) = halves.pop() {
            let (payloads, cuts) = (made.payloads.len(), made.at_cuts.len());
            let run = || self.node(core, node, batch.clone(), permit, made);
            if catch_unwind(AssertUnwindSafe(run)).is_ok() {
                continue;
            }
            made.payloads.truncate(payloads);
            made.at_cuts.truncate(cuts);
            self.instances[self.at] = Instance::None;
            if batch.events() > 1 {
                let (first, second) = halve(&batch);
                halves.extend([second, first]);
            } else {
                poisoned(&core.nodes[self.at], &batch);
            }
        }
    }

    fn node(
        &mut self,
        core: &Core,
        index: usize,
        batch: Batch,
        permit: &mut Permit,
        made: &mut ChainOutput,
    ) {
        let node = &core.nodes[index];
        if (batch.sinks & node.downstream).is_empty() || batch.events() == 0 {
            return;
        }
        match &node.op {
            Op::Serial(_) | Op::Offload(..) => made.at_cuts.push((index, batch)),
            Op::Sink(slot) => self.encode(core, index, slot, batch, permit, made),
            Op::Map(make) => {
                if matches!(self.instances[index], Instance::None) {
                    self.instances[index] = Instance::Map(make());
                }
                let Instance::Map(map) = &mut self.instances[index] else { return };
                self.at = index;
                let next = applied(node, batch, |batch, out| map.apply(batch, out));
                for (reader, batch) in next {
                    self.node(core, reader, batch, permit, made);
                }
            }
        }
    }

    fn encode(
        &mut self,
        core: &Core,
        index: usize,
        slot: &SinkSlot,
        batch: Batch,
        permit: &mut Permit,
        made: &mut ChainOutput,
    ) {
        if slot.lanes.len() == 1 {
            return self.encode_lane(core, index, slot, (0, batch), permit, made);
        }
        for (lane, batch) in by_lane(batch, slot.lanes.len()) {
            self.encode_lane(core, index, slot, (lane, batch), permit, made);
        }
    }

    fn encode_lane(
        &mut self,
        core: &Core,
        index: usize,
        slot: &SinkSlot,
        (lane, batch): (usize, Batch),
        permit: &mut Permit,
        made: &mut ChainOutput,
    ) {
        let node = &core.nodes[index];
        if matches!(self.instances[index], Instance::None) {
            self.instances[index] = Instance::Encoder(slot.sink.encoder());
        }
        let Instance::Encoder(encoder) = &mut self.instances[index] else { return };
        self.at = index;
        let begun = Instant::now();
        let events = batch.events() as u64;
        let mut payload = Payload::new(events);
        let mut cx = EncodeCx { pool: &core.pool, permit, counters: &node.counters };
        let result = encoder.encode(&batch, &mut payload, &mut cx);
        node.counters.busy(begun.elapsed());
        node.counters.received(events, batch.text_bytes());
        match result {
            Ok(()) if payload.is_empty() => {}
            Ok(()) => {
                let acks = batch.segments.iter().map(|s| s.ack.clone()).collect();
                made.payloads.push(Bound { node: index, lane, payload, acks });
            }
            Err(error) => refused(node, events, &error),
        }
    }
}

/// Applies a transform to a batch: counts, measures, and finds the readers of its outputs.
fn applied(
    node: &Node,
    batch: Batch,
    apply: impl FnOnce(Batch, &mut Outputs) -> Result<(), ComponentError>,
) -> Vec<(usize, Batch)> {
    let begun = Instant::now();
    let events = batch.events() as u64;
    node.counters.received(events, batch.text_bytes());
    let mut out = Outputs { counters: node.counters.clone(), ..Outputs::default() };
    if let Err(error) = apply(batch, &mut out) {
        refused(node, events, &error);
    }
    if let Some(warning) = out.warning.take() {
        log::warn!("{} {}: {warning}", node.kind, node.id);
    }
    let mut next = Vec::new();
    for (output, batch) in out.batches {
        node.counters.sent(batch.events() as u64, batch.text_bytes());
        match node.outputs.get(output) {
            Some(readers) if !readers.is_empty() => fan_out(readers, batch, &mut next),
            // An output without a reader is normal; a rejected event without one is not.
            _ => {
                let reason = if out.rejected == Some(output) { "rejected" } else { "unread" };
                node.counters.dropped(reason, batch.events() as u64);
            }
        }
    }
    node.counters.busy(begun.elapsed());
    next
}

/// Runs the batches that wait at the cut `index`; their output becomes the ticket's next input.
pub(crate) fn at_cut(
    core: &Core,
    index: usize,
    mut ticket: Box<Ticket>,
    mut apply: impl FnMut(Batch, &mut Outputs) -> Result<(), ComponentError>,
) -> Box<Ticket> {
    let node = &core.nodes[index];
    let source = &core.sources[ticket.source];
    let mut apply = |batch, out: &mut Outputs| {
        let applied = apply(batch, out);
        out.pause.iter().for_each(|pause| source.pause(core.now().since_start, *pause));
        applied
    };
    for batch in ticket.take_cut(index) {
        let run = || applied(node, batch.clone(), &mut apply);
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(next) => ticket.inputs.extend(next),
            // Half of the batch may have changed the state: halving it would count twice.
            Err(_) => poisoned(node, &batch),
        }
    }
    ticket
}

fn refused(node: &Node, events: u64, error: &ComponentError) {
    node.counters.error(error.kind);
    node.counters.dropped(error.kind, events);
    log::error!("{} {}: {events} events rejected: {error}", node.kind, node.id);
}

/// Counts events whose processing panics, and logs the first one.
fn poisoned(node: &Node, batch: &Batch) {
    node.counters.error("panic");
    node.counters.dropped("panic", batch.events() as u64);
    let row = (0..batch.rows()).find(|row| batch.is_selected(*row)).unwrap_or(0);
    let segment =
        batch.segments.iter().find(|s| (s.first_row..s.first_row + s.rows).contains(&row));
    let place = segment
        .map_or(String::new(), |s| format!("{} offset {}", s.origin.name, batch.offset(s, row)));
    let text =
        String::from_utf8_lossy(&batch.text(row)[..batch.text_len(row).min(200)]).into_owned();
    log::error!("{} {}: panic, event rejected ({place}): {text:?}", node.kind, node.id);
}

/// Splits the selected rows in two.
fn halve(batch: &Batch) -> (Batch, Batch) {
    let selected: Vec<usize> = (0..batch.rows()).filter(|row| batch.is_selected(*row)).collect();
    let middle = selected[selected.len() / 2];
    let (mut first, mut second) = (batch.clone(), batch.clone());
    first.select_range(0, middle);
    second.select_range(middle, batch.rows());
    (first, second)
}

/// Splits a batch by lane: an origin always uses the same lane.
fn by_lane(batch: Batch, lanes: usize) -> Vec<(usize, Batch)> {
    let lane_of = |segment: &Segment| (segment.origin.id % lanes as u64) as usize;
    let of_lane = |lane: usize| -> Option<(usize, Batch)> {
        let segments: Arc<[Segment]> =
            batch.segments.iter().filter(|s| lane_of(s) == lane).cloned().collect();
        if segments.is_empty() {
            return None;
        }
        let mut part = batch.clone();
        if segments.len() < batch.segments.len() {
            part.select(rows_of(&segments, batch.rows()));
        }
        part.segments = segments;
        Some((lane, part))
    };
    (0..lanes).filter_map(of_lane).collect()
}

fn rows_of(segments: &[Segment], rows: usize) -> millstream_model::Selection {
    let inside =
        |row: usize| segments.iter().any(|s| (s.first_row..s.first_row + s.rows).contains(&row));
    millstream_model::Selection::collect_bool(rows, inside)
}
