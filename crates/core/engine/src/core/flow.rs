//! The path of a batch after the chain: payloads go to the lanes in ticket order, and batches go to
//! the serial and offload transforms.

mod calls;
mod cuts;

pub(crate) use calls::FinishedCall;

use super::{Nodes, Op, Resources, SourceSlot, Sources};
use crate::buffer::WhenFull;
use crate::ticket::{Advance, Arrival, Bound, ChainOutput, FinishedStep, Reached, Ticket};
use millstream_model::{Ack, SinkSet};
use std::sync::Arc;

/// Takes the chain's output for a batch, and passes it on: payloads to the lanes, and batches to
/// serial and offload transforms.
pub(crate) struct Flow {
    nodes: Arc<Nodes>,
    sources: Arc<Sources>,
    resources: Arc<Resources>,
}

impl Flow {
    /// Creates a topology's flow.
    pub fn new(nodes: Arc<Nodes>, sources: Arc<Sources>, resources: Arc<Resources>) -> Flow {
        Flow { nodes, sources, resources }
    }

    /// Takes a step that a worker has run: releases the payloads of the sinks that are done, and
    /// passes batches to the cuts that the ticket has reached.
    pub fn take(&self, step: FinishedStep) {
        let FinishedStep { ticket, cut, mut made } = step;
        let source = self.sources.get(ticket.source);
        owe(&mut made);
        let Advance { done, payloads, pending, reached } =
            ticket.advance(&source.wiring.cuts, cut, made);
        if !pending.is_empty() {
            self.return_surplus(&ticket, pending);
        }
        for ack in &ticket.acks {
            ack.finish_for(done);
        }
        self.release(source, &ticket, done, payloads);
        for Reached { cut, .. } in reached.iter().filter(|reached| reached.batches.is_empty()) {
            self.pass_cut(&ticket, *cut);
        }
        for Reached { cut, batches } in reached {
            self.enter(Arrival { ticket: ticket.clone(), cut, batches });
        }
    }

    /// Releases the memory that a waiting ticket does not need for its pending sinks.
    fn return_surplus(&self, ticket: &Ticket, pending: SinkSet) {
        let need = self.nodes.expansion(pending);
        let mut permit = ticket.permit.lock();
        if permit.bytes() > need {
            permit.resize(need);
        }
    }

    /// Passes a ticket's payloads to the lanes of the sinks that are done, after the payloads of
    /// earlier tickets.
    fn release(&self, source: &SourceSlot, ticket: &Ticket, done: SinkSet, payloads: Vec<Bound>) {
        let joined = self.join(payloads).into_iter();
        // `collect` reuses the memory of the vector.
        let mut admitted: Vec<Bound> =
            joined.filter_map(|bound| self.admit(source, bound)).collect();
        mark_last(&mut admitted);
        source.finish(ticket.number, done, admitted, |bound| self.put(source, bound));
    }

    /// Joins all of a ticket's payloads for a merge transform. Otherwise, a snapshot between two
    /// payloads would cause the first one to be counted twice after a restart.
    fn join(&self, payloads: Vec<Bound>) -> Vec<Bound> {
        let counts_once = |bound: &Bound| {
            let slot = self.nodes.get(bound.node).sink();
            slot.is_some_and(|slot| slot.feed.is_of_results())
        };
        let mut joined: Vec<Bound> = Vec::with_capacity(payloads.len());
        for bound in payloads {
            let first = joined.iter_mut().find(|first| first.node == bound.node);
            match first.filter(|_| counts_once(&bound)) {
                Some(first) => first.payload.join(bound.payload),
                None => joined.push(bound),
            }
        }
        joined
    }

    /// Admits a payload that may have to wait for its turn, and counts its bytes. Returns `None` if
    /// the payload is dropped: the sink drops events when it is full, earlier tickets are waiting
    /// at a transform, and the waiting payloads already fill the sink's buffer.
    fn admit(&self, source: &SourceSlot, bound: Bound) -> Option<Bound> {
        let node = self.nodes.get(bound.node);
        let Op::Sink(slot) = &node.op else { return None };
        let bytes = bound.payload.queue_bytes();
        let drops = slot.buffer.when_full != WhenFull::Block && slot.is_unreleased_full(bytes);
        if drops && source.wiring.cuts.iter().any(|cut| cut.tickets() > 0) {
            slot.shed(node, bound.payload, self.resources.engine_time());
            return None;
        }
        slot.add_unreleased(bytes);
        Some(bound)
    }

    /// Queues a payload whose turn has come.
    fn put(&self, source: &SourceSlot, bound: Bound) {
        let node = self.nodes.get(bound.node);
        let Op::Sink(slot) = &node.op else { return };
        let bytes = bound.payload.queue_bytes();
        slot.put(node, source, bound, self.resources.engine_time());
        slot.subtract_unreleased(bytes);
    }
}

/// Assigns to each payload the debts for the segments that it delivers.
fn owe(made: &mut ChainOutput) {
    for bound in &mut made.payloads {
        let acks = std::mem::take(&mut bound.acks);
        let hold = |ack: &Ack| Some(ack.hold(bound.sink)?.traced(bound.traced.clone()));
        bound.payload.owe(acks.iter().filter_map(hold));
    }
}

/// Sets `completes` on each payload that is its ticket's last one for its lane.
fn mark_last(payloads: &mut [Bound]) {
    for index in 0..payloads.len() {
        let node = payloads[index].node;
        let lane = payloads[index].lane;
        let mut later = payloads[index + 1..].iter();
        payloads[index].completes = !later.any(|other| (other.node, other.lane) == (node, lane));
    }
}
