//! A worker, which runs the whole chain on a ticket's batch while the batch is in cache.

mod refusals;

use crate::core::{Core, Node, Nodes, Op, SinkSlot};
use crate::index::{LaneIndex, NodeIndex};
use crate::ticket::{Bound, ChainOutput, FinishedStep, NodeBatch, Step};
use millstream_model::trace::{Trace, TracedDelivery};
use millstream_model::{
    Batch, BlockPool, EncodeCx, Encoder, Map, Payload, Permit, Segment, Selection, Sink,
};
use millstream_recorder::recorder;
use millstream_recorder::schema::EventKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

/// A worker, with instances of a topology's transforms and encoders.
pub(crate) struct Worker {
    nodes: Arc<Nodes>,
    pool: Arc<BlockPool>,
    /// One instance for each node.
    instances: Vec<Instance>,
}

/// A worker's instance of a transform or encoder, created when the node's first batch arrives.
enum Instance {
    None,
    Map(Box<dyn Map>),
    Encoder(Box<dyn Encoder>),
}

impl Instance {
    /// Returns the transform, created by `make` if there is no instance yet. `None` if the node is
    /// a sink.
    fn map(&mut self, make: &dyn Fn() -> Box<dyn Map>) -> Option<&mut dyn Map> {
        if matches!(self, Instance::None) {
            *self = Instance::Map(make());
        }
        match self {
            Instance::Map(map) => Some(&mut **map),
            Instance::None | Instance::Encoder(_) => None,
        }
    }

    /// Returns the encoder, created if there is no instance yet. `None` if the node is a transform.
    fn encoder(&mut self, sink: &dyn Sink) -> Option<&mut dyn Encoder> {
        if matches!(self, Instance::None) {
            *self = Instance::Encoder(sink.encoder());
        }
        match self {
            Instance::Encoder(encoder) => Some(&mut **encoder),
            Instance::None | Instance::Map(_) => None,
        }
    }
}

impl Worker {
    /// Creates a worker for `core`, without instances.
    pub fn new(core: &Core) -> Worker {
        let nodes = core.nodes().clone();
        let instances = (0..nodes.len()).map(|_| Instance::None).collect();
        Worker { nodes, pool: core.resources().pool.clone(), instances }
    }

    /// Runs a step up to the next cuts and sinks.
    pub fn run(&mut self, step: Step) -> FinishedStep {
        let Step { ticket, cut, inputs } = step;
        let mut permit = ticket.permit.lock();
        let mut run = StepRun {
            nodes: &self.nodes,
            pool: &self.pool,
            instances: &mut self.instances,
            at: NodeIndex::default(),
            trace: ticket.trace.as_ref(),
            permit: &mut permit,
            made: ChainOutput::default(),
        };
        for NodeBatch { node, batch } in inputs {
            run.guarded(node, batch);
        }
        let made = run.made;
        drop(permit);
        FinishedStep { ticket, cut, made }
    }
}

/// The state of a step while a worker runs it.
struct StepRun<'a> {
    nodes: &'a Nodes,
    pool: &'a Arc<BlockPool>,
    instances: &'a mut [Instance],
    /// Current node, for reporting a panic.
    at: NodeIndex,
    /// Records the batch's path, if a tap requested a trace.
    trace: Option<&'a Arc<Trace>>,
    permit: &'a mut Permit,
    made: ChainOutput,
}

impl<'a> StepRun<'a> {
    /// Runs a node and everything downstream. After a panic, the batch is halved until the event
    /// that causes the panic is found. That event is rejected and counted; the other events are
    /// delivered.
    fn guarded(&mut self, node: NodeIndex, batch: Batch) {
        let mut halves = vec![batch];
        while let Some(batch) = halves.pop() {
            let payloads = self.made.payloads.len();
            let cuts = self.made.at_cuts.len();
            let run = || self.run_node(node, batch.clone());
            if catch_unwind(AssertUnwindSafe(run)).is_ok() {
                continue;
            }
            self.made.payloads.truncate(payloads);
            self.made.at_cuts.truncate(cuts);
            self.instances[self.at.get()] = Instance::None;
            if batch.events() > 1 {
                let (first, second) = halve(&batch);
                halves.extend([second, first]);
            } else {
                self.nodes.get(self.at).reject_panicking(&batch);
            }
        }
    }

    fn run_node(&mut self, index: NodeIndex, batch: Batch) {
        let node = self.nodes.get(index);
        if batch.events() == 0 {
            return;
        }
        if (batch.sinks & node.downstream).is_empty() {
            if let Some(trace) = self.trace {
                trace.skip(&node.id, &batch);
            }
            return;
        }
        match &node.op {
            Op::Serial(_) | Op::Offload(_) => {
                self.made.at_cuts.push(NodeBatch { node: index, batch });
            }
            Op::Sink(slot) => self.encode(Encoding { index, node, slot }, batch),
            Op::Map(make) => {
                let instance = &mut self.instances[index.get()];
                let Some(map) = instance.map(&**make) else { return };
                self.at = index;
                let next = node.apply(batch, self.trace, |batch, out| map.apply(batch, out));
                for NodeBatch { node, batch } in next {
                    self.run_node(node, batch);
                }
            }
        }
    }

    /// Encodes a batch for a sink's lanes.
    fn encode(&mut self, encoding: Encoding<'a>, batch: Batch) {
        let lanes = encoding.slot.lanes.len();
        if lanes == 1 {
            return self.encode_lane(encoding, LaneIndex::default(), batch);
        }
        for LaneBatch { lane, batch } in by_lane(batch, lanes) {
            self.encode_lane(encoding, lane, batch);
        }
    }

    fn encode_lane(&mut self, encoding: Encoding<'a>, lane: LaneIndex, batch: Batch) {
        let Encoding { index, node, slot } = encoding;
        let instance = &mut self.instances[index.get()];
        let Some(encoder) = instance.encoder(&*slot.sink) else { return };
        self.at = index;
        node.tap.offer(0, &batch);
        let _entered = node.counters.enter();
        let begun = Instant::now();
        let timer = recorder::start(EventKind::BatchStage);
        let traced = self.trace.map(|trace| trace.enter(&batch, begun));
        let events = batch.events() as u64;
        let bytes = batch.text_bytes();
        let mut payload = Payload::new(events);
        let mut refused_rows = slot.feed.keeps_refused().then(Vec::new);
        let mut cx = EncodeCx {
            pool: self.pool,
            permit: self.permit,
            counters: &node.counters,
            refused: refused_rows.as_mut(),
        };
        let result = encoder.encode(&batch, &mut payload, &mut cx);
        if let (Some(rows), Ok(())) = (refused_rows, &result) {
            refusals::note(&batch, &rows, &mut payload, self.permit);
        }
        node.counters.worked(begun.elapsed());
        node.counters.record_stage(timer, events, bytes);
        node.counters.received(events, bytes);
        let is_sent = result.is_ok() && !payload.is_empty();
        let traced = traced.and_then(|traced| traced.encoded(&node.id, &batch, is_sent));
        if let Err(error) = result {
            node.refuse(events, &error);
        } else if !payload.is_empty() {
            self.made.payloads.push(encoding.bound(lane, payload, &batch, traced));
        }
    }
}

/// The sink for which a batch is encoded.
#[derive(Clone, Copy)]
struct Encoding<'a> {
    index: NodeIndex,
    node: &'a Node,
    slot: &'a SinkSlot,
}

impl Encoding<'_> {
    /// Addresses a payload, encoded from a batch, to one of the sink's lanes.
    fn bound(
        self,
        lane: LaneIndex,
        payload: Payload,
        batch: &Batch,
        traced: Option<Arc<TracedDelivery>>,
    ) -> Bound {
        Bound {
            node: self.index,
            sink: self.slot.index,
            lane,
            payload,
            acks: batch.segments.iter().map(|segment| segment.ack.clone()).collect(),
            completes: true,
            traced,
        }
    }
}

/// The part of a batch for one of a sink's lanes.
struct LaneBatch {
    lane: LaneIndex,
    batch: Batch,
}

/// Splits the selected rows into two halves.
fn halve(batch: &Batch) -> (Batch, Batch) {
    let selected: Vec<usize> = (0..batch.rows()).filter(|row| batch.is_selected(*row)).collect();
    let middle = selected[selected.len() / 2];
    let mut first = batch.clone();
    let mut second = batch.clone();
    first.select_range(0, middle);
    second.select_range(middle, batch.rows());
    (first, second)
}

/// Splits a batch by lane. An origin always uses the same lane.
fn by_lane(batch: Batch, lanes: usize) -> Vec<LaneBatch> {
    let lane_of = |segment: &Segment| (segment.origin.id.0 % lanes as u64) as usize;
    let mut parts = Vec::new();
    for lane in 0..lanes {
        let selected = batch.segments.iter().filter(|segment| lane_of(segment) == lane);
        let segments: Arc<[Segment]> = selected.cloned().collect();
        if segments.is_empty() {
            continue;
        }
        let mut part = batch.clone();
        if segments.len() < batch.segments.len() {
            part.select(rows_of(&segments, batch.rows()));
        }
        part.segments = segments;
        parts.push(LaneBatch { lane: LaneIndex::new(lane), batch: part });
    }
    parts
}

/// Returns the rows in these segments.
fn rows_of(segments: &[Segment], rows: usize) -> Selection {
    let is_inside =
        |row: usize| segments.iter().any(|s| (s.first_row..s.first_row + s.rows).contains(&row));
    Selection::collect_bool(rows, is_inside)
}
