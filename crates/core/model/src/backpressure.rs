//! Backpressure of a sink, as its lanes see it.

use std::sync::atomic::{AtomicU8, Ordering};

/// Whether what feeds a lane waits until its sink has delivered more. The engine says so; a lane
/// without anything in flight then sends a batch that is not full, since nothing comes to fill it.
#[derive(Debug, Default)]
pub struct Backpressure(AtomicU8);

/// Why what feeds a lane waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BackpressureReason {
    /// The sink's buffer is full.
    BufferFull = 1,
    /// The queue is as long as it may be for sources that can read later.
    QueueLong = 2,
    /// Entries of the disk buffer wait for room in the queue.
    DiskBuffer = 4,
}

impl Backpressure {
    /// Whether anything waits.
    pub fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Sets whether something waits for a reason; returns whether nothing waited before.
    pub fn set(&self, reason: BackpressureReason, waits: bool) -> bool {
        let bit = reason as u8;
        let is_set = self.0.load(Ordering::Relaxed) & bit != 0;
        if is_set == waits {
            return false;
        }
        match waits {
            true => self.0.fetch_or(bit, Ordering::Relaxed) == 0,
            false => {
                self.0.fetch_and(!bit, Ordering::Relaxed);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_on_while_any_reason_holds_and_says_when_the_first_begins() {
        let backpressure = Backpressure::default();
        assert!(!backpressure.is_on());
        assert!(!backpressure.set(BackpressureReason::QueueLong, false));
        assert!(backpressure.set(BackpressureReason::QueueLong, true));
        assert!(!backpressure.set(BackpressureReason::QueueLong, true));
        assert!(!backpressure.set(BackpressureReason::DiskBuffer, true));
        backpressure.set(BackpressureReason::QueueLong, false);
        assert!(backpressure.is_on());
        backpressure.set(BackpressureReason::DiskBuffer, false);
        assert!(!backpressure.is_on());
        assert!(backpressure.set(BackpressureReason::BufferFull, true));
    }
}
