//! A ticket: a batch's place in its source's order, and everything the chain produces from the
//! batch.
//!
//! A chain is cut at serial and offload transforms. A ticket runs in *steps*, from the source or a
//! cut to the next cuts and sinks; steps after different cuts may run in parallel. A sink is done
//! when the ticket has passed every cut upstream of the sink.

use crate::cut::{Claim, Cut, CutSet};
use crate::index::{CutIndex, LaneIndex, NodeIndex, SourceIndex};
use millstream_model::trace::{Trace, TracedDelivery};
use millstream_model::{Ack, Batch, Payload, Permit, SinkIndex, SinkSet};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Position of a ticket in its source's order, counted from zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TicketNumber(u64);

impl TicketNumber {
    /// Returns the next number.
    pub fn next(self) -> TicketNumber {
        TicketNumber(self.0 + 1)
    }

    /// Returns how many tickets come before this ticket.
    pub fn get(self) -> u64 {
        self.0
    }
}

/// A batch on its way through the chain.
pub(crate) struct Ticket {
    /// The source that read the batch.
    pub source: SourceIndex,
    /// Position in the source's order.
    pub number: TicketNumber,
    /// The batch's acknowledgements, finished for each sink once the sink is done.
    pub acks: Vec<Ack>,
    /// The ticket's share of the load at cuts.
    pub claim: Claim,
    /// Memory for the chain's output.
    pub permit: Mutex<Permit>,
    /// Traces the batch, if a tap requested a trace.
    pub trace: Option<Arc<Trace>>,
    progress: Mutex<Progress>,
    /// Counter of the source's tickets in progress.
    open: Arc<AtomicU64>,
}

/// The values that a new ticket needs.
pub(crate) struct NewTicket<'a> {
    pub source: SourceIndex,
    pub number: TicketNumber,
    pub batch: &'a Batch,
    /// Memory for the chain's output.
    pub permit: Permit,
    /// The sinks downstream of the source.
    pub downstream: SinkSet,
    /// Counts the ticket until it is dropped.
    pub open: Arc<AtomicU64>,
    pub trace: Option<Arc<Trace>>,
}

/// How far a ticket has come.
struct Progress {
    /// Sinks that are not done.
    pending: SinkSet,
    /// Cuts that the ticket has reached.
    entered: CutSet,
    /// Cuts that the ticket has passed.
    passed: CutSet,
    /// Batches for cuts that the ticket has not entered yet.
    at_cuts: Vec<NodeBatch>,
    /// Payloads for sinks that are not done, in the order they were encoded.
    payloads: Vec<Bound>,
}

/// A batch for a node.
pub(crate) struct NodeBatch {
    pub node: NodeIndex,
    pub batch: Batch,
}

impl NodeBatch {
    /// Adds `batch` to `inputs` for every reader. The last reader gets it without a clone.
    pub fn fan_out(readers: &[NodeIndex], batch: Batch, inputs: &mut Vec<NodeBatch>) {
        let [rest @ .., last] = readers else { return };
        for node in rest {
            inputs.push(NodeBatch { node: *node, batch: batch.clone() });
        }
        inputs.push(NodeBatch { node: *last, batch });
    }
}

/// A payload with its destination.
pub(crate) struct Bound {
    /// Node of the sink.
    pub node: NodeIndex,
    /// Index of the sink in sink sets.
    pub sink: SinkIndex,
    /// Index of the lane among the sink's lanes.
    pub lane: LaneIndex,
    pub payload: Payload,
    /// The segments that the payload delivers.
    pub acks: Vec<Ack>,
    /// Whether the ticket has no later payload for the same lane.
    pub completes: bool,
    /// Traces the payload.
    pub traced: Option<Arc<TracedDelivery>>,
}

/// A part of the chain to run.
pub(crate) struct Step {
    pub ticket: Arc<Ticket>,
    /// The cut before the step; `None` at the source.
    pub cut: Option<CutIndex>,
    /// Batches to run.
    pub inputs: Vec<NodeBatch>,
}

/// A step that has run.
pub(crate) struct FinishedStep {
    pub ticket: Arc<Ticket>,
    /// The cut before the step; `None` at the source.
    pub cut: Option<CutIndex>,
    /// The chain's output.
    pub made: ChainOutput,
}

/// A ticket's batches at a cut that the ticket has reached; possibly none.
pub(crate) struct Arrival {
    pub ticket: Arc<Ticket>,
    pub cut: CutIndex,
    pub batches: Vec<Batch>,
}

/// Output of a step; discarded as a whole if the chain panics.
#[derive(Default)]
pub(crate) struct ChainOutput {
    /// Encoded payloads.
    pub payloads: Vec<Bound>,
    /// Batches that have reached the node of a cut.
    pub at_cuts: Vec<NodeBatch>,
}

/// The result of recording a step.
pub(crate) struct Advance {
    /// Sinks that have become done.
    pub done: SinkSet,
    /// The payloads for the sinks in `done`.
    pub payloads: Vec<Bound>,
    /// Sinks that are not done.
    pub pending: SinkSet,
    /// Cuts that the ticket has just reached.
    pub reached: Vec<Reached>,
}

/// A cut that a ticket has reached.
pub(crate) struct Reached {
    pub cut: CutIndex,
    /// The batches for the cut; possibly none.
    pub batches: Vec<Batch>,
}

impl Ticket {
    /// Creates the ticket of a batch.
    pub fn new(new: NewTicket<'_>) -> Ticket {
        let NewTicket { source, number, batch, permit, downstream, open, trace } = new;
        open.fetch_add(1, Ordering::Relaxed);
        let bytes = batch.block.len() as u64 + permit.bytes();
        Ticket {
            source,
            number,
            acks: batch.segments.iter().map(|segment| segment.ack.clone()).collect(),
            claim: Claim { sinks: batch.sinks, bytes },
            permit: Mutex::new(permit),
            trace,
            progress: Mutex::new(Progress {
                pending: downstream,
                entered: CutSet::default(),
                passed: CutSet::default(),
                at_cuts: Vec::new(),
                payloads: Vec::new(),
            }),
            open,
        }
    }

    /// Records the output of the step after the cut `passed`. `cuts` are the source's cuts, in
    /// data-flow order.
    pub fn advance(
        &self,
        cuts: &[Cut],
        passed: Option<CutIndex>,
        mut made: ChainOutput,
    ) -> Advance {
        let mut progress = self.progress.lock();
        progress.payloads.append(&mut made.payloads);
        progress.at_cuts.append(&mut made.at_cuts);
        if let Some(cut) = passed {
            debug_assert!(!progress.passed.contains(cut), "a cut is passed once");
            progress.passed.add(cut);
        }
        let reached = progress.reach(cuts);
        let mut waiting = SinkSet::EMPTY;
        for (index, cut) in cuts.iter().enumerate() {
            if !progress.passed.contains(CutIndex::new(index)) {
                waiting = waiting | cut.downstream;
            }
        }
        let done = progress.pending - waiting;
        progress.pending = progress.pending & waiting;
        let payloads =
            progress.payloads.extract_if(.., |bound| done.contains(bound.sink)).collect();
        Advance { done, payloads, pending: progress.pending, reached }
    }
}

impl Progress {
    /// Finds the cuts that no further batch can reach, and takes their batches. Cuts without a
    /// batch count as passed. Because the cuts are in data-flow order, the same pass also finds the
    /// cuts after these.
    fn reach(&mut self, cuts: &[Cut]) -> Vec<Reached> {
        let mut reached = Vec::new();
        for (index, cut) in cuts.iter().enumerate() {
            let index = CutIndex::new(index);
            if self.entered.contains(index) || !cut.upstream.is_subset(self.passed) {
                continue;
            }
            self.entered.add(index);
            let here = self.at_cuts.extract_if(.., |input| input.node == cut.node);
            let batches: Vec<Batch> = here.map(|input| input.batch).collect();
            if batches.is_empty() {
                self.passed.add(index);
            }
            reached.push(Reached { cut: index, batches });
        }
        reached
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Release);
    }
}
