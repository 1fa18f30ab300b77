//! A ticket: a batch's place in its source's order, and everything the chain made of it.
//!
//! A chain is cut at serial and offload transforms. A ticket runs in *steps*, from the source or a
//! cut to the next cuts and sinks; steps behind different cuts may run at once. A sink is done when
//! no cut that the ticket has not passed leads to it.

use crate::cut::{Claim, Cut, CutSet};
use millstream_model::trace::{Trace, TracedDelivery};
use millstream_model::{Ack, Batch, Payload, Permit, SinkIndex, SinkSet};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Position of a ticket in its source's order, counted from zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TicketNumber(u64);

impl TicketNumber {
    /// Returns the number after this one.
    pub fn next(self) -> TicketNumber {
        TicketNumber(self.0 + 1)
    }

    /// Returns how many tickets come before this one.
    pub fn get(self) -> u64 {
        self.0
    }
}

/// A batch on its way through the chain.
pub(crate) struct Ticket {
    /// Index of the source.
    pub source: usize,
    /// Position in the source's order.
    pub number: TicketNumber,
    /// Acknowledgements of the batch, finished for each sink once the sink is done.
    pub acks: Vec<Ack>,
    /// What it counts for at cuts.
    pub claim: Claim,
    /// Memory for the output of the chain.
    pub permit: Mutex<Permit>,
    /// Follows the batch, if a tap asked for it.
    pub trace: Option<Arc<Trace>>,
    progress: Mutex<Progress>,
    /// The source's number of tickets on their way.
    open: Arc<AtomicU64>,
}

/// How far a ticket is.
struct Progress {
    /// Sinks that are not done.
    pending: SinkSet,
    /// Cuts that it has reached.
    entered: CutSet,
    /// Cuts that it has passed.
    passed: CutSet,
    /// Batches for cuts that it has not reached, by node.
    at_cuts: Vec<(usize, Batch)>,
    /// Payloads for sinks that are not done, in the order they were encoded.
    payloads: Vec<Bound>,
}

/// A payload with its destination.
pub(crate) struct Bound {
    /// Node of the sink.
    pub node: usize,
    /// Index of the sink in sink sets.
    pub sink: SinkIndex,
    /// Lane of the sink.
    pub lane: usize,
    /// The payload.
    pub payload: Payload,
    /// The segments that it delivers.
    pub acks: Vec<Ack>,
    /// Whether the ticket has no later payload for the same lane.
    pub completes: bool,
    /// Follows the payload.
    pub traced: Option<Arc<TracedDelivery>>,
}

/// A part of the chain to run.
pub(crate) struct Step {
    /// Its ticket.
    pub ticket: Arc<Ticket>,
    /// The cut before it; `None` at the source.
    pub cut: Option<usize>,
    /// Batches to run, by node.
    pub inputs: Vec<(usize, Batch)>,
}

/// Batches of a ticket that have reached a cut; there may be none.
pub(crate) struct Arrival {
    /// Their ticket.
    pub ticket: Arc<Ticket>,
    /// The cut.
    pub cut: usize,
    /// The batches.
    pub batches: Vec<Batch>,
}

/// Output of a step; discarded as a whole if the chain panics.
#[derive(Default)]
pub(crate) struct ChainOutput {
    /// Payloads.
    pub payloads: Vec<Bound>,
    /// Batches that have reached a cut, by node.
    pub at_cuts: Vec<(usize, Batch)>,
}

/// What follows from a step.
pub(crate) struct Advance {
    /// Sinks that are done now.
    pub done: SinkSet,
    /// Their payloads.
    pub payloads: Vec<Bound>,
    /// Sinks that are not done.
    pub pending: SinkSet,
    /// Cuts that are reached now, with their batches.
    pub reached: Vec<(usize, Vec<Batch>)>,
}

impl Ticket {
    /// Creates the ticket of a batch from a source with the sinks `downstream`. It counts in `open`
    /// until it drops.
    pub fn new(
        (source, number): (usize, TicketNumber),
        batch: &Batch,
        permit: Permit,
        downstream: SinkSet,
        open: Arc<AtomicU64>,
    ) -> Ticket {
        open.fetch_add(1, Ordering::Relaxed);
        let acks = batch.segments.iter().map(|segment| segment.ack.clone()).collect();
        let bytes = batch.block.len() as u64 + permit.bytes();
        let claim = Claim { sinks: batch.sinks, bytes };
        let progress = Progress {
            pending: downstream,
            entered: CutSet::default(),
            passed: CutSet::default(),
            at_cuts: Vec::new(),
            payloads: Vec::new(),
        };
        let (permit, progress) = (Mutex::new(permit), Mutex::new(progress));
        Ticket { source, number, acks, claim, permit, trace: None, progress, open }
    }

    /// Returns the ticket with a trace of its batch.
    pub fn traced(self, trace: Option<Arc<Trace>>) -> Ticket {
        let mut ticket = self;
        ticket.trace = trace;
        ticket
    }

    /// Records the output of the step behind the cut `passed`. `cuts` are those of the source, in data-flow
    /// order.
    pub fn advance(&self, cuts: &[Cut], passed: Option<usize>, mut made: ChainOutput) -> Advance {
        let mut progress = self.progress.lock();
        progress.payloads.append(&mut made.payloads);
        progress.at_cuts.append(&mut made.at_cuts);
        if let Some(cut) = passed {
            debug_assert!(!progress.passed.contains(cut), "a cut is passed once");
            progress.passed.add(cut);
        }
        let reached = progress.reach(cuts);
        let is_waiting = |(index, _): &(usize, &Cut)| !progress.passed.contains(*index);
        let waiting = cuts.iter().enumerate().filter(is_waiting);
        let waiting = waiting.fold(SinkSet::EMPTY, |all, (_, cut)| all | cut.downstream);
        let done = progress.pending - waiting;
        progress.pending = progress.pending & waiting;
        let payloads =
            progress.payloads.extract_if(.., |bound| done.contains(bound.sink)).collect();
        Advance { done, payloads, pending: progress.pending, reached }
    }
}

impl Progress {
    /// Finds the cuts that all batches for them have reached. Those without a batch are passed; as cuts
    /// come in data-flow order, those behind them are found in the same pass.
    fn reach(&mut self, cuts: &[Cut]) -> Vec<(usize, Vec<Batch>)> {
        let mut reached = Vec::new();
        for (index, cut) in cuts.iter().enumerate() {
            if self.entered.contains(index) || !cut.upstream.is_subset(self.passed) {
                continue;
            }
            self.entered.add(index);
            let here = self.at_cuts.extract_if(.., |(node, _)| *node == cut.node);
            let batches: Vec<Batch> = here.map(|(_, batch)| batch).collect();
            if batches.is_empty() {
                self.passed.add(index);
            }
            reached.push((index, batches));
        }
        reached
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Release);
    }
}
