//! Pools of sketches and sets that can be reused.

use crate::chunks::Chunks;
use crate::hashing::IdentityHasher;
use crate::sketch::Sketch;
use crate::work::LOOKUP_WORK;
use hashbrown::HashSet;
use std::hash::BuildHasherDefault;

/// The 64-bit hashes of a set's members. In a set of a million members, two of them have the same
/// hash with a probability of 1 in 40 million.
pub type Members = HashSet<u64, BuildHasherDefault<IdentityHasher>>;

/// A value that a pool can contain.
pub trait Pooled: Default {
    /// Returns the number of values, buckets or members.
    fn len(&self) -> usize;

    /// Adds the contents of `other`.
    fn merge(&mut self, other: &Self);

    /// Removes the contents but keeps the memory.
    fn clear(&mut self);
}

impl Pooled for Sketch {
    fn len(&self) -> usize {
        self.places()
    }

    fn merge(&mut self, other: &Self) {
        Sketch::merge(self, other);
    }

    fn clear(&mut self) {
        Sketch::clear(self);
    }
}

impl Pooled for Members {
    fn len(&self) -> usize {
        Members::len(self)
    }

    fn merge(&mut self, other: &Self) {
        self.extend(other);
    }

    fn clear(&mut self) {
        Members::clear(self);
    }
}

/// A list that keeps cleared entries for reuse, so that a period that is similar to the previous
/// period allocates nothing.
#[derive(Clone, Debug)]
pub struct Pool<T> {
    entries: Chunks<T>,
    used: usize,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Pool { entries: Chunks::default(), used: 0 }
    }
}

impl<T: Pooled> Pool<T> {
    /// Takes an empty entry. Returns its number, counted from 1.
    pub fn take(&mut self) -> u32 {
        if self.used == self.entries.len() {
            self.entries.push(T::default());
        }
        self.used += 1;
        self.used as u32
    }

    pub fn get(&self, number: u32) -> &T {
        &self.entries[number - 1]
    }

    pub fn get_mut(&mut self, number: u32) -> &mut T {
        &mut self.entries[number - 1]
    }

    /// Returns all entries to the pool and frees unused entries, as far as the budget allows. The
    /// entries must be cleared. Returns whether the reset is complete. If not, it must be called
    /// again before an entry is taken.
    pub fn reset(&mut self, budget: &mut usize) -> bool {
        while self.entries.len() > self.used {
            if *budget == 0 {
                return false;
            }
            *budget = budget.saturating_sub(LOOKUP_WORK);
            self.entries.pop();
        }
        self.used = 0;
        true
    }
}
