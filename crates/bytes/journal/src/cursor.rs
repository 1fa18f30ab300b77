//! The position between two entries.

use crate::blocks::Blocks;
use crate::numbers;
use crate::object::{self, ARRAY_BYTES, ENTRY, ENTRY_ARRAY, Layout, OBJECT_BYTES};
use crate::{Error, Header, ReadAt, State};

/// Items that are read at once.
const ITEMS_MAX: u64 = 512;

/// What an array of entries is called in errors.
const ARRAY: (u8, &str) = (ENTRY_ARRAY, "an array of entries");

/// A position between two entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cursor {
    pub(crate) place: Place,
    /// Number of entries before the position, including damaged ones, without `ahead`.
    pub(crate) passed: u64,
    /// Offset of the last readable entry before the position, or 0.
    pub(crate) last: u64,
    /// The next items, in reverse order.
    pub(crate) ahead: Vec<Item>,
}

/// An item of an array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    /// Offset of the item.
    at: u64,
    /// Offset of the entry.
    entry: u64,
    /// Number of entries before the position behind the item.
    passed: u64,
}

/// Where the next item is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Place {
    /// In the first array.
    #[default]
    Start,
    /// In this array, or in the next one if `index` is `capacity`.
    Array { offset: u64, capacity: u64, index: u64 },
    /// In no array: the chain of arrays is broken, so the objects are read one after the other.
    Objects { next: u64 },
    /// Nowhere, because the objects are damaged too.
    Lost,
}

/// Reads the header of an array, and returns the number of its items.
pub(crate) fn capacity<R: ReadAt>(
    blocks: &mut Blocks<R>,
    header: &Header,
    offset: u64,
) -> Result<u64, Error> {
    let width = Layout::new(header.is_compact()).array_item as u64;
    let (_, size) = object::object(blocks, offset, ARRAY, (ARRAY_BYTES + width) as usize)?;
    Ok((size - ARRAY_BYTES) / width)
}

/// Returns the offset of the array after an array. Offsets increase, so that damage makes no loop.
pub(crate) fn next_array<R: ReadAt>(blocks: &mut Blocks<R>, offset: u64) -> Result<u64, Error> {
    let next = blocks.number(offset + 16)?;
    if next > offset { Ok(next) } else { Err(Error::damaged(offset + 16, "the next array")) }
}

/// Returns the type of the object at `offset`, and the offset of the next object.
fn any_object<R: ReadAt>(blocks: &mut Blocks<R>, offset: u64) -> Result<(u8, u64), Error> {
    let bytes = blocks.bytes(offset, OBJECT_BYTES)?;
    let (kind, size) = (bytes[0], numbers::number(bytes, 8));
    let end = offset.checked_add(size).and_then(|end| end.checked_next_multiple_of(8));
    let end = end.filter(|_| kind != 0 && size >= OBJECT_BYTES as u64);
    end.map(|end| (kind, end)).ok_or(Error::damaged(offset, "an object"))
}

impl Cursor {
    /// Returns true if `passed` is exact. A broken chain of arrays may count entries twice.
    pub(crate) fn is_exact(&self) -> bool {
        self.passed > 0 && matches!(self.place, Place::Array { .. })
    }

    /// Returns the offset of the next entry, or `None` at the end.
    ///
    /// # Errors
    ///
    /// After an error for damage, the next call continues behind the damage.
    pub(crate) fn pull<R: ReadAt>(
        &mut self,
        blocks: &mut Blocks<R>,
        header: &Header,
    ) -> Result<Option<u64>, Error> {
        loop {
            if let Some(Item { at, entry, passed }) = self.ahead.pop() {
                self.passed = passed;
                if entry == 0 || !entry.is_multiple_of(8) {
                    return Err(Error::damaged(at, "the offset of an entry"));
                }
                return Ok(Some(entry));
            }
            let in_objects = matches!(self.place, Place::Objects { .. });
            // The last object of an online file may be an entry that is not complete.
            let is_counted = !in_objects || header.state == State::Online;
            if is_counted && self.passed >= header.n_entries {
                return Ok(None);
            }
            let read = match self.place {
                Place::Start => self.open(blocks, header, header.entry_array_offset),
                Place::Array { offset, capacity, index } if index < capacity => {
                    self.read_items(blocks, header, offset, index)
                }
                Place::Array { offset, .. } => match next_array(blocks, offset) {
                    Ok(next) => self.open(blocks, header, next),
                    Err(error) => Err(error),
                },
                Place::Objects { next } => return self.pull_object(blocks, header, next),
                Place::Lost => return Ok(None),
            };
            match read {
                Err(error @ Error::Damaged { .. }) => {
                    self.ahead.clear();
                    self.place = Place::Objects { next: self.last.max(header.header_size) };
                    return Err(error);
                }
                read => read?,
            }
        }
    }

    fn open<R: ReadAt>(
        &mut self,
        blocks: &mut Blocks<R>,
        header: &Header,
        offset: u64,
    ) -> Result<(), Error> {
        let capacity = capacity(blocks, header, offset)?;
        self.place = Place::Array { offset, capacity, index: 0 };
        Ok(())
    }

    /// Reads the next items of the array at `offset` into `ahead`.
    fn read_items<R: ReadAt>(
        &mut self,
        blocks: &mut Blocks<R>,
        header: &Header,
        offset: u64,
        first: u64,
    ) -> Result<(), Error> {
        let Place::Array { capacity, .. } = self.place else { return Ok(()) };
        let width = Layout::new(header.is_compact()).array_item as u64;
        let count = (capacity - first).min(header.n_entries - self.passed).min(ITEMS_MAX);
        let start = offset + ARRAY_BYTES + first * width;
        let bytes = blocks.bytes(start, (count * width) as usize)?;
        let passed = self.passed;
        let items = (0..count).map(|index| {
            let entry = numbers::item(bytes, (index * width) as usize, header.is_compact());
            Item { at: start + index * width, entry, passed: passed + index + 1 }
        });
        self.ahead.extend(items);
        // Many zeros are one damage.
        self.ahead.dedup_by(|next, item| {
            let is_same = next.entry == 0 && item.entry == 0;
            if is_same {
                item.passed = next.passed;
            }
            is_same
        });
        self.ahead.reverse();
        self.place = Place::Array { offset, capacity, index: first + count };
        Ok(())
    }

    /// Returns the offset of the next entry among all objects from `next` on.
    fn pull_object<R: ReadAt>(
        &mut self,
        blocks: &mut Blocks<R>,
        header: &Header,
        mut next: u64,
    ) -> Result<Option<u64>, Error> {
        while next <= header.tail_object_offset {
            let (kind, end) = match any_object(blocks, next) {
                Err(error @ Error::Damaged { .. }) => {
                    self.place = Place::Lost;
                    return Err(error);
                }
                object => object?,
            };
            let found = next;
            next = end;
            self.place = Place::Objects { next };
            if kind == ENTRY && found > self.last {
                self.passed += 1;
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}
