//! Tables that grow without moving what is in them.

use crate::limits::CHUNK_ENTRIES;
use std::ops::{Index, IndexMut};

/// A list in chunks of [`CHUNK_ENTRIES`]. Unlike a `Vec` it never copies its entries to grow, which would take
/// milliseconds between two points, and never has half its room unused.
#[derive(Clone, Debug)]
pub struct Chunks<T> {
    chunks: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Chunks { chunks: Vec::new(), len: 0 }
    }
}

impl<T> Chunks<T> {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn push(&mut self, entry: T) {
        if self.len.is_multiple_of(CHUNK_ENTRIES) {
            self.chunks.push(Vec::with_capacity(CHUNK_ENTRIES));
        }
        self.chunks[self.len / CHUNK_ENTRIES].push(entry);
        self.len += 1;
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.chunks.iter_mut().flatten()
    }
}

impl<T: Clone + Default> Chunks<T> {
    /// Makes it at least `len` entries long, a chunk at a time.
    #[inline]
    pub fn grow(&mut self, len: usize) {
        while self.len < len {
            self.chunks.push(vec![T::default(); CHUNK_ENTRIES]);
            self.len += CHUNK_ENTRIES;
        }
    }
}

impl<T> Index<u32> for Chunks<T> {
    type Output = T;

    #[inline]
    fn index(&self, at: u32) -> &T {
        &self.chunks[at as usize / CHUNK_ENTRIES][at as usize % CHUNK_ENTRIES]
    }
}

impl<T> IndexMut<u32> for Chunks<T> {
    #[inline]
    fn index_mut(&mut self, at: u32) -> &mut T {
        &mut self.chunks[at as usize / CHUNK_ENTRIES][at as usize % CHUNK_ENTRIES]
    }
}
