//! The rows of a table, in chunks. Each row contains a group's packed key ids and words.

use crate::accumulators::Layout;
use crate::chunks::grow;
use crate::limits::CHUNK_BYTES_MAX;
use crate::packing::{Packed, Packing};
use std::sync::Arc;

/// Maximum number of rows in a chunk. Must be a multiple of 64.
const CHUNK_ROWS_MAX: usize = 1 << 14;

/// Rows in chunks. Each row contains its packed ids followed by its words, so that a lookup and a
/// merge share a cache line. A full chunk keeps the packing of its last row, and is not repacked
/// when a dictionary grows.
#[derive(Clone, Debug)]
pub struct Rows {
    layout: Arc<Layout>,
    chunks: Vec<Chunk>,
    packings: Vec<Packing>,
    /// Logarithm of the number of rows in a full chunk.
    chunk_bits: u32,
    len: usize,
}

#[derive(Clone, Debug)]
struct Chunk {
    words: Vec<u64>,
    /// Number of words per row, and how many of them contain ids.
    stride: u32,
    ids: u32,
    /// Index of the packing.
    packing: u32,
    has_changed: bool,
    /// One bit per row, which is set if the row has changed since the last snapshot.
    changed: Vec<u64>,
}

impl Rows {
    /// Creates an empty list of rows with up to `keys` columns.
    pub fn new(layout: Arc<Layout>, keys: usize) -> Rows {
        let row_bytes = (layout.words() + keys.div_ceil(2)).max(1) * size_of::<u64>();
        let rows = (CHUNK_BYTES_MAX / row_bytes).clamp(u64::BITS as usize, CHUNK_ROWS_MAX);
        let packings = vec![Packing::new(&vec![0; keys])];
        Rows { layout, chunks: Vec::new(), packings, chunk_bits: rows.ilog2(), len: 0 }
    }

    /// Returns the number of rows.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the chunk of a row, and the row's index in the chunk.
    #[inline(always)]
    fn place(&self, row: usize) -> (usize, usize) {
        (row >> self.chunk_bits, row & ((1 << self.chunk_bits) - 1))
    }

    /// Returns the ids and words of a row.
    #[inline(always)]
    fn row(&self, row: usize) -> Option<(&Chunk, &[u64])> {
        let (chunk, at) = self.place(row);
        let chunk = self.chunks.get(chunk)?;
        let from = at * chunk.stride as usize;
        Some((chunk, chunk.words.get(from..from + chunk.stride as usize)?))
    }

    /// Prefetches the first and last word of a row, and the row's change bit.
    #[inline(always)]
    pub fn prefetch(&self, row: usize) {
        let at = self.place(row).1;
        if let Some((chunk, row)) = self.row(row) {
            row.first().into_iter().for_each(millstream_scan::prefetch);
            row.last().into_iter().for_each(millstream_scan::prefetch);
            chunk.changed.get(at / 64).into_iter().for_each(millstream_scan::prefetch);
        }
    }

    /// Returns whether a row has these ids.
    #[inline(always)]
    pub fn has_ids(&self, row: usize, ids: &[u32]) -> bool {
        let Some((chunk, row)) = self.row(row) else { return false };
        self.packings[chunk.packing as usize].is_equal(&row[..chunk.ids as usize], ids)
    }

    /// Returns the key id of a row and column.
    #[inline]
    pub fn id(&self, row: usize, column: usize) -> Option<u32> {
        let (chunk, row) = self.row(row)?;
        self.packings[chunk.packing as usize].id(row, column)
    }

    /// Returns the words of a row. Empty if the row does not exist.
    #[inline]
    pub fn words(&self, row: usize) -> &[u64] {
        self.row(row).map_or(&[], |(chunk, row)| &row[chunk.ids as usize..])
    }

    /// Returns the words of a row as mutable, and marks the row as changed.
    #[inline(always)]
    pub fn words_mut(&mut self, row: usize) -> &mut [u64] {
        words_mut(&mut self.chunks, self.chunk_bits, row)
    }

    /// Merges words into a row if the row exists.
    #[inline(always)]
    pub fn merge(&mut self, row: usize, words: &[u64]) {
        self.layout.merge_words(words_mut(&mut self.chunks, self.chunk_bits, row), words);
    }

    /// Appends a row without events and returns its index. `ids_max` returns the largest id of each
    /// column.
    pub fn push(&mut self, ids: &[u32], ids_max: impl Fn() -> Vec<u32>) -> usize {
        let row = self.len;
        let (chunk, at) = self.place(row);
        if chunk == self.chunks.len() {
            self.add_chunk();
        }
        let packed = match self.packings[self.chunks[chunk].packing as usize].pack(ids) {
            Some(packed) => packed,
            None => self.widen(Packing::new(&ids_max()), ids),
        };
        let rows_max = 1 << self.chunk_bits;
        let chunk = &mut self.chunks[chunk];
        let stride = chunk.stride as usize;
        grow(&mut chunk.words, stride, rows_max * stride);
        chunk.words.extend_from_slice(&packed[..chunk.ids as usize]);
        let from = chunk.words.len();
        chunk.words.resize(from + self.layout.words(), 0);
        self.layout.fresh(&mut chunk.words[from..]);
        if at % 64 == 0 {
            grow(&mut chunk.changed, 1, rows_max / 64);
            chunk.changed.push(0);
        }
        chunk.changed[at / 64] |= 1 << (at % 64);
        chunk.has_changed = true;
        self.len += 1;
        row
    }

    #[cold]
    fn add_chunk(&mut self) {
        let packing = self.packings.len() - 1;
        let ids = self.packings[packing].words();
        let stride = ids + self.layout.words();
        let rows = if self.chunks.is_empty() { 4 } else { 1 << self.chunk_bits };
        grow(&mut self.chunks, 1, usize::MAX);
        self.chunks.push(Chunk {
            words: Vec::with_capacity(rows * stride),
            stride: stride as u32,
            ids: ids as u32,
            packing: packing as u32,
            has_changed: false,
            changed: Vec::with_capacity(rows.div_ceil(64)),
        });
    }

    /// Repacks the last chunk with wider ids. Returns `ids` in the new packing.
    #[cold]
    fn widen(&mut self, packing: Packing, ids: &[u32]) -> Packed {
        let packed = packing.pack(ids).unwrap_or_default();
        let is_only = self.chunks.len() == 1;
        let Some(chunk) = self.chunks.last_mut() else { return packed };
        let old = &self.packings[chunk.packing as usize];
        let (stride, old_ids) = (packing.words() + self.layout.words(), chunk.ids as usize);
        let rows = chunk.words.capacity() / (chunk.stride as usize).max(1);
        let mut words = Vec::with_capacity(rows * stride);
        let mut unpacked = vec![0; ids.len()];
        for row in chunk.words.chunks_exact((chunk.stride as usize).max(1)) {
            let ids = (0..).map_while(|column| old.id(row, column));
            unpacked.iter_mut().zip(ids).for_each(|(to, id)| *to = id);
            let packed = packing.pack(&unpacked).unwrap_or_default();
            words.extend_from_slice(&packed[..packing.words()]);
            words.extend_from_slice(&row[old_ids..]);
        }
        (chunk.words, chunk.stride, chunk.ids) = (words, stride as u32, packing.words() as u32);
        chunk.packing = if is_only { 0 } else { self.packings.len() as u32 };
        // No other chunk uses the old packing, so the new packing replaces it.
        if is_only {
            self.packings.clear();
        }
        self.packings.push(packing);
        packed
    }

    /// Calls `each` with each row that has changed since the last call to [`Rows::forget_changes`].
    pub fn changed(&self, mut each: impl FnMut(usize)) {
        for (number, chunk) in self.chunks.iter().enumerate().filter(|(_, c)| c.has_changed) {
            for (at, bits) in chunk.changed.iter().enumerate() {
                let mut bits = *bits;
                while bits != 0 {
                    each((number << self.chunk_bits) + at * 64 + bits.trailing_zeros() as usize);
                    bits &= bits - 1;
                }
            }
        }
    }

    /// Marks all rows as unchanged.
    pub fn forget_changes(&mut self) {
        for chunk in self.chunks.iter_mut().filter(|chunk| chunk.has_changed) {
            chunk.changed.fill(0);
            chunk.has_changed = false;
        }
    }

    /// Returns the number of bytes that the rows have allocated, excluding the layout.
    pub fn memory_bytes(&self) -> usize {
        let words = |chunk: &Chunk| chunk.words.capacity() + chunk.changed.capacity();
        let words: usize = self.chunks.iter().map(words).sum();
        let packings: usize = self.packings.iter().map(Packing::memory_bytes).sum();
        words * size_of::<u64>()
            + packings
            + self.chunks.capacity() * size_of::<Chunk>()
            + self.packings.capacity() * size_of::<Packing>()
    }
}

/// Returns the words of a row as mutable, and marks the row as changed.
#[inline(always)]
fn words_mut(chunks: &mut [Chunk], chunk_bits: u32, row: usize) -> &mut [u64] {
    let at = row & ((1 << chunk_bits) - 1);
    let Some(chunk) = chunks.get_mut(row >> chunk_bits) else { return &mut [] };
    if let Some(bits) = chunk.changed.get_mut(at / 64) {
        *bits |= 1 << (at % 64);
    }
    chunk.has_changed = true;
    let (stride, ids) = (chunk.stride as usize, chunk.ids as usize);
    chunk.words.get_mut(at * stride + ids..(at + 1) * stride).unwrap_or(&mut [])
}
