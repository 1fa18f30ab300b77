//! Tables that grow without moving existing entries.

use crate::limits::CHUNK_ENTRIES;
use std::ops::{Index, IndexMut};

/// A list in chunks of [`CHUNK_ENTRIES`]. Unlike a `Vec`, it never copies its entries to grow,
/// which would delay a point by milliseconds, and never leaves half of its memory unused. Removing
/// entries does not free memory.
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
        if self.len == self.chunks.len() * CHUNK_ENTRIES {
            self.chunks.push(Vec::with_capacity(CHUNK_ENTRIES));
        }
        self.chunks[self.len / CHUNK_ENTRIES].push(entry);
        self.len += 1;
    }

    pub fn pop(&mut self) -> Option<T> {
        self.len = self.len.checked_sub(1)?;
        self.chunks[self.len / CHUNK_ENTRIES].pop()
    }

    /// Frees unused chunks.
    pub fn trim(&mut self) {
        self.chunks.truncate(self.len.div_ceil(CHUNK_ENTRIES));
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

/// A table that allocates each chunk at the first write to the chunk.
#[derive(Clone, Debug, Default)]
pub struct Sparse<T> {
    /// Chunks of [`CHUNK_ENTRIES`] entries. A chunk that is not allocated is empty.
    chunks: Vec<Vec<T>>,
}

impl<T: Clone + Default> Sparse<T> {
    /// Returns the entry if its chunk is allocated.
    #[inline]
    pub fn get(&self, at: u32) -> Option<&T> {
        self.chunks.get(at as usize / CHUNK_ENTRIES)?.get(at as usize % CHUNK_ENTRIES)
    }

    /// Replaces the entry with the default and returns the old entry if its chunk is allocated.
    #[inline]
    pub fn take(&mut self, at: u32) -> Option<T> {
        let chunk = self.chunks.get_mut(at as usize / CHUNK_ENTRIES)?;
        chunk.get_mut(at as usize % CHUNK_ENTRIES).map(std::mem::take)
    }

    /// Returns the entry. Allocates its chunk if necessary.
    #[inline]
    pub fn entry(&mut self, at: u32) -> &mut T {
        let (chunk, at) = (at as usize / CHUNK_ENTRIES, at as usize % CHUNK_ENTRIES);
        if self.chunks.get(chunk).is_none_or(|entries| at >= entries.len()) {
            self.make(chunk);
        }
        &mut self.chunks[chunk][at]
    }

    #[cold]
    fn make(&mut self, chunk: usize) {
        if self.chunks.len() <= chunk {
            self.chunks.resize_with(chunk + 1, Vec::new);
        }
        self.chunks[chunk] = vec![T::default(); CHUNK_ENTRIES];
    }
}
