//! The built topology, and what its threads share.

mod backpressure;
mod commits;
mod disks;
mod expansion;
mod sink_slot;
mod waits;

pub(crate) use expansion::chain_expansion;
pub(crate) use sink_slot::SinkSlot;
pub(crate) use waits::CapacityWait;

use crate::buffer::WhenFull;
use crate::clock::Clock;
use crate::cut::{Cut, Load};
use crate::feed_source;
use crate::governor::MemoryState;
use crate::limits::{FULL_AFTER, TICKETS_ON_THE_WAY};
use crate::offload::{OffloadPool, OffloadQueue};
use crate::pace::{CpuCeiling, Pace, Pause, Rate};
use crate::release::Release;
use crate::removed::{RemovedCounters, RemovedSources};
use crate::scheduler::{Again, Job, Scheduler, Woken};
use crate::stage::SerialStage;
use crate::ticket::{Arrival, Bound, ChainOutput, Step, Ticket, TicketNumber};
use millstream_model::tap::TapPoint;
use millstream_model::{
    Ack, Aside, BlockPool, Counters, EngineTime, Feed, Grant, Kind, Ledger, Map, Now, Polled,
    SinkIndex, SinkSet, Source, SourceCx, SourceInfo, Unreadable,
};
use millstream_store::Store;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Whether a component is kept, by kind and id.
pub(crate) type IsKept<'a> = dyn Fn(Kind, &str) -> bool + 'a;

/// The component whose sink feeds a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Feeder {
    /// A transform for results; a sink for events that it refused.
    pub kind: Kind,
    /// Its id.
    pub id: Arc<str>,
}

/// What feeds a source.
#[derive(Clone)]
pub(crate) struct Fed {
    pub feeder: Feeder,
    /// Its index in sink sets.
    pub sink: SinkIndex,
    pub feed: Arc<Feed>,
}

/// A source in the topology. State that outlives a reload is shared with the slot that replaces it.
pub(crate) struct SourceSlot {
    pub id: Arc<str>,
    pub type_name: &'static str,
    pub info: Arc<SourceInfo>,
    /// The sink that feeds it, if one does.
    pub fed: Option<Fed>,
    pub source: Arc<Mutex<Box<dyn Source>>>,
    /// Its index, for those who wake it.
    pub place: Arc<AtomicUsize>,
    /// Nodes that read from it.
    pub roots: Vec<usize>,
    /// Serial and offload nodes that its batches pass, in data-flow order.
    pub cuts: Vec<Cut>,
    pub downstream: SinkSet,
    pub ledger: Arc<Ledger>,
    pub counters: Arc<Counters>,
    pub unreadable: Arc<Unreadable>,
    pub release: Mutex<Release>,
    /// Tickets on their way.
    pub open_tickets: Arc<AtomicU64>,
    /// Most bytes that its chain makes of one block.
    pub expansion: u64,
    pub pace: Pace,
    /// See [`Source::is_live`].
    pub is_live: bool,
    /// See [`Source::can_wait`].
    pub can_wait: bool,
    /// See [`Source::reads_again`].
    pub reads_again: bool,
    /// See [`Source::overflows`].
    pub overflows: bool,
    /// The memory that it holds in addition to its blocks.
    pub aside: Arc<Aside>,
    /// Its rate limiter, if it has one.
    pub rate: Option<Arc<Mutex<Rate>>>,
    /// It is not polled in it: a transform asked for that.
    pub pause: Mutex<Pause>,
    /// Its wait for capacity, if it waits.
    pub wait: CapacityWait,
    /// Where taps get what it reads.
    pub tap: Arc<TapPoint>,
}

impl SourceSlot {
    /// Whether it may read now; otherwise how long it must wait.
    fn may_read(&self, now: EngineTime) -> Result<(), Duration> {
        let paused = self.pause.lock().ask(now)?;
        self.was_paused(paused);
        let Some(rate) = &self.rate else { return Ok(()) };
        let mut rate = rate.lock();
        let waited = rate.ask(now)?;
        let rate_per_second = rate.per_second();
        drop(rate);
        if !waited.is_zero() {
            self.counters.throttled("rate_limit", waited, rate_per_second);
        }
        Ok(())
    }

    /// Pauses it for this long.
    pub fn pause(&self, now: EngineTime, pause: Duration) {
        let ended = self.pause.lock().extend(now, pause);
        self.was_paused(ended);
    }

    fn was_paused(&self, time: Duration) {
        if !time.is_zero() {
            self.counters.waited("throttle", time);
        }
    }

    /// Returns the limit that keeps it from reading, and for how long already.
    pub fn held_back(&self, now: EngineTime) -> Option<(&'static str, Duration)> {
        let by_throttle = self.pause.lock().lasted(now).map(|time| ("throttle", time));
        let by_rate = || self.rate.as_ref().and_then(|rate| rate.lock().waiting(now));
        by_throttle.or_else(|| by_rate().map(|time| ("rate_limit", time)))
    }

    /// Whether a reload keeps it.
    pub fn is_kept(&self, kept: &IsKept<'_>) -> bool {
        match &self.fed {
            Some(Fed { feeder, .. }) => kept(feeder.kind, &feeder.id),
            None => kept(Kind::Source, &self.id),
        }
    }

    /// Whether all its tickets are released.
    pub fn is_drained(&self) -> bool {
        self.open_tickets.load(Ordering::Acquire) == 0 && self.release.lock().open().is_empty()
    }

    /// Records what a poll read, given what had been read before.
    fn has_read(&self, now: EngineTime, before: u64) {
        if let Some(rate) = &self.rate {
            let bytes = self.counters.received_bytes() - before;
            rate.lock().read(now, bytes);
        }
    }

    /// Closes the source unless it is being polled; returns whether it still holds data back.
    pub fn try_close(&self, for_good: bool) -> Option<bool> {
        self.source.try_lock().map(|mut source| source.close(for_good))
    }

    /// Closes a sampling interval.
    pub fn sample(&self, interval: Duration) {
        self.counters.sample(interval);
        self.ledger.sample(interval);
    }
}

/// A transform or sink in the topology. Clones are the same component at another place.
#[derive(Clone)]
pub(crate) struct Node {
    pub id: Arc<str>,
    pub type_name: &'static str,
    pub kind: Kind,
    pub op: Op,
    /// Reading nodes, by output.
    pub outputs: Vec<Vec<usize>>,
    pub downstream: SinkSet,
    pub counters: Arc<Counters>,
    /// Tickets of all sources on their way to it, if it is a cut.
    pub load: Arc<Load>,
    /// Where taps get what a transform makes, or what a sink takes.
    pub tap: Arc<TapPoint>,
}

/// The work of a node.
#[derive(Clone)]
pub(crate) enum Op {
    Map(Arc<dyn Fn() -> Box<dyn Map> + Send + Sync>),
    Serial(Arc<SerialStage>),
    Offload(Arc<OffloadQueue>),
    Sink(SinkSlot),
}

/// Everything that the threads of an engine share. A reload replaces it.
pub(crate) struct Core {
    /// Its generation, counted from zero.
    pub generation: u64,
    pub clock: Clock,
    pub started: Instant,
    pub until_eof: bool,
    pub memory: Arc<MemoryState>,
    pub grant: Arc<Grant>,
    pub pool: Arc<BlockPool>,
    pub store: Arc<Store>,
    pub scheduler: Arc<Scheduler>,
    /// The threads of offload transforms.
    pub offload: Arc<OffloadPool>,
    /// Worker threads.
    pub threads: usize,
    /// Most cores that the process uses, if limited.
    pub cpu: Option<f64>,
    /// The CPU limiter, if there is one.
    pub ceiling: Option<Arc<Mutex<CpuCeiling>>>,
    pub sources: Vec<SourceSlot>,
    /// Held while lanes learn which sources wait.
    pub pressing: Mutex<()>,
    /// Sources that reloads have removed.
    pub removed: Arc<RemovedSources>,
    /// The figures of components that reloads have removed.
    pub removed_counters: Arc<RemovedCounters>,
    /// Transforms in data-flow order, then sinks.
    pub nodes: Vec<Node>,
}

impl Core {
    /// Reads both clocks.
    pub fn now(&self) -> Now {
        self.clock.now(self.engine_time())
    }

    /// Reads the monotonic clock.
    fn engine_time(&self) -> EngineTime {
        EngineTime::at(self.started.elapsed())
    }

    /// Returns the sinks among the nodes.
    pub fn sinks(&self) -> impl Iterator<Item = (&Node, &SinkSlot)> {
        self.nodes.iter().filter_map(|node| match &node.op {
            Op::Sink(slot) => Some((node, slot)),
            _ => None,
        })
    }

    /// Returns the counters of each component, by its kind and id.
    pub fn counters(&self) -> impl Iterator<Item = ((Kind, Arc<str>), &Arc<Counters>)> {
        let sources = self.sources.iter();
        let sources = sources.map(|slot| ((Kind::Source, slot.id.clone()), &slot.counters));
        let nodes = self.nodes.iter().map(|node| ((node.kind, node.id.clone()), &node.counters));
        sources.chain(nodes)
    }

    /// Polls a source; a batch becomes a ticket that is ready to run.
    pub fn poll(&self, source: usize) -> Option<Step> {
        let slot = &self.sources[source];
        let now = self.now();
        let begun = std::time::Instant::now();
        // A stop waits for no limit.
        let may_read = match self.scheduler.is_closing() {
            true => Ok(()),
            false => slot.may_read(now.since_start),
        };
        let polled = match may_read {
            Ok(()) => {
                let before = slot.counters.received_bytes();
                let polled = self.poll_guarded(slot, now);
                slot.has_read(now.since_start, before);
                polled
            }
            Err(pause) => {
                self.set_waits(slot, SinkSet::EMPTY);
                Polled::Wait(pause)
            }
        };
        slot.counters.worked(begun.elapsed());
        let is_waiting = matches!(polled, Polled::Backpressure);
        slot.wait.note(&slot.id, is_waiting, || self.lacks(slot, now.since_start));
        let (again, step) = match polled {
            Polled::Batch(batch, permit) => (Again::Now, Some(self.ticket(source, *batch, permit))),
            Polled::Wait(pause) => (Again::At(now.since_start + pause), None),
            Polled::Backpressure => (Again::Room, None),
            Polled::Ended => (Again::Ended, None),
        };
        self.scheduler.polled(source, again, now.since_start);
        step
    }

    /// A panic in a source pauses it; the data it was about to issue is read again.
    fn poll_guarded(&self, slot: &SourceSlot, now: Now) -> Polled {
        let poll = || {
            let _entered = slot.counters.enter();
            let capacity = self.capacity(slot, now.since_start);
            let overflow = self.overflow(slot, now.since_start);
            let mut cx = SourceCx {
                now,
                info: &slot.info,
                sinks: slot.downstream,
                ready: capacity.ready,
                blocked: capacity.blocked,
                overflow,
                ledger: &slot.ledger,
                counters: &slot.counters,
                until_eof: self.until_eof,
                has_input_ended: slot.fed.as_ref().is_some_and(|fed| self.has_feeder_ended(fed)),
                grant: &self.grant,
                pool: &self.pool,
                expansion: slot.expansion,
            };
            let polled = slot.source.lock().poll(&mut cx);
            self.note_waits(slot, &capacity, &polled);
            polled
        };
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(poll)).unwrap_or_else(|_| {
            slot.counters.error("panic");
            log::error!("source {}: panic while reading; it continues in a second", slot.id);
            Polled::Wait(Duration::from_secs(1))
        })
    }

    /// Returns the sink that feeds a source.
    fn feeder(&self, fed: &Fed) -> Option<&SinkSlot> {
        self.sinks().map(|(_, slot)| slot).find(|slot| slot.index == fed.sink)
    }

    /// Whether the sink that feeds a source makes no more events: its lanes have ended, or, in a run
    /// that ends by itself, it has settled all that its sources read.
    fn has_feeder_ended(&self, fed: &Fed) -> bool {
        let Some(slot) = self.feeder(fed) else { return true };
        slot.lanes.iter().all(|lane| lane.has_ended())
            || self.until_eof && self.has_input_ended(slot) && self.is_settled(slot)
    }

    /// Whether nothing more is read for a sink.
    pub fn has_input_ended(&self, slot: &SinkSlot) -> bool {
        let mut inputs = self.sources.iter().enumerate();
        inputs.all(|(index, source)| {
            !source.downstream.contains(slot.index)
                || self.scheduler.has_ended(index) && source.is_drained()
        })
    }

    fn is_settled(&self, slot: &SinkSlot) -> bool {
        self.sources.iter().all(|source| source.ledger.progress(slot.index).unsettled == 0)
    }

    fn ticket(
        &self,
        source: usize,
        batch: millstream_model::Batch,
        permit: millstream_model::Permit,
    ) -> Step {
        let slot = &self.sources[source];
        slot.tap.offer(0, &batch);
        let trace = slot.tap.trace(&slot.id, &batch, self.now().unix_ns);
        let number = slot.release.lock().issue();
        let open = slot.open_tickets.clone();
        let ticket = Ticket::new((source, number), &batch, permit, slot.downstream, open);
        let ticket = ticket.traced(trace);
        slot.cuts.iter().for_each(|cut| cut.expect(ticket.claim));
        let mut inputs = Vec::new();
        fan_out(&slot.roots, batch, &mut inputs);
        Step { ticket: Arc::new(ticket), cut: None, inputs }
    }

    /// Takes the output of a step: releases the payloads of the sinks that are done, and returns
    /// the cuts that the ticket has reached.
    pub fn advance(
        &self,
        ticket: &Arc<Ticket>,
        passed: Option<usize>,
        mut made: ChainOutput,
    ) -> Vec<Arrival> {
        let slot = &self.sources[ticket.source];
        for bound in &mut made.payloads {
            let acks = std::mem::take(&mut bound.acks);
            let hold = |ack: &Ack| Some(ack.hold(bound.sink)?.traced(bound.traced.clone()));
            bound.payload.owe(acks.iter().filter_map(hold));
        }
        let next = ticket.advance(&slot.cuts, passed, made);
        if !next.pending.is_empty() {
            self.return_surplus(ticket, next.pending);
        }
        ticket.acks.iter().for_each(|ack| ack.finish_for(next.done));
        self.release(slot, ticket.number, next.done, next.payloads);
        let passed = next.reached.iter().filter(|(_, batches)| batches.is_empty());
        passed.for_each(|(cut, _)| self.pass_cut(ticket, *cut));
        let arrive = |(cut, batches)| Arrival { ticket: ticket.clone(), cut, batches };
        next.reached.into_iter().map(arrive).collect()
    }

    /// Returns the memory that a waiting ticket does not need for the sinks that are not done.
    fn return_surplus(&self, ticket: &Ticket, pending: SinkSet) {
        let need = chain_expansion(pending, &self.nodes);
        let mut permit = ticket.permit.lock();
        if permit.bytes() > need {
            permit.resize(need);
        }
    }

    fn release(
        &self,
        source: &SourceSlot,
        number: TicketNumber,
        done: SinkSet,
        payloads: Vec<Bound>,
    ) {
        let payloads = self.joined(payloads).into_iter();
        let mut payloads: Vec<Bound> =
            payloads.filter_map(|bound| self.admit(source, bound)).collect();
        mark_last(&mut payloads);
        let put = |bound: Bound| {
            let node = &self.nodes[bound.node];
            let Op::Sink(slot) = &node.op else { return };
            let bytes = bound.payload.queue_bytes();
            slot.put(node, source, bound, self.engine_time());
            slot.unreleased.fetch_sub(bytes, Ordering::Relaxed);
        };
        // The lock is held while payloads are queued, so that lanes keep ticket order.
        source.release.lock().finish(number, done, payloads, put);
    }

    /// Joins the payloads of a ticket for one merge transform: a snapshot between them would count
    /// the first again after a restart.
    fn joined(&self, payloads: Vec<Bound>) -> Vec<Bound> {
        let counts_once = |bound: &Bound| match &self.nodes[bound.node].op {
            Op::Sink(slot) => slot.feed.is_of_results(),
            _ => false,
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

    /// Counts a payload that may wait for its turn. If earlier tickets wait at a transform, a sink
    /// that drops when it is full drops the new payload once those that wait fill its buffer.
    fn admit(&self, source: &SourceSlot, bound: Bound) -> Option<Bound> {
        let node = &self.nodes[bound.node];
        let Op::Sink(slot) = &node.op else { return None };
        // Those of tickets that run just now are released at once.
        let bytes_max = slot.share + TICKETS_ON_THE_WAY * bound.payload.queue_bytes();
        let is_full = slot.unreleased.load(Ordering::Relaxed) >= bytes_max;
        let waits = source.cuts.iter().any(|cut| cut.tickets() > 0);
        if is_full && waits && slot.buffer.when_full != WhenFull::Block {
            slot.shed(node, bound.payload, self.engine_time());
            return None;
        }
        slot.unreleased.fetch_add(bound.payload.queue_bytes(), Ordering::Relaxed);
        Some(bound)
    }

    /// Takes batches that continue behind their cut.
    pub fn leave_cut(&self, arrival: &Arrival) {
        self.sources[arrival.ticket.source].cuts[arrival.cut].leave();
        self.pass_cut(&arrival.ticket, arrival.cut);
    }

    /// Takes a ticket that has passed a cut. Sources that waited for capacity there are polled.
    pub fn pass_cut(&self, ticket: &Ticket, cut: usize) {
        if self.sources[ticket.source].cuts[cut].pass(ticket.claim) {
            self.scheduler.wake_for_room();
        }
    }

    /// Whether every ticket of every source is released.
    pub fn is_drained(&self) -> bool {
        !self.scheduler.is_polling() && self.sources.iter().all(SourceSlot::is_drained)
    }

    /// Returns the nodes at which tickets wait.
    fn waiting_at(&self) -> BTreeSet<usize> {
        let cuts = self.sources.iter().flat_map(|slot| &slot.cuts).filter(|cut| cut.tickets() > 0);
        cuts.map(|cut| cut.node).collect()
    }

    /// Whether tickets wait at no other offload transforms than those that `goes` selects by id.
    pub fn waits_only_at(&self, goes: impl Fn(&str) -> bool) -> bool {
        let is_other = |node: &Node| matches!(node.op, Op::Offload(_)) && !goes(&node.id);
        !self.waiting_at().iter().any(|node| is_other(&self.nodes[*node]))
    }

    /// Returns the components that keep tickets from being released: transforms where tickets
    /// wait, else sources that are being polled, else sources with tickets on their way.
    pub fn holders(&self) -> Vec<String> {
        let nodes = self.waiting_at();
        // What waits at a serial transform may wait for a ticket that is stuck before it.
        let is_offload = |node: &&usize| matches!(self.nodes[**node].op, Op::Offload(_));
        let stuck: Vec<usize> = match nodes.iter().any(|node| is_offload(&node)) {
            true => nodes.iter().filter(is_offload).copied().collect(),
            false => nodes.into_iter().collect(),
        };
        if !stuck.is_empty() {
            return stuck
                .iter()
                .map(|node| format!("transform {}", self.nodes[*node].id))
                .collect();
        }
        let busy = self.sources.iter().filter(|slot| !slot.is_drained() || slot.source.is_locked());
        busy.map(|slot| format!("source {}", slot.id)).collect()
    }

    /// Returns the indices of all sinks.
    pub fn all_sinks(&self) -> SinkSet {
        self.sinks().map(|(_, slot)| slot.index).collect()
    }

    /// Returns the sinks that may get more payloads while no poll begins.
    pub fn expected_sinks(&self) -> SinkSet {
        if self.scheduler.is_polling() {
            return self.all_sinks();
        }
        let open = self.sources.iter().map(|slot| slot.release.lock().open());
        open.fold(SinkSet::EMPTY, |all, one| all | one)
    }

    /// Settles the refused events that were delivered after their sources had ended.
    pub fn settle_refused(&self) {
        for slot in &self.sources {
            let refused = slot.fed.as_ref().filter(|fed| !fed.feed.is_of_results());
            refused.into_iter().for_each(|fed| {
                feed_source::settle_refused(&fed.feed, &slot.ledger, slot.downstream);
            });
        }
    }

    /// Returns the sinks behind feeds that have not ended.
    pub fn fed_sinks(&self) -> SinkSet {
        let fed = self.sources.iter().enumerate().filter(|(_, slot)| slot.fed.is_some());
        let open = fed.filter(|(index, _)| !self.scheduler.has_ended(*index));
        open.fold(SinkSet::EMPTY, |all, (_, slot)| all | slot.downstream)
    }

    /// Returns a number that changes whenever something is read or settled.
    pub fn progress(&self) -> u64 {
        let of_source = |slot: &SourceSlot| {
            let settled = |(_, sink): (&Node, &SinkSlot)| {
                let progress = slot.ledger.progress(sink.index);
                // What is settled moves the checkpoint, and so shortens the lag.
                let of_disk = sink.disk.as_ref().map_or(0, |disk| disk.progress());
                progress.lag.wrapping_mul(3).wrapping_add(progress.unsettled).wrapping_add(of_disk)
            };
            let sinks = self.sinks().map(settled).fold(0, u64::wrapping_add);
            sinks.wrapping_mul(31).wrapping_add(slot.release.lock().issued())
        };
        self.sources
            .iter()
            .fold(0, |all: u64, slot| all.wrapping_mul(31).wrapping_add(of_source(slot)))
    }

    /// Returns the components that keep events from being settled: transforms where tickets wait,
    /// and sinks that cannot deliver. A sink that waits for more events, or for its next sync, is
    /// not among them.
    pub fn late(&self) -> Vec<String> {
        let holders = if self.is_drained() { Vec::new() } else { self.holders() };
        let expected = self.expected_sinks();
        let is_late = |(_, slot): &(&Node, &SinkSlot)| {
            let fails = slot.lanes.iter().any(|lane| lane.error().is_some());
            fails && !expected.contains(slot.index)
        };
        let sinks =
            self.sinks().filter(is_late).map(|(node, _)| format!("{} {}", node.kind, node.id));
        holders.into_iter().chain(sinks).collect()
    }

    /// Whether everything read is settled and nothing more will come.
    pub fn is_finished(&self) -> bool {
        self.scheduler.all_ended()
            && self.is_drained()
            && self.sources.iter().all(|s| s.ledger.is_idle())
            && self.disks().all(|(_, disk)| disk.is_empty())
    }

    /// Returns how long a sink has had no capacity for some of its sources.
    pub fn blocked_for(&self, slot: &SinkSlot, now: EngineTime) -> Option<Duration> {
        if let Some(disk) = &slot.disk {
            return slot.disk_full_for(disk, now);
        }
        let waits = |source: &SourceSlot| source.can_wait && source.downstream.contains(slot.index);
        if self.sources.iter().any(waits) { slot.behind_for(now) } else { slot.full_for(now) }
    }

    /// Logs once when a sink becomes full, and once when it has capacity again.
    pub fn watch_sinks(&self) {
        let now = self.now().since_start;
        for (node, slot) in self.sinks() {
            let full = self.blocked_for(slot, now).is_some_and(|blocked| blocked >= FULL_AFTER);
            match (full, slot.reported.swap(full, Ordering::Relaxed)) {
                (true, false) if slot.disk.is_some() => log::warn!(
                    "sink {}: its disk buffer has been full for {} s; what cannot wait in its source is \
                     not received",
                    node.id,
                    FULL_AFTER.as_secs()
                ),
                (true, false) => log::warn!(
                    "{} {}: its queue has been full for {} s; sources that can read again go on without it, \
                     others wait",
                    node.kind,
                    node.id,
                    FULL_AFTER.as_secs()
                ),
                (false, true) => {
                    log::info!("{} {}: its queue has capacity again", node.kind, node.id);
                }
                _ => {}
            }
        }
    }

    /// Logs once when events wait for long at a transform, and once when they no longer do.
    pub fn watch_cuts(&self) {
        let now = self.now().since_start;
        for (index, node) in self.nodes.iter().enumerate() {
            let cuts = self.sources.iter().flat_map(|slot| &slot.cuts);
            let mut here = cuts.filter(|cut| cut.node == index);
            let waits = here.any(|cut| cut.full_for(now).is_some_and(|full| full >= FULL_AFTER));
            if !node.load.report(waits) {
                continue;
            }
            let (id, seconds) = (&node.id, FULL_AFTER.as_secs());
            match waits {
                true => log::warn!(
                    "transform {id}: events have waited at it for {seconds} s; sources that can read again \
                     continue for the sinks that are not behind it"
                ),
                false => log::info!("transform {id}: events no longer wait at it"),
            }
        }
    }

    /// Passes the sources to the scheduler, all ready.
    pub fn wire(&self) {
        let turns = self.sources.iter().map(|slot| (slot.pace.priority, slot.is_live));
        self.scheduler.rewire(turns.collect());
    }

    /// Lets closed sources continue.
    pub fn reopen_sources(&self) {
        for (index, slot) in self.sources.iter().enumerate() {
            slot.source.lock().reopen();
            self.scheduler.wake(index);
        }
    }

    /// Waits for the next job of a worker, which uses the topology of generation `known`; `None` when
    /// stopped. While the process exceeds its CPU
    /// limit no source is polled; tickets run on.
    pub fn next_job(&self, known: &mut u64) -> Option<Woken> {
        let begun = self.now().since_start;
        let held = self.hold(begun);
        let woken = self.scheduler.wait(known, || self.now().since_start)?;
        if let (Woken::Job(Job::Poll(source)), false) = (&woken, held.is_zero()) {
            let waited = held.min(self.now().since_start - begun);
            // A reload may have happened in between.
            let limit = self.cpu.unwrap_or_default();
            let slot = self.sources.get(*source);
            slot.inspect(|slot| slot.counters.throttled("cpu", waited, limit));
        }
        Some(woken)
    }

    /// Delays polls if the process exceeds its CPU limit; returns for how long.
    fn hold(&self, now: EngineTime) -> Duration {
        let Some(ceiling) = &self.ceiling else { return Duration::ZERO };
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let used = Duration::new(used.tv_sec as u64, used.tv_nsec as u32);
        let wait = ceiling.lock().wait(now, used);
        self.scheduler.hold(now + wait);
        wait
    }
}

/// Marks the payloads that are followed by others of the same ticket for the same lane.
fn mark_last(payloads: &mut [Bound]) {
    for index in 0..payloads.len() {
        let (node, lane) = (payloads[index].node, payloads[index].lane);
        let mut later = payloads[index + 1..].iter();
        payloads[index].completes = !later.any(|other| (other.node, other.lane) == (node, lane));
    }
}

/// Passes `batch` to every reader; the last one gets it without a clone.
pub(crate) fn fan_out(
    readers: &[usize],
    batch: millstream_model::Batch,
    inputs: &mut Vec<(usize, millstream_model::Batch)>,
) {
    if let [rest @ .., last] = readers {
        rest.iter().for_each(|node| inputs.push((*node, batch.clone())));
        inputs.push((*last, batch));
    }
}
