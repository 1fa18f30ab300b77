//! Replaces the topology while the engine runs.
//!
//! Behind the barrier no batch is in the chain; payloads stay in the lanes. The new core is
//! assembled first and shares the kept components with the running one, so that whatever can fail
//! fails before anything changes. Then sources get their new sinks, and the threads find the new
//! core. Lanes of removed sinks keep delivering for a while.

use crate::blueprint::{Blueprint, Parts, Settings, SinkPart, SinkPlaces, rate, sinks_of};
use crate::core::{CapacityWait, Core, IsKept, Node, Op, SinkSlot, SourceSlot};
use crate::current::Current;
use crate::cut::Cut;
use crate::error::EngineError;
use crate::lane::LaneDriver;
use crate::pace::Pace;
use crate::release::Release;
use crate::removed::ComponentKey;
use crate::retired::Retired;
use crate::running::Running;
use millstream_model::{Counters, Kind, Polled, SinkIndex, SinkSet, Source, SourceCx};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

/// How long payloads of removed components may take to be settled while nothing is read: what is
/// settled is not read again. Several syncs of a healthy disk.
const SETTLE_TIME: Duration = Duration::from_secs(1);

/// How long a reload waits for tickets on their way; reading stands still meanwhile. Longer than a
/// batch takes in any transform that works.
const BARRIER_TIME: Duration = Duration::from_secs(5);

/// When calls of transforms that this reload removes or replaces stop waiting for what is outside.
const LET_GO_TIME: Duration = Duration::from_secs(2);

/// Interval of checks whether they are settled.
const SETTLE_POLL: Duration = Duration::from_millis(2);

/// What to start and end once the threads have the new core.
pub(crate) struct Turned {
    /// The new core.
    pub core: Arc<Core>,
    /// Lanes to drive.
    pub drivers: Vec<LaneDriver>,
    /// Sinks to drain.
    pub retired: Vec<Arc<Retired>>,
}

impl Running {
    /// Switches to another topology. The components that `kept` names by kind and id keep running,
    /// with their files, queues, connections and counters. A removed sink has `drain` to deliver
    /// what it holds. Of `settings`, only `cpu` may differ from those at the start.
    ///
    /// # Errors The blueprint is invalid, a source cannot be opened, or checkpoints cannot be
    /// written. The old topology then continues.
    pub async fn reload(
        &mut self,
        blueprint: Blueprint,
        settings: &Settings,
        kept: &IsKept<'_>,
        drain: Duration,
    ) -> Result<(), EngineError> {
        let parts = Parts::of(blueprint);
        parts.check(settings)?;
        let core = self.current.core();
        let goes = |slot: &SourceSlot| !parts.keeps(slot, kept);
        let closed = self.close_sources(false, goes);
        let _ = tokio::time::timeout(SETTLE_TIME, closed).await;
        let leaving = core.let_go_later(LET_GO_TIME, |id| !kept(Kind::Transform, id));
        let barrier = tokio::select! {
            reached = self.barrier(BARRIER_TIME) => reached,
            never = leaving => match never {},
        };
        if let Err(error) = barrier {
            core.reopen_sources();
            return Err(error);
        }
        settle(&core, &parts, kept).await;
        let _ = self.hold_sources(std::time::Instant::now() + drain, goes).await;
        self.retired.retain(|retired| !retired.has_ended());
        self.lanes.retain(|lane| !lane.is_finished());
        let replaced = replace_core(&self.current, &self.retired, parts, settings, kept);
        let taken = replaced.map(|replaced| self.take(replaced, drain));
        if taken.is_err() {
            core.reopen_sources();
        }
        self.resume();
        taken
    }

    fn take(&mut self, replaced: Turned, drain: Duration) {
        self.watch_calls(&replaced.core);
        let drivers = replaced.drivers.into_iter().map(|driver| self.runtime.spawn(driver.run()));
        self.lanes.extend(drivers);
        for retired in replaced.retired {
            self.lanes.push(self.runtime.spawn(retired.clone().drain(drain)));
            self.retired.push(retired);
        }
    }
}

/// Waits briefly until payloads of removed components are settled by sinks that make progress.
pub(crate) async fn settle(core: &Core, parts: &Parts, kept: &IsKept<'_>) {
    let stays = |node: &Node| parts.sinks.iter().any(|sink| *sink.id == *node.id);
    let goes = |slot: &SourceSlot, node: &Node| !parts.keeps(slot, kept) || !stays(node);
    let is_out = || {
        core.sinks().any(|(node, sink)| {
            let gets_on = sink.lanes.iter().all(|lane| lane.gets_on());
            let of_source = |slot: &SourceSlot| slot.ledger.progress(sink.index).unsettled > 0;
            gets_on && core.sources.iter().filter(|slot| goes(slot, node)).any(of_source)
        })
    };
    let deadline = Instant::now() + SETTLE_TIME;
    if is_out() {
        core.sinks().flat_map(|(_, slot)| &slot.lanes).for_each(|lane| lane.flush());
    }
    while is_out() && Instant::now() < deadline {
        tokio::time::sleep(SETTLE_POLL).await;
    }
}

/// Replaces the running core by that of `blueprint`, behind the barrier.
pub(crate) fn replace_core(
    current: &Current,
    retired: &[Arc<Retired>],
    parts: Parts,
    settings: &Settings,
    kept: &IsKept<'_>,
) -> Result<Turned, EngineError> {
    let (mut drivers, mut leaving) = (Vec::new(), Vec::new());
    let core = current.replace(|old| {
        seal(old, &parts, kept);
        // Sources that are reopened continue from here.
        old.commit().map_err(EngineError::Checkpoints)?;
        let of_old = |(node, slot): (&Node, &SinkSlot)| Arc::new(Retired::of(node, slot));
        leaving = old.sinks().filter(|(node, _)| !kept(node.kind, &node.id)).map(of_old).collect();
        let places = SinkPlaces::next(old, &parts, kept, retired, &leaving)?;
        let is_new = |sink: &&SinkPart| !old.sinks().any(|(node, _)| *node.id == *sink.id);
        let back: Vec<String> =
            parts.sinks.iter().filter(is_new).map(|sink| sink.id.clone()).collect();
        let (next, made) = parts.assemble(old, settings, &places, kept)?;
        // Nothing can fail from here on.
        drivers = made;
        retired.iter().chain(&leaving).for_each(|retired| retired.leave_disk(&next));
        leaving.iter().for_each(|retired| retired.note_successor(old, &next));
        // A reopened source begins at its checkpoint, so what its old lanes hold is not needed.
        retired
            .iter()
            .filter(|retired| back.iter().any(|id| **id == *retired.id))
            .for_each(|retired| retired.let_go());
        change_over(old, &next);
        Ok(next)
    });
    let core = core.inspect_err(|_| unseal(&current.core()))?;
    Ok(Turned { core, drivers, retired: leaving })
}

/// Makes stale what merge transforms have not counted and will get again: from sources that are
/// opened again, and for transforms that are removed. What cannot be read again is counted.
fn seal(old: &Core, parts: &Parts, kept: &IsKept<'_>) {
    let is_merge = |node: &Node| node.kind == Kind::Transform;
    let stays = |node: &Node| parts.sinks.iter().any(|sink| *sink.id == *node.id);
    let removed = old.sinks().filter(|(node, _)| is_merge(node) && !stays(node));
    let removed: SinkSet = removed.map(|(_, slot)| slot.index).collect();
    for source in &old.sources {
        let is_reopened = source.reads_again && !parts.keeps(source, kept);
        source.ledger.seal(if is_reopened { source.downstream } else { removed });
    }
}

fn unseal(core: &Core) {
    core.sources.iter().for_each(|source| source.ledger.seal(SinkSet::EMPTY));
}

/// Closes removed sources, and gives the others their new sinks.
fn change_over(old: &Core, next: &Core) {
    let same = |slot: &&SourceSlot, other: &SourceSlot| Arc::ptr_eq(&slot.source, &other.source);
    for gone in
        old.sources.iter().filter(|slot| !next.sources.iter().any(|other| same(slot, other)))
    {
        gone.ledger.stop();
        gone.fed.iter().for_each(|fed| fed.feed.detach());
        gone.place.store(usize::MAX, Ordering::Relaxed);
        let mut source = gone.source.lock();
        if !gone.reads_again && source.leave().is_none() {
            next.removed.add(&gone.ledger, gone.downstream);
        }
        *source = Box::new(Gone);
    }
    next.removed_counters.add(counters_gone(old, next));
    for (index, slot) in next.sources.iter().enumerate() {
        slot.place.store(index, Ordering::Relaxed);
        if let Some(before) = old.sources.iter().find(|before| same(before, slot)) {
            slot.reach_from(
                &sinks_of(before.downstream, &old.nodes),
                &sinks_of(slot.downstream, &next.nodes),
            );
            slot.ledger.seal(SinkSet::EMPTY);
        }
    }
    for node in &next.nodes {
        if let Op::Serial(stage) = &node.op {
            // Tickets count from zero again.
            stage.renew();
        }
    }
    next.press_all();
    next.sinks().for_each(|(_, slot)| slot.attach_disk());
    next.wire();
}

/// Returns the counters of the components that `next` does not have.
fn counters_gone(old: &Core, next: &Core) -> Vec<(ComponentKey, Arc<Counters>)> {
    let stays =
        |counters: &Arc<Counters>| next.counters().any(|(_, other)| Arc::ptr_eq(counters, other));
    let gone = old.counters().filter(|(_, counters)| !stays(counters));
    gone.map(|(key, counters)| (key, counters.clone())).collect()
}

impl SourceSlot {
    /// Returns the same source at another place in the topology.
    pub fn rewired(
        &self,
        pace: Pace,
        roots: Vec<usize>,
        cuts: Vec<Cut>,
        downstream: SinkSet,
        expansion: u64,
    ) -> SourceSlot {
        let same_rate = pace.rate_limit == self.pace.rate_limit;
        SourceSlot {
            id: self.id.clone(),
            type_name: self.type_name,
            info: self.info.clone(),
            fed: self.fed.clone(),
            source: self.source.clone(),
            place: self.place.clone(),
            ledger: self.ledger.clone(),
            counters: self.counters.clone(),
            unreadable: self.unreadable.clone(),
            release: Mutex::new(Release::new(downstream)),
            open_tickets: self.open_tickets.clone(),
            rate: if same_rate { self.rate.clone() } else { rate(pace) },
            pause: Mutex::new(*self.pause.lock()),
            wait: CapacityWait::default(),
            tap: self.tap.clone(),
            pace,
            aside: self.aside.clone(),
            is_live: self.is_live,
            can_wait: self.can_wait,
            reads_again: self.reads_again,
            overflows: self.overflows,
            roots,
            cuts,
            downstream,
            expansion,
        }
    }

    fn reach_from(&self, before: &[(SinkIndex, String)], now: &[(SinkIndex, String)]) {
        if before == now {
            return;
        }
        let stay = before.iter().filter(|sink| now.contains(sink)).map(|(index, _)| *index);
        self.ledger.keep_sinks(stay.collect());
        self.source.lock().set_sinks(now);
        self.ledger.join_at_end(now.iter().map(|(index, _)| *index).collect());
    }
}

impl SinkPlaces {
    /// Assigns indices to the sinks that follow those of `old`. A sink with changed options keeps
    /// its index: its successor answers for what is in flight.
    fn next(
        old: &Core,
        parts: &Parts,
        kept: &IsKept<'_>,
        retired: &[Arc<Retired>],
        leaving: &[Arc<Retired>],
    ) -> Result<SinkPlaces, EngineError> {
        let before = |part: &SinkPart| old.sinks().find(|(node, _)| *node.id == *part.id);
        let mut taken: SinkSet =
            parts.sinks.iter().filter_map(before).map(|(_, slot)| slot.index).collect();
        let (indices, after, disks) = Default::default();
        let mut places = SinkPlaces { indices, after, disks };
        for part in &parts.sinks {
            let free = || SinkIndex::all().find(|index| !taken.contains(*index));
            let index = before(part).map(|(_, slot)| slot.index).or_else(free);
            let index = index.ok_or(EngineError::NoFreeSinkIndex)?;
            taken = taken | SinkSet::one(index);
            places.indices.push(index);
            let meeting = retired.iter().chain(leaving).filter(|retired| retired.may_meet(part));
            let meeting = meeting.filter(|_| !kept(parts.kind_of(&part.id), &part.id));
            places.after.push(meeting.flat_map(|retired| retired.lanes.iter().cloned()).collect());
            let of_running = before(part).and_then(|(_, slot)| slot.disk.clone());
            let of_retired = retired.iter().filter(|retired| *retired.id == *part.id);
            let mut of_retired = of_retired.filter_map(|retired| retired.disk.lock().clone());
            places.disks.push(of_running.or_else(|| of_retired.next()));
        }
        Ok(places)
    }
}

/// Replaces a closed source.
struct Gone;

impl Source for Gone {
    fn poll(&mut self, _: &mut SourceCx<'_>) -> Polled {
        Polled::Ended
    }
}
