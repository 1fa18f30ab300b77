//! A sink's backpressure, as its lanes see it.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// Shows whether a lane's inputs are waiting until its sink has delivered more. The engine sets the
/// flag. If the flag is set, a lane sends a partly filled batch immediately, because no event will
/// arrive to fill it.
#[derive(Debug, Default)]
pub struct Backpressure {
    reasons: AtomicU8,
    /// Whether a lane is waiting for events and must be woken.
    is_watched: AtomicBool,
}

/// Reason why a lane's inputs are waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BackpressureReason {
    /// A source is waiting for the sink.
    Source = 1,
    /// The sink's buffer is full and drops new events.
    Drops = 2,
    /// Entries in the disk buffer are waiting for room in the queue.
    DiskBuffer = 4,
}

impl Backpressure {
    /// Returns whether any input is waiting. If not, the next [`Backpressure::set`] that changes
    /// this returns true, so that its caller wakes the lane.
    pub fn watch(&self) -> bool {
        // The flag is stored before the reasons are read; `set` stores the reasons before it reads
        // the flag. So at least one side sees the other side's store.
        self.is_watched.store(true, Ordering::SeqCst);
        self.is_on()
    }

    /// Returns whether any input is waiting.
    pub fn is_on(&self) -> bool {
        self.reasons.load(Ordering::SeqCst) != 0
    }

    /// Sets whether an input is waiting for `reason`; returns whether the caller must wake a lane.
    pub fn set(&self, reason: BackpressureReason, waits: bool) -> bool {
        let bit = reason as u8;
        let is_set = self.reasons.load(Ordering::SeqCst) & bit != 0;
        if is_set == waits {
            return false;
        }
        if !waits {
            self.reasons.fetch_and(!bit, Ordering::SeqCst);
            return false;
        }
        let was_on = self.reasons.fetch_or(bit, Ordering::SeqCst) != 0;
        !was_on && self.is_watched.swap(false, Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_on_while_any_reason_holds_and_wakes_a_lane_that_watches_it() {
        let backpressure = Backpressure::default();
        assert!(!backpressure.is_on());
        assert!(!backpressure.set(BackpressureReason::Source, true), "nothing watches it");
        backpressure.set(BackpressureReason::Source, false);
        assert!(!backpressure.watch());
        assert!(!backpressure.set(BackpressureReason::Source, false));
        assert!(backpressure.set(BackpressureReason::Source, true));
        assert!(backpressure.watch());
        assert!(!backpressure.set(BackpressureReason::DiskBuffer, true), "it was on");
        backpressure.set(BackpressureReason::Source, false);
        assert!(backpressure.is_on());
        backpressure.set(BackpressureReason::DiskBuffer, false);
        assert!(!backpressure.is_on());
        assert!(backpressure.set(BackpressureReason::Drops, true), "it has been watched since");
    }
}
