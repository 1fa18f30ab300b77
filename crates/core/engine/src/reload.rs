//! Replaces the topology while the engine runs.
//!
//! After the barrier, no batch is in the chain; payloads stay in the lanes. The new core is
//! assembled first and shares the kept components with the running core, so that every possible
//! failure occurs before anything changes. Then sources get their new sinks, and the threads get
//! the new core. Lanes of removed sinks keep delivering for a while.

mod succession;

use crate::blueprint::{Blueprint, Parts, Settings};
use crate::core::{Core, IsKept, Node, Op, SinkSlot, SourceSlot};
use crate::current::Current;
use crate::error::EngineError;
use crate::lane::LaneDriver;
use crate::removed::ComponentKey;
use crate::retired::Retired;
use crate::running::Running;
use millstream_model::{Counters, Kind, Polled, SinkSet, Source, SourceCx};
use std::sync::Arc;
use std::time::Duration;
use succession::Succession;
use tokio::time::Instant;

/// How long a reload waits for the payloads of removed components to be settled while nothing is
/// read. Settled payloads are not reread. The time covers several syncs on a healthy disk.
const SETTLE_TIME: Duration = Duration::from_secs(1);

/// How long a reload waits for tickets in progress, while nothing is read. This is longer than a
/// batch takes in any transform that works.
const BARRIER_TIME: Duration = Duration::from_secs(5);

/// Time after which the offload transforms that this reload removes or replaces are let go.
const LET_GO_TIME: Duration = Duration::from_secs(2);

/// Interval at which the reload checks whether the payloads are settled.
const SETTLE_POLL: Duration = Duration::from_millis(2);

/// The inputs for a change to another topology.
pub(crate) struct Change<'a> {
    /// The components of the next topology.
    pub parts: Parts,
    /// The settings. Only `cpu` may differ from the settings at the start.
    pub settings: &'a Settings,
    /// The components that keep running.
    pub kept: &'a IsKept<'a>,
}

/// The result of a change: the lanes to start and the sinks to drain once the threads have the new
/// core.
pub(crate) struct Replaced {
    /// The new core.
    pub core: Arc<Core>,
    /// Drivers of the lanes to start.
    pub drivers: Vec<LaneDriver>,
    /// Sinks to drain.
    pub retired: Vec<Arc<Retired>>,
}

impl Running {
    /// Switches to another topology. The components that `kept` selects by kind and id keep
    /// running, with their files, queues, connections and counters. A removed sink has `drain` to
    /// deliver its remaining payloads. Only `cpu` in `settings` may differ from the start.
    ///
    /// # Errors
    ///
    /// Returns an error if the blueprint is invalid, the barrier is not reached in time, a source
    /// cannot be opened, or checkpoints cannot be written. The old topology then continues.
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
            core.sources().reopen();
            return Err(error);
        }
        settle(&core, &parts, kept).await;
        let _ = self.hold_sources(std::time::Instant::now() + drain, goes).await;
        self.retired.retain(|retired| !retired.has_ended());
        self.lanes.retain(|lane| !lane.is_finished());
        let change = Change { parts, settings, kept };
        let replaced = replace_core(&self.current, &self.retired, change);
        let taken = replaced.map(|replaced| self.take(replaced, drain));
        if taken.is_err() {
            core.sources().reopen();
        }
        self.resume();
        taken
    }

    /// Starts the new lanes, and drains the removed sinks.
    fn take(&mut self, replaced: Replaced, drain: Duration) {
        self.watch_calls(&replaced.core);
        for driver in replaced.drivers {
            self.lanes.push(self.runtime.spawn(driver.run()));
        }
        for retired in replaced.retired {
            self.lanes.push(self.runtime.spawn(retired.clone().drain(drain)));
            self.retired.push(retired);
        }
    }
}

/// Waits for up to [`SETTLE_TIME`] until sinks that are making progress have settled the payloads
/// of removed components.
pub(crate) async fn settle(core: &Core, parts: &Parts, kept: &IsKept<'_>) {
    let stays = |node: &Node| parts.sinks.iter().any(|sink| *sink.id == *node.id);
    let goes = |slot: &SourceSlot, node: &Node| !parts.keeps(slot, kept) || !stays(node);
    let owes = |node: &Node, sink: &SinkSlot| {
        sink.lanes.iter().all(|lane| lane.gets_on())
            && core
                .sources()
                .iter()
                .any(|slot| goes(slot, node) && slot.ledger.progress(sink.index).unsettled > 0)
    };
    let is_out = || core.nodes().sinks().any(|(node, sink)| owes(node, sink));
    let deadline = Instant::now() + SETTLE_TIME;
    if is_out() {
        for lane in core.nodes().lanes() {
            lane.flush();
        }
    }
    while is_out() && Instant::now() < deadline {
        tokio::time::sleep(SETTLE_POLL).await;
    }
}

/// Replaces the running core with the change's core. The caller has reached the barrier. `retired`
/// are the sinks that earlier reloads have removed.
pub(crate) fn replace_core(
    current: &Current,
    retired: &[Arc<Retired>],
    change: Change<'_>,
) -> Result<Replaced, EngineError> {
    let Change { parts, settings, kept } = change;
    let mut drivers = Vec::new();
    let mut leaving = Vec::new();
    let core = current.replace(|old| {
        seal(old, &parts, kept);
        // Reopened sources continue from these checkpoints.
        old.commit().map_err(EngineError::Checkpoints)?;
        let gone = old.nodes().sinks().filter(|(node, _)| !kept(node.kind, &node.id));
        leaving = gone.map(|(node, slot)| Arc::new(Retired::of(node, slot))).collect();
        let succession = Succession { old, parts: &parts, kept, retired, leaving: &leaving };
        let places = succession.places()?;
        let returning = succession.returning();
        let assembled = parts.assemble(old, settings, places, kept)?;
        // Nothing can fail after this point.
        let next = assembled.core;
        drivers = assembled.drivers;
        for sink in retired.iter().chain(&leaving) {
            sink.leave_disk(&next);
        }
        for sink in &leaving {
            sink.note_successor(old, &next);
        }
        // A reopened source starts at its checkpoint, so the payloads in the old lanes are not
        // needed.
        for sink in returning {
            sink.let_go();
        }
        change_over(old, &next);
        Ok(next)
    });
    match core {
        Ok(core) => Ok(Replaced { core, drivers, retired: leaving }),
        Err(error) => {
            unseal(&current.core());
            Err(error)
        }
    }
}

/// Marks as stale the events that merge transforms have not counted and will receive again, because
/// a source is reopened or the transform is removed. Events that cannot be reread are still
/// counted.
fn seal(old: &Core, parts: &Parts, kept: &IsKept<'_>) {
    let is_merge = |node: &Node| node.kind == Kind::Transform;
    let stays = |node: &Node| parts.sinks.iter().any(|sink| *sink.id == *node.id);
    let removed = old.nodes().sinks().filter(|(node, _)| is_merge(node) && !stays(node));
    let removed: SinkSet = removed.map(|(_, slot)| slot.index).collect();
    for source in old.sources().iter() {
        let is_reopened = source.traits.reads_again && !parts.keeps(source, kept);
        source.ledger.seal(if is_reopened { source.wiring.downstream } else { removed });
    }
}

fn unseal(core: &Core) {
    for source in core.sources().iter() {
        source.ledger.seal(SinkSet::EMPTY);
    }
}

/// Closes removed sources, and passes the new sinks to the remaining sources.
fn change_over(old: &Core, next: &Core) {
    for gone in old.sources().iter() {
        if next.sources().iter().any(|slot| slot.is_same(gone)) {
            continue;
        }
        if gone.remove(Box::new(EndedSource)) {
            next.resources().removed.add(&gone.ledger, gone.wiring.downstream);
        }
    }
    next.resources().removed_counters.add(counters_gone(old, next));
    for (index, slot) in next.sources().indexed() {
        let before = old.sources().iter().find(|before| before.is_same(slot));
        let before = before.map(|before| old.nodes().sink_ids(before.wiring.downstream));
        slot.connect(index, next.nodes(), before.as_deref());
    }
    for node in next.nodes().iter() {
        if let Op::Serial(stage) = &node.op {
            // Ticket numbers restart at zero.
            stage.renew();
        }
    }
    next.polling().press_all();
    next.nodes().attach_disks();
    next.sources().wire();
}

/// Returns the counters of the components that are missing from `next`.
fn counters_gone(old: &Core, next: &Core) -> Vec<(ComponentKey, Arc<Counters>)> {
    let stays =
        |counters: &Arc<Counters>| next.counters().any(|(_, other)| Arc::ptr_eq(counters, other));
    let gone = old.counters().filter(|(_, counters)| !stays(counters));
    gone.map(|(key, counters)| (key, counters.clone())).collect()
}

/// Replaces a removed source: it has always ended.
struct EndedSource;

impl Source for EndedSource {
    fn poll(&mut self, _: &mut SourceCx<'_>) -> Polled {
        Polled::Ended
    }
}
