//! The reader.

mod fields;

use crate::blocks::Blocks;
use crate::cursor::Cursor;
use crate::data::{Pairs, Slot};
use crate::header::{HEADER_BYTES, id};
use crate::numbers;
use crate::object::{self, ENTRY, ENTRY_BYTES, Layout};
use crate::seek::{Key, Search};
use crate::{Entry, Error, FieldId, Header, Id, ReadAt, ReaderLimits, State};
pub use fields::Fields;
use std::ops::RangeInclusive;

/// Times beyond are not valid, in microseconds.
const TIME_MAX: u64 = 1 << 55;

/// Number of attempts to read a header that the writer does not change meanwhile.
const HEADER_READS_MAX: usize = 4;

/// A reader of a journal file.
pub struct JournalFile<R> {
    blocks: Blocks<R>,
    header: Header,
    limits: ReaderLimits,
    cursor: Cursor,
    /// The next entry, if it is known already.
    next: Option<Result<u64, Error>>,
    /// Number of the last entry, or 0.
    last_seqnum: u64,
    /// Number of the entry before the last one, or 0.
    earlier_seqnum: u64,
    current: Current,
    pairs: Pairs,
}

/// The last returned entry.
#[derive(Default)]
struct Current {
    offset: u64,
    xor_hash: u64,
    ids: Vec<FieldId>,
    /// Hashes of the fields; empty in compact files.
    hashes: Vec<u64>,
    /// Whether the entry has more fields than the limit.
    has_more: bool,
    slots: Vec<Slot>,
}

impl Current {
    /// Forgets the entry.
    fn clear(&mut self) {
        self.ids.clear();
        self.hashes.clear();
        self.xor_hash = 0;
        self.has_more = false;
    }
}

impl<R: ReadAt> JournalFile<R> {
    /// Opens a file, before its first entry.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, is not a journal, or uses an unknown feature.
    pub fn open(reader: R, limits: ReaderLimits) -> Result<JournalFile<R>, Error> {
        let blocks = Blocks::new(reader, limits.block_bytes);
        let header = read_header(&blocks)?;
        Ok(JournalFile {
            pairs: Pairs::new(&header, limits),
            blocks,
            header,
            limits,
            cursor: Cursor::default(),
            next: None,
            last_seqnum: 0,
            earlier_seqnum: 0,
            current: Current::default(),
        })
    }

    /// Returns the header, as of the last call of `open` or [`refresh`](Self::refresh).
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the reader.
    pub fn reader(&self) -> &R {
        self.blocks.reader()
    }

    /// Reads the header again, and returns true if it has changed. Then there may be more entries.
    /// [`next_entry`](Self::next_entry) returns only entries that were complete at this time.
    ///
    /// # Errors
    ///
    /// Fails if the header cannot be read, is damaged, or belongs to another file. The reader
    /// continues with the last header.
    pub fn refresh(&mut self) -> Result<bool, Error> {
        let header = read_header(&self.blocks)?;
        if header == self.header {
            return Ok(false);
        }
        if header.file_id != self.header.file_id
            || header.is_compact() != self.header.is_compact()
            || header.is_keyed() != self.header.is_keyed()
        {
            return Err(Error::damaged(24, "the id and the format that the file had before"));
        }
        self.header = header;
        self.blocks.clear();
        Ok(true)
    }

    /// Moves before the first entry with this number or a higher one. If there is none, the next
    /// entry is the first one that is appended.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read. Damaged entries are passed over.
    pub fn seek_seqnum(&mut self, seqnum: u64) -> Result<(), Error> {
        self.seek(Key::Seqnum, seqnum)
    }

    /// Moves before the first entry with this time or a later one, in microseconds since 1970.
    /// Binary search finds the entry, so it may be another one if the clock was set back.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read. Damaged entries are passed over.
    pub fn seek_realtime(&mut self, realtime: u64) -> Result<(), Error> {
        self.seek(Key::Realtime, realtime)
    }

    fn seek(&mut self, key: Key, target: u64) -> Result<(), Error> {
        let (blocks, header) = (&mut self.blocks, &self.header);
        let mut search = Search { blocks, header, key, target };
        let (cursor, next) = match search.bisect() {
            Ok(cursor) => (cursor, None),
            Err(Error::Damaged { .. }) => search.scan()?,
            Err(error) => return Err(error),
        };
        self.cursor = cursor;
        self.next = next.map(Ok);
        self.last_seqnum = 0;
        self.earlier_seqnum = 0;
        Ok(())
    }

    /// Returns the next entry, or `None` at the end. After `None`, call
    /// [`refresh`](Self::refresh) and then this function again to read appended entries.
    ///
    /// # Errors
    ///
    /// An error for damage takes the place of the damaged entry. The next call continues behind it.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, Error> {
        let next = match self.next.take() {
            Some(next) => next.map(Some),
            None => self.cursor.pull(&mut self.blocks, &self.header),
        };
        let Some(offset) = next? else { return Ok(None) };
        let entry = match self.read_entry(offset) {
            Err(error @ Error::Io { .. }) => {
                self.next = Some(Ok(offset));
                return Err(error);
            }
            entry => entry?,
        };
        if let Err(error) = self.check_order(&entry) {
            self.current.clear();
            return Err(error);
        }
        self.earlier_seqnum = self.last_seqnum;
        self.last_seqnum = entry.seqnum;
        self.cursor.last = entry.offset;
        Ok(Some(entry))
    }

    /// Returns the next entry that `keep` accepts, or `None` at the end. `keep` decides by the ids
    /// of the fields, so that the fields of other entries are not decoded.
    ///
    /// # Errors
    ///
    /// Like [`next_entry`](Self::next_entry).
    pub fn next_entry_if(
        &mut self,
        mut keep: impl FnMut(&Entry, &[FieldId]) -> bool,
    ) -> Result<Option<Entry>, Error> {
        while let Some(entry) = self.next_entry()? {
            if keep(&entry, self.field_ids()) {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// Returns the ids of the fields of the last returned entry, in the order of the file.
    pub fn field_ids(&self) -> &[FieldId] {
        &self.current.ids
    }

    /// Reads an entry, and makes it the current one.
    fn read_entry(&mut self, offset: u64) -> Result<Entry, Error> {
        let is_compact = self.header.is_compact();
        let width = Layout::new(is_compact).entry_item;
        let current = &mut self.current;
        current.clear();
        let kind = (ENTRY, "an entry");
        let (bytes, size) = object::object(&mut self.blocks, offset, kind, ENTRY_BYTES)?;
        let entry = parse_entry(bytes, offset)?;
        let items = (size - ENTRY_BYTES as u64) / width as u64;
        if items == 0 || !(size - ENTRY_BYTES as u64).is_multiple_of(width as u64) {
            return Err(Error::damaged(offset + 8, "the size of an entry"));
        }
        let count = items.min(self.limits.entry_fields_max as u64) as usize;
        let bytes = self.blocks.bytes(offset + ENTRY_BYTES as u64, count * width)?;
        let items_at = bytes.chunks_exact(width);
        current.ids.extend(items_at.clone().map(|at| FieldId(numbers::item(at, 0, is_compact))));
        if !is_compact {
            current.hashes.extend(items_at.map(|at| numbers::number(at, 8)));
        }
        current.has_more = items > count as u64;
        current.offset = offset;
        current.xor_hash = entry.xor_hash;
        Ok(entry)
    }

    /// Checks that an entry is behind the last one, and that its number is between the numbers of
    /// its neighbors. An entry has no other check of its number, and a caller that stores a wrong
    /// number would miss entries later.
    fn check_order(&mut self, entry: &Entry) -> Result<(), Error> {
        if entry.offset <= self.cursor.last {
            return Err(Error::damaged(entry.offset, "an entry behind the last one"));
        }
        let possible = self.possible_seqnums();
        // A wrong number of the next entry says nothing about this one.
        let next = self.peek_seqnum().filter(|next| possible.contains(&next.wrapping_sub(1)));
        let (last, seqnum) = (self.last_seqnum, entry.seqnum);
        let is_ordered = last < seqnum
            && possible.contains(&seqnum)
            && next.is_none_or(|next| seqnum < next || next <= last);
        if is_ordered {
            return Ok(());
        }
        // Two entries in a row between the last two: the last one was wrong. Entries before both
        // are repeated.
        if self.earlier_seqnum < seqnum && next.is_some_and(|next| seqnum < next && next <= last) {
            self.last_seqnum = seqnum;
        }
        Err(Error::damaged(entry.offset + 16, "a number between those of the entries around it"))
    }

    /// Returns the numbers that leave one for each other entry of the file.
    fn possible_seqnums(&self) -> RangeInclusive<u64> {
        let Header { head_entry_seqnum: head, tail_entry_seqnum: tail, n_entries, .. } =
            self.header;
        if tail < head.saturating_add(n_entries.saturating_sub(1)) {
            // The header is damaged.
            return 0..=u64::MAX;
        }
        let earlier = if self.cursor.is_exact() { self.cursor.passed - 1 } else { 0 };
        let later = n_entries.saturating_sub(self.cursor.passed);
        // A writer counts an entry before it adds the entry.
        let ahead = u64::from(self.header.state == State::Online);
        head.saturating_add(earlier)..=tail.saturating_add(ahead).saturating_sub(later)
    }

    /// Returns the number of the next entry, if it is readable.
    fn peek_seqnum(&mut self) -> Option<u64> {
        let next = match self.cursor.pull(&mut self.blocks, &self.header) {
            Err(Error::Io { .. }) => None,
            next => next.transpose(),
        };
        self.next = next;
        let Some(Ok(next)) = self.next else { return None };
        let kind = (ENTRY, "an entry");
        let entry = object::object(&mut self.blocks, next, kind, ENTRY_BYTES).ok()?;
        Some(numbers::number(entry.0, 16))
    }
}

/// Reads the header. The writer may change it meanwhile, so two reads must be equal.
fn read_header<R: ReadAt>(blocks: &Blocks<R>) -> Result<Header, Error> {
    let mut bytes = [0; HEADER_BYTES];
    let mut len = blocks.read_new(&mut bytes, 0)?;
    for _ in 0..HEADER_READS_MAX {
        let before = bytes;
        len = blocks.read_new(&mut bytes, 0)?;
        if bytes == before {
            break;
        }
    }
    Header::parse(&bytes[..len])
}

/// Parses and checks the first bytes of an entry.
fn parse_entry(bytes: &[u8], offset: u64) -> Result<Entry, Error> {
    let entry = Entry {
        seqnum: numbers::number(bytes, 16),
        realtime: numbers::number(bytes, 24),
        monotonic: numbers::number(bytes, 32),
        boot_id: id(bytes, 40),
        xor_hash: numbers::number(bytes, 56),
        offset,
    };
    let is_valid = entry.seqnum > 0
        && entry.realtime > 0
        && entry.realtime < TIME_MAX
        && entry.monotonic < TIME_MAX
        && entry.boot_id != Id::default();
    if is_valid {
        Ok(entry)
    } else {
        Err(Error::damaged(offset + 16, "a number, times and a boot"))
    }
}
