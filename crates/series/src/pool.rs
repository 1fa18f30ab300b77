//! Sketches and sets that are used again.

use crate::hashing::Same;
use crate::sketch::Sketch;
use hashbrown::HashSet;
use std::hash::BuildHasherDefault;

/// The hashes of a set's members: 64 bits, by which two different ones of a million are taken for the same once in
/// 40 million sets.
pub type Members = HashSet<u64, BuildHasherDefault<Same>>;

/// What can be emptied and keeps its room.
pub trait Clear: Default {
    fn clear(&mut self);
}

impl Clear for Sketch {
    fn clear(&mut self) {
        Sketch::clear(self);
    }
}

impl Clear for Members {
    fn clear(&mut self) {
        Members::clear(self);
    }
}

/// A list that keeps its entries when it is emptied, so that a period like the one before allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Pool<T> {
    entries: Vec<T>,
    used: usize,
}

impl<T: Clear> Pool<T> {
    /// Takes an empty entry; returns its number, from 1 on.
    pub fn take(&mut self) -> u32 {
        if self.used == self.entries.len() {
            self.entries.push(T::default());
        }
        self.used += 1;
        self.used as u32
    }

    pub fn get(&self, number: u32) -> &T {
        &self.entries[number as usize - 1]
    }

    pub fn get_mut(&mut self, number: u32) -> &mut T {
        &mut self.entries[number as usize - 1]
    }

    /// Empties all entries, and lets go of those that were not in use.
    pub fn clear(&mut self) {
        self.entries.truncate(self.used);
        self.entries.iter_mut().for_each(T::clear);
        self.used = 0;
    }
}
