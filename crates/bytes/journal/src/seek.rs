//! Binary search in the arrays of entries.

use crate::blocks::Blocks;
use crate::cursor::{Cursor, Place, capacity, next_array};
use crate::numbers;
use crate::object::{self, ARRAY_BYTES, ENTRY, ENTRY_BYTES, Layout};
use crate::{Error, Header, ReadAt};

/// A number of an entry that increases in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Seqnum,
    Realtime,
}

/// What is searched: the first entry whose key is at least `target`.
pub(crate) struct Search<'a, R> {
    pub(crate) blocks: &'a mut Blocks<R>,
    pub(crate) header: &'a Header,
    pub(crate) key: Key,
    pub(crate) target: u64,
}

/// An array of entries during a search.
struct Array {
    offset: u64,
    capacity: u64,
    /// Number of items that are in use.
    count: u64,
    /// Number of entries in earlier arrays.
    passed: u64,
}

impl<R: ReadAt> Search<'_, R> {
    /// Returns the position before the entry, or the end.
    ///
    /// # Errors
    ///
    /// Fails for damage on the way, and then the caller searches in another way.
    pub(crate) fn bisect(&mut self) -> Result<Cursor, Error> {
        let mut array = match self.header.n_entries {
            0 => return Ok(Cursor::default()),
            _ => self.array(self.header.entry_array_offset, 0)?,
        };
        let mut before = 0;
        loop {
            let last = self.entry(&array, array.count.saturating_sub(1))?;
            let is_last = array.passed + array.count >= self.header.n_entries;
            if array.count > 0 && self.key_at(&array, array.count - 1)? >= self.target {
                let index = self.bisect_array(&array)?;
                if index > 0 {
                    before = self.entry(&array, index - 1)?;
                }
                return Ok(array.cursor(index, before));
            } else if is_last {
                return Ok(array.cursor(array.count, last));
            }
            before = last;
            let next = next_array(self.blocks, array.offset)?;
            array = self.array(next, array.passed + array.count)?;
        }
    }

    /// Returns the position behind the entry, and the offset of the entry if there is one, after
    /// reading the entries in order. Damaged entries are passed over.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read.
    pub(crate) fn scan(&mut self) -> Result<(Cursor, Option<u64>), Error> {
        let mut cursor = Cursor::default();
        loop {
            let key = match cursor.pull(self.blocks, self.header) {
                Ok(Some(entry)) => self.key_of(entry).map(|key| (entry, key)),
                Ok(None) => return Ok((cursor, None)),
                Err(error) => Err(error),
            };
            match key {
                Ok((entry, key)) if key >= self.target => return Ok((cursor, Some(entry))),
                Ok((entry, _)) => cursor.last = entry,
                Err(Error::Damaged { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn array(&mut self, offset: u64, passed: u64) -> Result<Array, Error> {
        let capacity = capacity(self.blocks, self.header, offset)?;
        let count = capacity.min(self.header.n_entries - passed);
        Ok(Array { offset, capacity, count, passed })
    }

    /// Returns the index of the first entry of an array whose key is at least the target. The last
    /// entry has such a key.
    fn bisect_array(&mut self, array: &Array) -> Result<u64, Error> {
        let (mut low, mut high) = (0, array.count - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.key_at(array, middle)? < self.target {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Returns the offset of an entry.
    fn entry(&mut self, array: &Array, index: u64) -> Result<u64, Error> {
        let is_compact = self.header.is_compact();
        let width = Layout::new(is_compact).array_item;
        let at = array.offset + ARRAY_BYTES + index * width as u64;
        let bytes = self.blocks.bytes(at, width)?;
        Ok(numbers::item(bytes, 0, is_compact))
    }

    /// Returns the key of an entry, after a check that its number fits its position.
    fn key_at(&mut self, array: &Array, index: u64) -> Result<u64, Error> {
        let entry = self.entry(array, index)?;
        let seqnum = object::object(self.blocks, entry, (ENTRY, "an entry"), ENTRY_BYTES)?;
        let seqnum = numbers::number(seqnum.0, 16);
        let position = array.passed + index;
        let (head, n_entries) = (self.header.head_entry_seqnum, self.header.n_entries);
        // The writer may have counted the next entry already.
        let tail = self.header.tail_entry_seqnum.saturating_add(1);
        let lowest = head.saturating_add(position);
        let highest = tail.saturating_sub(n_entries - 1 - position);
        if seqnum < lowest || seqnum > highest {
            return Err(Error::damaged(entry + 16, "a sequence number that fits the position"));
        }
        self.key_of(entry)
    }

    fn key_of(&mut self, entry: u64) -> Result<u64, Error> {
        let (bytes, _) = object::object(self.blocks, entry, (ENTRY, "an entry"), ENTRY_BYTES)?;
        Ok(numbers::number(bytes, if self.key == Key::Seqnum { 16 } else { 24 }))
    }
}

impl Array {
    /// Returns the position before the item at `index`, behind the entry at the offset `last`.
    fn cursor(&self, index: u64, last: u64) -> Cursor {
        let place = Place::Array { offset: self.offset, capacity: self.capacity, index };
        Cursor { place, passed: self.passed + index, last, ..Cursor::default() }
    }
}
