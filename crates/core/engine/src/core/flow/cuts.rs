//! Batches at serial and offload transforms.

use super::Flow;
use crate::core::Op;
use crate::index::CutIndex;
use crate::ticket::{Arrival, Step, Ticket};
use millstream_model::{Batch, ComponentError, Outputs};
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Flow {
    /// Passes batches to the cut that they have reached. The batches are dropped if the cut has no
    /// room and every sink after it drops events when it is full.
    pub(super) fn enter(&self, mut arrival: Arrival) {
        let cut = self.sources.get(arrival.ticket.source).cut(arrival.cut);
        let node = self.nodes.get(cut.node);
        if cut.sheds && cut.is_overfull(arrival.ticket.claim) && !arrival.batches.is_empty() {
            let events = arrival.batches.drain(..).map(|batch| batch.events() as u64).sum();
            node.counters.dropped("buffer_full", events);
            let ticket = arrival.ticket.clone();
            self.pass_cut(&arrival.ticket, arrival.cut);
            let step = Step { ticket, cut: Some(arrival.cut), inputs: Vec::new() };
            self.resources.scheduler.resume(step);
        }
        let is_waiting = !arrival.batches.is_empty();
        if is_waiting {
            cut.enter();
        }
        match &node.op {
            Op::Serial(stage) => stage.enter(arrival, |serial, arrival| {
                let now = self.resources.now();
                let step = self.apply(arrival, |batch, out| serial.apply(now, batch, out));
                self.resources.scheduler.resume(step);
            }),
            Op::Offload(queue) if is_waiting => {
                self.resources.offload.push(queue, arrival, self.resources.engine_time());
            }
            Op::Offload(_) | Op::Map(_) | Op::Sink(_) => {}
        }
    }

    /// Applies a serial transform to batches at its cut; returns the ticket's next step.
    fn apply(
        &self,
        mut arrival: Arrival,
        mut apply: impl FnMut(Batch, &mut Outputs) -> Result<(), ComponentError>,
    ) -> Step {
        let source = self.sources.get(arrival.ticket.source);
        let node = self.nodes.get(source.cut(arrival.cut).node);
        let mut apply = |batch, out: &mut Outputs| {
            let applied = apply(batch, out);
            if let Some(pause) = out.pause {
                source.pause(self.resources.engine_time(), pause);
            }
            applied
        };
        let mut inputs = Vec::new();
        for batch in std::mem::take(&mut arrival.batches) {
            let trace = arrival.ticket.trace.as_ref();
            let run = || node.apply(batch.clone(), trace, &mut apply);
            match catch_unwind(AssertUnwindSafe(run)) {
                Ok(next) => inputs.extend(next),
                // Part of the batch may already have changed the state, so repeating the call with
                // halves would count that part twice.
                Err(_) => node.reject_panicking(&batch),
            }
        }
        self.leave_cut(&arrival);
        Step { ticket: arrival.ticket, cut: Some(arrival.cut), inputs }
    }

    /// Records that waiting batches continue after their cut.
    pub(super) fn leave_cut(&self, arrival: &Arrival) {
        self.sources.get(arrival.ticket.source).cut(arrival.cut).leave();
        self.pass_cut(&arrival.ticket, arrival.cut);
    }

    /// Records that a ticket has passed a cut, and polls the sources that are waiting for capacity
    /// there.
    pub(super) fn pass_cut(&self, ticket: &Ticket, cut: CutIndex) {
        if self.sources.get(ticket.source).cut(cut).pass(ticket.claim) {
            self.resources.scheduler.wake_for_room();
        }
    }
}
