//! Tells lanes which sources are waiting for them, and records blocked sinks.

use super::{Capacity, Polling};
use crate::core::{Fed, SourceSlot};
use crate::limits::COMMIT_INTERVAL;
use millstream_model::{BackpressureReason, EngineTime, Polled, SinkSet};
use millstream_recorder::record::{self, Subject};
use millstream_recorder::recorder;
use millstream_recorder::schema::EventKind;
use std::time::Duration;

impl Polling {
    /// Tells lanes after a poll whether a source is waiting for them.
    pub(super) fn note_waits(&self, source: &SourceSlot, capacity: &Capacity, polled: &Polled) {
        let downstream = source.wiring.downstream;
        let waits_for_memory = capacity.ready == downstream;
        let sinks = match polled {
            Polled::Backpressure if waits_for_memory => downstream,
            Polled::Backpressure | Polled::Batch(..) => capacity.lacking,
            Polled::Wait(_) | Polled::Ended => SinkSet::EMPTY,
        };
        let feeder_waits = source.fed.as_ref().is_some_and(|fed| self.feeder_waits(fed));
        self.set_waits(source, if feeder_waits { downstream } else { sinks });
    }

    /// Returns whether a sink is waiting until the events in its feed are settled. A sink waits if
    /// the feed is full, or if the sink's input ends only after these events are settled.
    fn feeder_waits(&self, fed: &Fed) -> bool {
        fed.feed.is_full() || self.resources.until_eof && self.is_ending(fed)
    }

    /// Returns whether all sources of the sink that feeds a source have ended. A source that is fed
    /// in turn counts as ended if all sources of its feeding sink have ended.
    fn is_ending(&self, fed: &Fed) -> bool {
        let Some(feeder) = self.nodes.slot(fed.sink) else { return true };
        self.sources.indexed().all(|(index, source)| {
            !source.reaches(feeder.index)
                || self.sources.has_delivered_all(index)
                || source.fed.as_ref().is_some_and(|fed| self.is_ending(fed))
        })
    }

    /// Records which sinks a source is waiting for, and tells their lanes about changes.
    pub(super) fn set_waits(&self, source: &SourceSlot, sinks: SinkSet) {
        if source.wait.sinks() == sinks {
            return;
        }
        let _one_at_a_time = self.pressing.lock();
        let before = source.wait.replace_sinks(sinks);
        self.press((before | sinks) - (before & sinks));
    }

    /// Tells the lanes of all sinks whether sources are waiting for them, after a reload has
    /// removed sources.
    pub fn press_all(&self) {
        let _one_at_a_time = self.pressing.lock();
        self.press(self.nodes.all_sinks());
    }

    fn press(&self, sinks: SinkSet) {
        for slot in self.nodes.slots_of(sinks) {
            let waits = self.sources.iter().any(|source| source.wait.sinks().contains(slot.index));
            slot.press(BackpressureReason::Source, waits);
        }
    }

    /// Counts and records that sources are continuing without a sink or transform that has had no
    /// capacity for a sampling interval.
    pub fn sample_blocked(&self, now: EngineTime) {
        for source in self.sources.iter().filter(|source| !source.wait.is_waiting()) {
            self.sample_blocked_sinks(source, now);
            for cut in &source.wiring.cuts {
                if is_blocked(cut.full_for(now)) {
                    source.wait.add(self.nodes.get(cut.node).id.clone(), COMMIT_INTERVAL);
                }
            }
        }
    }

    fn sample_blocked_sinks(&self, source: &SourceSlot, now: EngineTime) {
        let timer = recorder::start(EventKind::WaitForCapacity);
        for (node, slot) in self.nodes.sinks() {
            if !source.reaches(slot.index) || !is_blocked(slot.lacks_room_for(source, now)) {
                continue;
            }
            let subject = Subject::component_with(&source.id, &node.id);
            let timer = timer.earlier(COMMIT_INTERVAL);
            record::wait_for_capacity(timer, &subject, slot.queued() as usize);
            source.wait.add(node.id.clone(), COMMIT_INTERVAL);
        }
    }
}

/// Returns whether a component has had no capacity for a sampling interval.
fn is_blocked(full: Option<Duration>) -> bool {
    full.is_some_and(|full| full >= COMMIT_INTERVAL)
}
