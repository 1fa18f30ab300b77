//! Polling of sources: which source may read now, and why a source is waiting.

mod capacity;
mod waits;

use super::{CpuLimit, Fed, Nodes, Resources, SourceSlot, Sources};
use crate::index::SourceIndex;
use crate::scheduler::{Again, Job, Woken};
use crate::ticket::{NewTicket, NodeBatch, Step, Ticket};
use capacity::Capacity;
use millstream_model::{Batch, Now, Permit, Polled, SinkSet, SourceCx};
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pause after a source panics.
const PANIC_PAUSE: Duration = Duration::from_secs(1);

/// Polls a topology's sources. Each batch becomes a ticket.
pub(crate) struct Polling {
    nodes: Arc<Nodes>,
    sources: Arc<Sources>,
    resources: Arc<Resources>,
    cpu: CpuLimit,
    /// Locked during updates of which sources are waiting for which lanes.
    pressing: Mutex<()>,
}

impl Polling {
    /// Creates the poller of these sources.
    pub fn new(
        nodes: Arc<Nodes>,
        sources: Arc<Sources>,
        resources: Arc<Resources>,
        cpu: CpuLimit,
    ) -> Polling {
        Polling { nodes, sources, resources, cpu, pressing: Mutex::default() }
    }

    /// Returns the limit on the CPU time of the process.
    pub fn cpu(&self) -> &CpuLimit {
        &self.cpu
    }

    /// Waits for a worker's next job; `None` once the engine is stopped. `known` is the generation
    /// of the topology that the worker uses. While the process exceeds its CPU limit, no source is
    /// polled, but tickets continue.
    pub fn next_job(&self, known: &mut u64) -> Option<Woken> {
        let scheduler = &self.resources.scheduler;
        let begun = self.resources.engine_time();
        let held = match self.cpu.wait(begun) {
            Some(wait) => {
                scheduler.hold(begun + wait);
                wait
            }
            None => Duration::ZERO,
        };
        let woken = scheduler.wait(known, || self.resources.engine_time())?;
        if let Woken::Job(Job::Poll(source)) = &woken
            && !held.is_zero()
        {
            let waited = held.min(self.resources.engine_time() - begun);
            let limit = self.cpu.cores().unwrap_or_default();
            // A reload may have removed the source in the meantime.
            if let Some(slot) = self.sources.find(*source) {
                slot.counters.throttled("cpu", waited, limit);
            }
        }
        Some(woken)
    }

    /// Polls a source; a batch becomes a ticket that is ready to run.
    pub fn poll(&self, source: SourceIndex) -> Option<Step> {
        let slot = self.sources.get(source);
        let now = self.resources.now();
        let begun = Instant::now();
        let polled = self.poll_within_limits(slot, now);
        slot.counters.worked(begun.elapsed());
        let is_waiting = matches!(polled, Polled::Backpressure);
        slot.wait.note(&slot.id, is_waiting, || {
            capacity::lacking_component(slot, &self.nodes, now.since_start)
        });
        let (again, step) = match polled {
            Polled::Batch(batch, permit) => (Again::Now, Some(self.issue(source, *batch, permit))),
            Polled::Wait(pause) => (Again::At(now.since_start + pause), None),
            Polled::Backpressure => (Again::Room, None),
            Polled::Ended => (Again::Ended, None),
        };
        self.resources.scheduler.polled(source, again, now.since_start);
        step
    }

    /// Polls a source unless one of its limits makes it wait. Limits do not apply during shutdown.
    fn poll_within_limits(&self, slot: &SourceSlot, now: Now) -> Polled {
        if !self.resources.scheduler.is_closing()
            && let Err(pause) = slot.may_read(now.since_start)
        {
            self.set_waits(slot, SinkSet::EMPTY);
            return Polled::Wait(pause);
        }
        let before = slot.counters.received_bytes();
        let polled = self.poll_guarded(slot, now);
        slot.note_read(now.since_start, before);
        polled
    }

    /// Polls a source. A panic pauses the source; the data that the source was about to issue is
    /// reread.
    fn poll_guarded(&self, slot: &SourceSlot, now: Now) -> Polled {
        let polled = catch_unwind(AssertUnwindSafe(|| self.poll_source(slot, now)));
        polled.unwrap_or_else(|_| {
            slot.counters.error("panic");
            log::error!(
                "source {}: panic while reading; the source continues in a second",
                slot.id
            );
            Polled::Wait(PANIC_PAUSE)
        })
    }

    fn poll_source(&self, slot: &SourceSlot, now: Now) -> Polled {
        let _entered = slot.counters.enter();
        let scheduler = &self.resources.scheduler;
        let capacity = Capacity::measure(slot, &self.nodes, scheduler, now.since_start);
        let mut cx = SourceCx {
            now,
            info: &slot.info,
            sinks: slot.wiring.downstream,
            ready: capacity.ready,
            blocked: capacity.blocked,
            overflow: capacity.overflow,
            ledger: &slot.ledger,
            counters: &slot.counters,
            until_eof: self.resources.until_eof,
            has_input_ended: slot.fed.as_ref().is_some_and(|fed| self.has_feeder_ended(fed)),
            grant: &self.resources.grant,
            pool: &self.resources.pool,
            expansion: slot.wiring.expansion,
        };
        let polled = slot.source().lock().poll(&mut cx);
        self.note_waits(slot, &capacity, &polled);
        polled
    }

    /// Returns whether the sink that feeds a source will create no more events. This is so if all
    /// its lanes have ended, or, in a run that ends with the data, if the sink has settled
    /// everything that was read for it.
    fn has_feeder_ended(&self, fed: &Fed) -> bool {
        let Some(sink) = self.nodes.slot(fed.sink) else { return true };
        sink.lanes.iter().all(|lane| lane.has_ended())
            || self.resources.until_eof
                && self.sources.has_input_ended(sink)
                && self.sources.is_settled(sink)
    }

    /// Turns a batch into its source's next ticket.
    fn issue(&self, source: SourceIndex, batch: Batch, permit: Permit) -> Step {
        let slot = self.sources.get(source);
        slot.tap.offer(0, &batch);
        let trace = slot.tap.trace(&slot.id, &batch, self.resources.now().unix_ns);
        let ticket = Ticket::new(NewTicket {
            source,
            number: slot.issue(),
            batch: &batch,
            permit,
            downstream: slot.wiring.downstream,
            open: slot.open_tickets(),
            trace,
        });
        for cut in &slot.wiring.cuts {
            cut.expect(ticket.claim);
        }
        let mut inputs = Vec::new();
        NodeBatch::fan_out(&slot.wiring.roots, batch, &mut inputs);
        Step { ticket: Arc::new(ticket), cut: None, inputs }
    }
}
