//! Waits of sources for capacity, as recorded events.

use super::{Core, SinkSlot, SourceSlot};
use crate::limits::COMMIT_INTERVAL;
use millstream_model::EngineTime;
use millstream_recorder::record::{self, Subject};
use millstream_recorder::recorder::{self, Timer};
use millstream_recorder::schema::EventKind;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The wait of a source for capacity. A long one is recorded in parts, so that it is seen while it
/// lasts, and after a crash.
#[derive(Default)]
pub(crate) struct CapacityWait {
    is_waiting: AtomicBool,
    current: Mutex<Option<Current>>,
}

struct Current {
    timer: Timer,
    since: Instant,
    /// The source, and what it waits for.
    waits: Subject,
}

impl CapacityWait {
    /// Notes whether the source waits, after a poll. `lacks` returns it and what it waits for.
    pub fn note(&self, is_waiting: bool, lacks: impl Fn() -> Subject) {
        if !is_waiting && !self.is_waiting() {
            return;
        }
        let mut current = self.current.lock();
        let is_over = |current: &mut Current| !is_waiting || current.since.elapsed() >= PART;
        if let Some(Current { timer, waits, .. }) = current.take_if(is_over) {
            record::wait_for_capacity(timer, &waits, 0);
        }
        let timer = recorder::start(EventKind::WaitForCapacity);
        if is_waiting && timer.is_on() && current.is_none() {
            *current = Some(Current { timer, since: Instant::now(), waits: lacks() });
        }
        self.is_waiting.store(current.is_some(), Ordering::Relaxed);
    }

    fn is_waiting(&self) -> bool {
        self.is_waiting.load(Ordering::Relaxed)
    }
}

/// Length of the parts of a long wait.
const PART: Duration = Duration::from_secs(1);

impl Core {
    /// Returns a source that must not read, and what it waits for.
    pub(super) fn lacks(&self, source: &SourceSlot, now: EngineTime) -> Subject {
        let is_behind = |slot: &SinkSlot| source.downstream.contains(slot.index);
        let is_full = |slot: &SinkSlot| slot.lacks_room_for(source, now).is_some();
        let full = self.sinks().find(|(_, slot)| is_behind(slot) && is_full(slot));
        let at_cut = || source.cuts.iter().find(|cut| cut.full_for(now).is_some());
        let node = full.map(|(node, _)| node).or_else(|| at_cut().map(|cut| &self.nodes[cut.node]));
        Subject::component_with(&source.id, node.map_or("memory", |node| &node.id))
    }

    /// Records that sources continue without a sink, or wait for it, once per sampling interval.
    pub fn record_blocked_sinks(&self, now: EngineTime) {
        let timer = recorder::start(EventKind::WaitForCapacity);
        if !timer.is_on() {
            return;
        }
        for (node, slot) in self.sinks() {
            let readers =
                self.sources.iter().filter(|source| source.downstream.contains(slot.index));
            for source in readers.filter(|source| !source.wait.is_waiting()) {
                let blocked = slot.lacks_room_for(source, now).unwrap_or_default();
                let waits = || Subject::component_with(&source.id, &node.id);
                if blocked >= COMMIT_INTERVAL {
                    let bytes = slot.queued() as usize;
                    record::wait_for_capacity(timer.earlier(COMMIT_INTERVAL), &waits(), bytes);
                }
            }
        }
    }
}
