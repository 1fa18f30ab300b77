//! Whether sinks have room for a source, and what their lanes know of it.

use super::{Core, Fed, SourceSlot};
use crate::limits::DETACH_AFTER;
use millstream_model::{BackpressureReason, EngineTime, Polled, SinkSet};

/// Which sinks of a source have room for what it reads.
pub(super) struct Capacity {
    /// Those that get it.
    pub ready: SinkSet,
    /// Those that have had no room for so long that the source continues without them.
    pub blocked: SinkSet,
    /// Those that get no more before they have delivered something.
    lacking: SinkSet,
}

impl Core {
    /// Returns which sinks have room for a source.
    pub(super) fn capacity(&self, source: &SourceSlot, now: EngineTime) -> Capacity {
        let (mut without, mut blocked, mut lacking) = Default::default();
        let mut lacks = |sinks: SinkSet, full| match full {
            None => {}
            // A sink without progress must not keep a source from ending for the others.
            Some(full) if full >= DETACH_AFTER && self.scheduler.is_closing() => {}
            Some(full) => {
                without = without | sinks;
                blocked = if full >= DETACH_AFTER { blocked | sinks } else { blocked };
            }
        };
        for (_, slot) in self.sinks().filter(|(_, slot)| source.downstream.contains(slot.index)) {
            let full = slot.lacks_room_for(source, now);
            let sink = SinkSet::one(slot.index);
            lacks(sink, full);
            // What waits in a disk buffer comes before, at its own rate.
            let gets_more = slot.disk.as_ref().is_some_and(|disk| disk.is_behind());
            lacking = if full.is_some() && !gets_more { lacking | sink } else { lacking };
        }
        source.cuts.iter().for_each(|cut| lacks(cut.downstream, cut.full_for(now)));
        Capacity { ready: source.downstream - without, blocked, lacking }
    }

    /// Lets lanes know whether a source waits for them, after a poll.
    pub(super) fn note_waits(&self, source: &SourceSlot, capacity: &Capacity, polled: &Polled) {
        let waits_for_memory = capacity.ready == source.downstream;
        let sinks = match polled {
            Polled::Backpressure if waits_for_memory => source.downstream,
            Polled::Backpressure | Polled::Batch(..) => capacity.lacking,
            Polled::Wait(_) | Polled::Ended => SinkSet::EMPTY,
        };
        let feeder_waits = source.fed.as_ref().is_some_and(|fed| self.feeder_waits(fed));
        self.set_waits(source, if feeder_waits { source.downstream } else { sinks });
    }

    /// Whether a sink waits until the events that it feeds are settled: it can keep no more of them,
    /// or its input ends only then.
    fn feeder_waits(&self, fed: &Fed) -> bool {
        fed.feed.is_full() || self.until_eof && self.is_ending(fed)
    }

    /// Whether the sink that feeds a source gets nothing more, but from sources of which that is true.
    fn is_ending(&self, fed: &Fed) -> bool {
        let Some(feeder) = self.feeder(fed) else { return true };
        let mut inputs = self.sources.iter().enumerate();
        inputs.all(|(index, source)| {
            !source.downstream.contains(feeder.index)
                || self.scheduler.has_ended(index) && source.is_drained()
                || source.fed.as_ref().is_some_and(|fed| self.is_ending(fed))
        })
    }

    /// Sets for which sinks a source waits.
    pub(super) fn set_waits(&self, source: &SourceSlot, sinks: SinkSet) {
        if *source.wait.sinks.lock() == sinks {
            return;
        }
        let _one_at_a_time = self.pressing.lock();
        let before = std::mem::replace(&mut *source.wait.sinks.lock(), sinks);
        self.press((before | sinks) - (before & sinks));
    }

    /// Lets the lanes of all sinks know whether sources wait for them: a reload has removed sources.
    pub fn press_all(&self) {
        let _one_at_a_time = self.pressing.lock();
        self.press(self.sinks().map(|(_, slot)| slot.index).collect());
    }

    fn press(&self, sinks: SinkSet) {
        for (_, slot) in self.sinks().filter(|(_, slot)| sinks.contains(slot.index)) {
            let mut sources = self.sources.iter();
            let waits = sources.any(|source| source.wait.sinks.lock().contains(slot.index));
            slot.press(BackpressureReason::Source, waits);
        }
    }
}
