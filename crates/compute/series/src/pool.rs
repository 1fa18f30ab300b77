//! Sketches and sets that are used again.

use crate::chunks::Chunks;
use crate::hashing::Same;
use crate::sketch::Sketch;
use crate::store::LOOKUP_WORK;
use hashbrown::HashSet;
use std::hash::BuildHasherDefault;

/// The hashes of a set's members: 64 bits, by which two different ones of a million are taken for
/// the same once in 40 million sets.
pub type Members = HashSet<u64, BuildHasherDefault<Same>>;

/// What a series has in a pool.
pub trait Pooled: Default {
    /// How many values, buckets or members it has.
    fn len(&self) -> usize;

    /// Adds what `other` has.
    fn merge(&mut self, other: &Self);

    /// Forgets everything and keeps its room.
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

/// A list that keeps its entries when they are emptied, so that a period like the one before
/// allocates nothing.
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
    /// Takes an empty entry; returns its number, from 1 on.
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

    /// Takes all entries back, which have been emptied. Those that were not in use are let go, as
    /// far as the `rest` of the work goes; returns whether that was all, else it is to be called
    /// again before the next one is taken.
    pub fn reset(&mut self, rest: &mut usize) -> bool {
        while self.entries.len() > self.used {
            if *rest == 0 {
                return false;
            }
            *rest = rest.saturating_sub(LOOKUP_WORK);
            self.entries.pop();
        }
        self.used = 0;
        true
    }
}
