//! A word of shared memory.

use std::sync::atomic::{self, AtomicU64, Ordering};

/// A 64-bit word that threads share. This is a trait so that a model checker can replace the
/// hardware.
pub trait Word {
    /// Reads the word.
    fn load(&self, ordering: Ordering) -> u64;

    /// Writes the word.
    fn store(&self, value: u64, ordering: Ordering);

    /// Sets the word to `to` if it equals `from`. Returns whether it did.
    fn replace(&self, from: u64, to: u64) -> bool;

    /// Adds to the word and returns the old value.
    fn fetch_add(&self, value: u64) -> u64;

    /// Orders the reads and writes before and after the fence.
    fn fence(ordering: Ordering);
}

impl Word for AtomicU64 {
    #[inline]
    fn load(&self, ordering: Ordering) -> u64 {
        AtomicU64::load(self, ordering)
    }

    #[inline]
    fn store(&self, value: u64, ordering: Ordering) {
        AtomicU64::store(self, value, ordering);
    }

    fn replace(&self, from: u64, to: u64) -> bool {
        self.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    fn fetch_add(&self, value: u64) -> u64 {
        AtomicU64::fetch_add(self, value, Ordering::Relaxed)
    }

    #[inline]
    fn fence(ordering: Ordering) {
        atomic::fence(ordering);
    }
}
