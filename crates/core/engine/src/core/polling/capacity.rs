//! Finds the sinks that have room for a source's data.

use crate::core::{Nodes, SinkSlot, SourceSlot};
use crate::limits::DETACH_AFTER;
use crate::scheduler::Scheduler;
use millstream_model::snapshot::WAITS_FOR_MEMORY;
use millstream_model::{EngineTime, SinkSet};
use std::sync::Arc;
use std::time::Duration;

/// Which of a source's sinks have room for its data.
pub(super) struct Capacity {
    /// Sinks that receive the data that is read.
    pub ready: SinkSet,
    /// Sinks that have had no room for so long that the source reads without them.
    pub blocked: SinkSet,
    /// Sinks whose disk buffers take data that could wait in the source.
    pub overflow: SinkSet,
    /// Sinks that receive no more data until they have delivered some.
    pub lacking: SinkSet,
}

/// Sinks without room.
struct Full<'a> {
    sinks: SinkSet,
    /// Sinks that have had no room for [`DETACH_AFTER`].
    blocked: SinkSet,
    scheduler: &'a Scheduler,
}

impl Full<'_> {
    /// Adds sinks that have had no room for `full_for`; `None` means that they have room.
    fn add(&mut self, sinks: SinkSet, full_for: Option<Duration>) {
        let Some(full_for) = full_for else { return };
        let is_blocked = full_for >= DETACH_AFTER;
        // A sink that makes no progress must not prevent a source from ending for the other sinks.
        if is_blocked && self.scheduler.is_closing() {
            return;
        }
        self.sinks = self.sinks | sinks;
        if is_blocked {
            self.blocked = self.blocked | sinks;
        }
    }
}

impl Capacity {
    /// Finds the sinks that have room for a source.
    pub fn measure(
        source: &SourceSlot,
        nodes: &Nodes,
        scheduler: &Scheduler,
        now: EngineTime,
    ) -> Capacity {
        let mut full = Full { sinks: SinkSet::EMPTY, blocked: SinkSet::EMPTY, scheduler };
        let mut lacking = SinkSet::EMPTY;
        for slot in nodes.slots_of(source.wiring.downstream) {
            let full_for = slot.lacks_room_for(source, now);
            let sink = SinkSet::one(slot.index);
            full.add(sink, full_for);
            // The entries in a disk buffer come first, at the buffer's rate.
            let gets_more = slot.disk.as_ref().is_some_and(|disk| disk.is_behind());
            if full_for.is_some() && !gets_more {
                lacking = lacking | sink;
            }
        }
        for cut in &source.wiring.cuts {
            full.add(cut.downstream, cut.full_for(now));
        }
        Capacity {
            ready: source.wiring.downstream - full.sinks,
            blocked: full.blocked,
            overflow: overflow(source, nodes, now),
            lacking,
        }
    }
}

/// Returns the sinks whose disk buffers take data that could wait in the source.
fn overflow(source: &SourceSlot, nodes: &Nodes, now: EngineTime) -> SinkSet {
    if !source.traits.overflows || !source.traits.can_wait {
        return SinkSet::EMPTY;
    }
    let has_room = |slot: &&SinkSlot| {
        let disk = slot.disk.as_ref().filter(|_| slot.buffer.disk.is_some());
        disk.is_some_and(|disk| slot.disk_full_for(disk, now).is_none())
    };
    let reached = nodes.slots_of(source.wiring.downstream);
    reached.filter(has_room).map(|slot| slot.index).collect()
}

/// Returns what a blocked source is waiting for: the id of a sink or transform, or memory.
pub(super) fn lacking_component(source: &SourceSlot, nodes: &Nodes, now: EngineTime) -> Arc<str> {
    for (node, slot) in nodes.sinks() {
        if source.reaches(slot.index) && slot.lacks_room_for(source, now).is_some() {
            return node.id.clone();
        }
    }
    match source.wiring.cuts.iter().find(|cut| cut.full_for(now).is_some()) {
        Some(cut) => nodes.get(cut.node).id.clone(),
        None => WAITS_FOR_MEMORY.into(),
    }
}
