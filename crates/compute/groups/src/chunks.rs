//! Lists and text storage that grow without copying.

use crate::limits::CHUNK_BYTES_MAX;

/// A list in chunks. Only the first chunk is copied when it grows, so that a short list is small,
/// and a long list never doubles or moves.
#[derive(Clone, Debug)]
pub struct List<T> {
    chunks: Vec<Vec<T>>,
}

/// Maximum number of bytes in a chunk of a list.
const LIST_CHUNK_BYTES: usize = 1 << 16;

/// Initial capacity of the first chunk.
const FIRST_ENTRIES: usize = 4;

impl<T> Default for List<T> {
    fn default() -> Self {
        List { chunks: Vec::new() }
    }
}

impl<T> List<T> {
    /// Number of entries in a full chunk, which is a power of two.
    const ENTRIES: usize = 1 << (LIST_CHUNK_BYTES / size_of::<T>()).ilog2();

    /// Returns the entry at an index.
    #[inline]
    pub fn get(&self, at: usize) -> Option<&T> {
        self.chunks.get(at / Self::ENTRIES)?.get(at % Self::ENTRIES)
    }

    /// Returns a mutable reference to the entry at an index.
    #[inline]
    pub fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.chunks.get_mut(at / Self::ENTRIES)?.get_mut(at % Self::ENTRIES)
    }

    /// Returns the number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        let before = self.chunks.len().saturating_sub(1) * Self::ENTRIES;
        before + self.chunks.last().map_or(0, Vec::len)
    }

    /// Appends an entry.
    pub fn push(&mut self, entry: T) {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == Self::ENTRIES) {
            let size = if self.chunks.is_empty() { FIRST_ENTRIES } else { Self::ENTRIES };
            grow(&mut self.chunks, 1, usize::MAX);
            self.chunks.push(Vec::with_capacity(size));
        }
        if let Some(chunk) = self.chunks.last_mut() {
            grow(chunk, 1, Self::ENTRIES);
            chunk.push(entry);
        }
    }

    /// Returns the number of bytes that the list has allocated, excluding allocations by its
    /// entries.
    pub fn memory_bytes(&self) -> usize {
        let entries: usize = self.chunks.iter().map(Vec::capacity).sum();
        entries * size_of::<T>() + self.chunks.capacity() * size_of::<Vec<T>>()
    }
}

/// Makes room for `more` entries. Grows by at least half, up to `max` entries in total.
pub fn grow<T>(chunk: &mut Vec<T>, more: usize, max: usize) {
    let needed = chunk.len() + more;
    if needed > chunk.capacity() {
        let size = (chunk.capacity() + chunk.capacity() / 2).min(max).max(needed);
        chunk.reserve_exact(size - chunk.len());
    }
}

/// Strings at 32-bit positions. Each entry consists of the length in one byte, or 255 and the
/// length in eight bytes, followed by the string.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    chunks: Vec<Vec<u8>>,
}

/// Number of bytes per position unit, so that 32-bit positions can address 8 GiB.
const UNIT_BYTES: usize = 2;

/// Number of units in a full chunk.
const CHUNK_UNITS: usize = CHUNK_BYTES_MAX / UNIT_BYTES;

/// Number of chunks whose units 32-bit positions can address, excluding the position that means "no
/// text".
const CHUNKS_MAX: usize = (1 << 32) / CHUNK_UNITS - 1;

/// The length byte that announces a length in the following eight bytes.
const LONG: u8 = u8::MAX;

impl Texts {
    /// Appends a string and returns its position. Returns `None` if all positions are used.
    pub fn push(&mut self, text: &[u8]) -> Option<u32> {
        let bytes = (1 + text.len() + if text.len() < usize::from(LONG) { 0 } else { 8 })
            .next_multiple_of(UNIT_BYTES);
        let is_full = self.chunks.last().is_none_or(|chunk| chunk.len() + bytes > CHUNK_BYTES_MAX);
        if is_full {
            self.add_chunk(bytes)?;
        }
        let at = self.chunks.len() - 1;
        let chunk = &mut self.chunks[at];
        let position = at * CHUNK_UNITS + chunk.len() / UNIT_BYTES;
        grow(chunk, bytes, CHUNK_BYTES_MAX);
        let end = chunk.len() + bytes;
        match u8::try_from(text.len()) {
            Ok(short) if short < LONG => chunk.push(short),
            _ => {
                chunk.push(LONG);
                chunk.extend_from_slice(&(text.len() as u64).to_le_bytes());
            }
        }
        chunk.extend_from_slice(text);
        chunk.resize(end, 0);
        u32::try_from(position).ok()
    }

    fn add_chunk(&mut self, bytes: usize) -> Option<()> {
        if self.chunks.len() == CHUNKS_MAX {
            return None;
        }
        let size = if self.chunks.is_empty() { bytes } else { bytes.max(CHUNK_BYTES_MAX) };
        grow(&mut self.chunks, 1, usize::MAX);
        self.chunks.push(Vec::with_capacity(size));
        Some(())
    }

    /// Returns the text at a position.
    #[inline]
    pub fn get(&self, position: u32) -> Option<&[u8]> {
        let position = position as usize;
        let chunk = self.chunks.get(position / CHUNK_UNITS)?;
        let (short, rest) = chunk.get(position % CHUNK_UNITS * UNIT_BYTES..)?.split_first()?;
        if *short < LONG {
            return rest.get(..usize::from(*short));
        }
        let (length, rest) = rest.split_first_chunk()?;
        rest.get(..u64::from_le_bytes(*length) as usize)
    }

    /// Returns the number of bytes that are allocated for strings.
    pub fn memory_bytes(&self) -> usize {
        let bytes: usize = self.chunks.iter().map(Vec::capacity).sum();
        bytes + self.chunks.capacity() * size_of::<Vec<u8>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_kept_over_chunks() {
        let mut list = List::default();
        for at in 0..3 * List::<u32>::ENTRIES + 5 {
            assert_eq!((list.len(), list.get(at)), (at, None));
            list.push(at as u32 * 3);
        }
        assert!((0..list.len()).all(|at| list.get(at) == Some(&(at as u32 * 3))));
    }

    #[test]
    fn texts_of_any_length_are_kept() {
        let long = [CHUNK_BYTES_MAX - 9, CHUNK_BYTES_MAX, 3 << 20, 7];
        let lengths = [&[0, 1, 12, 254, 255, 256, 70_000], &long[..]].concat();
        let text = |at: usize| vec![at as u8; lengths[at % lengths.len()]];
        let mut texts = Texts::default();
        let positions: Vec<u32> = (0..30_usize).map(|at| texts.push(&text(at)).unwrap()).collect();
        for (at, position) in positions.into_iter().enumerate() {
            assert_eq!(texts.get(position), Some(&text(at)[..]));
        }
        assert_eq!(texts.get(NONE), None);
    }

    const NONE: u32 = crate::index::NONE;
}
