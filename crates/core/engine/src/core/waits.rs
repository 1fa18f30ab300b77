//! Waits of sources for capacity: how long, for which component, and as recorded events.

use super::{Core, SinkSlot, SourceSlot};
use crate::limits::COMMIT_INTERVAL;
use millstream_model::snapshot::WAITS_FOR_MEMORY;
use millstream_model::{EngineTime, SinkSet};
use millstream_recorder::record::{self, Subject};
use millstream_recorder::recorder::{self, Timer};
use millstream_recorder::schema::EventKind;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The wait of a source for capacity. A long one is counted and recorded in parts, so that it is seen
/// while it lasts, and after a crash.
#[derive(Default)]
pub(crate) struct CapacityWait {
    is_waiting: AtomicBool,
    current: Mutex<Option<Current>>,
    /// Sinks that get nothing from it before they have delivered something.
    pub(super) sinks: Mutex<SinkSet>,
    /// How long it waited, by what it waited for.
    waited: Mutex<BTreeMap<Arc<str>, Duration>>,
}

struct Current {
    timer: Timer,
    since: Instant,
    /// What it waits for.
    lacks: Arc<str>,
}

impl CapacityWait {
    /// Notes whether the source waits, after a poll. `lacks` returns what it waits for.
    pub fn note(&self, source: &str, is_waiting: bool, lacks: impl Fn() -> Arc<str>) {
        if !is_waiting && !self.is_waiting() {
            return;
        }
        let mut current = self.current.lock();
        let is_over = |current: &mut Current| !is_waiting || current.since.elapsed() >= PART;
        if let Some(Current { timer, since, lacks }) = current.take_if(is_over) {
            if timer.is_on() {
                record::wait_for_capacity(timer, &Subject::component_with(source, &lacks), 0);
            }
            self.add(lacks, since.elapsed());
        }
        if is_waiting && current.is_none() {
            let timer = recorder::start(EventKind::WaitForCapacity);
            *current = Some(Current { timer, since: Instant::now(), lacks: lacks() });
        }
        self.is_waiting.store(current.is_some(), Ordering::Relaxed);
    }

    fn add(&self, lacks: Arc<str>, time: Duration) {
        *self.waited.lock().entry(lacks).or_default() += time;
    }

    /// Returns how long the source waited, in seconds, by what it waited for.
    pub fn seconds(&self) -> BTreeMap<String, f64> {
        let waited = self.waited.lock();
        waited.iter().map(|(lacks, time)| (lacks.to_string(), time.as_secs_f64())).collect()
    }

    fn is_waiting(&self) -> bool {
        self.is_waiting.load(Ordering::Relaxed)
    }
}

/// Length of the parts of a long wait.
const PART: Duration = Duration::from_secs(1);

impl Core {
    /// Returns what a source that must not read waits for.
    pub(super) fn lacks(&self, source: &SourceSlot, now: EngineTime) -> Arc<str> {
        let is_behind = |slot: &SinkSlot| source.downstream.contains(slot.index);
        let is_full = |slot: &SinkSlot| slot.lacks_room_for(source, now).is_some();
        let full = self.sinks().find(|(_, slot)| is_behind(slot) && is_full(slot));
        let at_cut = || source.cuts.iter().find(|cut| cut.full_for(now).is_some());
        let node = full.map(|(node, _)| node).or_else(|| at_cut().map(|cut| &self.nodes[cut.node]));
        node.map_or_else(|| WAITS_FOR_MEMORY.into(), |node| node.id.clone())
    }

    /// Counts and records that sources continue without a sink or transform that has had no capacity
    /// for a sampling interval.
    pub fn sample_blocked(&self, now: EngineTime) {
        let timer = recorder::start(EventKind::WaitForCapacity);
        let is_blocked = |full: Option<Duration>| full.is_some_and(|full| full >= COMMIT_INTERVAL);
        for source in self.sources.iter().filter(|source| !source.wait.is_waiting()) {
            for (node, slot) in self.sinks() {
                let reads = source.downstream.contains(slot.index);
                if reads && is_blocked(slot.lacks_room_for(source, now)) {
                    let (waits, bytes) =
                        (Subject::component_with(&source.id, &node.id), slot.queued());
                    record::wait_for_capacity(
                        timer.earlier(COMMIT_INTERVAL),
                        &waits,
                        bytes as usize,
                    );
                    source.wait.add(node.id.clone(), COMMIT_INTERVAL);
                }
            }
            for cut in source.cuts.iter().filter(|cut| is_blocked(cut.full_for(now))) {
                source.wait.add(self.nodes[cut.node].id.clone(), COMMIT_INTERVAL);
            }
        }
    }
}
