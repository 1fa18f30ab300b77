//! Blocks of the file that are kept in memory.

use crate::numbers;
use crate::{Error, ReadAt};
use std::io;

/// Bytes of a block. A journal is read mostly in order, so a block serves hundreds of objects.
const BLOCK_BYTES: usize = 64 << 10;

/// Fewest blocks: one each for an entry, its array, and two fields.
const BLOCKS_MIN: usize = 4;

/// Offsets beyond are beyond the end of every file. Some systems reject them with an error that
/// looks like a fault of the disk.
const OFFSET_MAX: u64 = 1 << 62;

/// A reader that keeps the most recently used blocks.
pub(crate) struct Blocks<R> {
    reader: R,
    /// Number of the block in each slot.
    numbers: Vec<u64>,
    slots: Vec<Slot>,
    slots_max: usize,
    /// Slot of the last read, which the next read probably uses too.
    last: usize,
    /// Number of changes of `last`, as the time for the least recent use.
    clock: u64,
    /// Bytes that are not within one block.
    joined: Vec<u8>,
}

struct Slot {
    bytes: Box<[u8]>,
    /// Bytes that the file has in this block.
    len: usize,
    used: u64,
}

impl<R: ReadAt> Blocks<R> {
    pub(crate) fn new(reader: R, bytes_max: usize) -> Blocks<R> {
        Blocks {
            reader,
            numbers: Vec::new(),
            slots: Vec::new(),
            slots_max: (bytes_max / BLOCK_BYTES).max(BLOCKS_MIN),
            last: 0,
            clock: 0,
            joined: Vec::new(),
        }
    }

    pub(crate) fn reader(&self) -> &R {
        &self.reader
    }

    /// Forgets all blocks, because the file has changed.
    pub(crate) fn clear(&mut self) {
        self.numbers.fill(u64::MAX);
    }

    /// Returns the bytes at an offset.
    ///
    /// # Errors
    ///
    /// Fails if the bytes cannot be read, or if the file ends before; then the file is damaged.
    #[inline]
    pub(crate) fn bytes(&mut self, offset: u64, len: usize) -> Result<&[u8], Error> {
        if offset > OFFSET_MAX {
            return Err(too_short(offset));
        }
        let start = (offset % BLOCK_BYTES as u64) as usize;
        if len > BLOCK_BYTES - start {
            return self.join(offset, len);
        }
        let slot = self.slot(offset / BLOCK_BYTES as u64)?;
        let slot = &self.slots[slot];
        slot.bytes[..slot.len].get(start..start + len).ok_or(too_short(offset))
    }

    /// Returns the number at an offset.
    pub(crate) fn number(&mut self, offset: u64) -> Result<u64, Error> {
        Ok(numbers::number(self.bytes(offset, 8)?, 0))
    }

    /// Reads bytes from the file itself, and not from a block that may be old.
    pub(crate) fn read_new(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        read_full(&self.reader, buffer, offset)
    }

    /// Returns the slot with a block, after reading the block if necessary.
    #[inline]
    fn slot(&mut self, number: u64) -> Result<usize, Error> {
        if self.numbers.get(self.last) == Some(&number) {
            return Ok(self.last);
        }
        self.clock += 1;
        let slot = match self.numbers.iter().position(|other| *other == number) {
            Some(slot) => slot,
            None => self.fill(number)?,
        };
        self.slots[slot].used = self.clock;
        self.last = slot;
        Ok(slot)
    }

    /// Reads a block into a free slot, or into the least recently used one.
    fn fill(&mut self, number: u64) -> Result<usize, Error> {
        let slot = if self.slots.len() < self.slots_max {
            let bytes = vec![0; BLOCK_BYTES].into_boxed_slice();
            self.slots.push(Slot { bytes, len: 0, used: 0 });
            self.numbers.push(u64::MAX);
            self.slots.len() - 1
        } else {
            let used = self.slots.iter().enumerate();
            used.min_by_key(|(_, slot)| slot.used).map_or(0, |(index, _)| index)
        };
        self.numbers[slot] = u64::MAX;
        let bytes = &mut self.slots[slot].bytes;
        let len = read_full(&self.reader, bytes, number.saturating_mul(BLOCK_BYTES as u64))?;
        self.slots[slot].len = len;
        self.numbers[slot] = number;
        Ok(slot)
    }

    /// Returns bytes that are not within one block.
    fn join(&mut self, offset: u64, len: usize) -> Result<&[u8], Error> {
        let mut joined = std::mem::take(&mut self.joined);
        joined.clear();
        if len > BLOCK_BYTES {
            joined.resize(len, 0);
            let read = read_full(&self.reader, &mut joined, offset)?;
            joined.truncate(read);
        } else {
            let first = BLOCK_BYTES - (offset % BLOCK_BYTES as u64) as usize;
            joined.extend_from_slice(self.bytes(offset, first)?);
            joined.extend_from_slice(self.bytes(offset + first as u64, len - first)?);
        }
        self.joined = joined;
        self.joined.get(..len).ok_or(too_short(offset))
    }
}

fn too_short(offset: u64) -> Error {
    Error::damaged(offset, "more bytes before the end of the file")
}

/// Fills the buffer as far as the file reaches.
fn read_full(reader: &impl ReadAt, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
    let mut len = 0;
    while len < buffer.len() {
        match reader.read_at(&mut buffer[len..], offset.saturating_add(len as u64)) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => return Err(Error::Io { offset, source }),
        }
    }
    Ok(len)
}
