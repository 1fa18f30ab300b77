//! Finds a segment's entries, including entries after damage.

use crate::format::{
    ENTRY_FIXED, ENTRY_MAGIC, EntryHeader, FOOTER, FOOTER_MAGIC, Opening, Position,
    SEGMENT_HEADER_MAX, Salt, SegmentHeader, Totals, entry_header, entry_start, footer, opening,
};
use crate::{Damage, SegmentFile};
use memchr::memmem;
use std::io;

/// Number of bytes to read at once. A larger entry is read into a separate buffer.
const CHUNK_BYTES: usize = 32 << 10;

/// Number of bytes to search at once for the magic of the next entry.
const SEARCH_BYTES: usize = 256 << 10;

/// The bytes of a segment from its start to an end, which may be before the end of the file.
pub trait Bytes {
    /// Returns the end of the bytes.
    fn end(&self) -> u64;

    /// Moves the end of the bytes.
    fn set_end(&mut self, end: u64);

    /// Returns at least `want` bytes starting at position `at`, or fewer if the end comes first.
    fn peek(&mut self, at: u64, want: usize) -> io::Result<&[u8]>;

    /// Returns a copy of `len` bytes starting at position `at`, or fewer if the end comes first.
    fn copy(&mut self, at: u64, len: usize) -> io::Result<Vec<u8>>;
}

/// The bytes of a file, read in chunks.
pub struct FileBytes {
    file: Box<dyn SegmentFile>,
    end: u64,
    chunk: Vec<u8>,
    chunk_at: u64,
}

impl FileBytes {
    /// Creates a reader of `file` up to `end`.
    pub fn new(file: Box<dyn SegmentFile>, end: u64) -> FileBytes {
        FileBytes { file, end, chunk: Vec::new(), chunk_at: 0 }
    }

    /// Returns the bytes of the chunk starting at this position.
    fn in_chunk(&self, at: u64) -> &[u8] {
        let skip = at.checked_sub(self.chunk_at).and_then(|skip| usize::try_from(skip).ok());
        skip.and_then(|skip| self.chunk.get(skip..)).unwrap_or_default()
    }

    /// Reads the chunk at this position.
    fn fill(&mut self, at: u64, len: usize) -> io::Result<()> {
        self.chunk.clear();
        self.chunk_at = at;
        let done = self.file.read_at(at, len, &mut self.chunk);
        if done.is_err() {
            self.chunk.clear();
        }
        done
    }
}

impl Bytes for FileBytes {
    fn end(&self) -> u64 {
        self.end
    }

    fn set_end(&mut self, end: u64) {
        self.end = end;
    }

    fn peek(&mut self, at: u64, want: usize) -> io::Result<&[u8]> {
        let rest = usize::try_from(self.end.saturating_sub(at)).unwrap_or(usize::MAX);
        if self.in_chunk(at).len() < want.min(rest) {
            self.fill(at, want.max(CHUNK_BYTES).min(rest))?;
        }
        let chunk = self.in_chunk(at);
        Ok(&chunk[..chunk.len().min(rest)])
    }

    fn copy(&mut self, at: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(len);
        let chunk = self.in_chunk(at);
        bytes.extend_from_slice(&chunk[..chunk.len().min(len)]);
        let copied = bytes.len();
        if copied < len {
            self.file.read_at(at + copied as u64, len - copied, &mut bytes)?;
        }
        Ok(bytes)
    }
}

/// A segment in memory.
impl Bytes for &[u8] {
    fn end(&self) -> u64 {
        self.len() as u64
    }

    fn set_end(&mut self, end: u64) {
        *self = &self[..self.len().min(end as usize)];
    }

    fn peek(&mut self, at: u64, _want: usize) -> io::Result<&[u8]> {
        Ok(from(self, at))
    }

    fn copy(&mut self, at: u64, len: usize) -> io::Result<Vec<u8>> {
        let bytes = from(self, at);
        Ok(bytes[..bytes.len().min(len)].to_vec())
    }
}

fn from(bytes: &[u8], at: u64) -> &[u8] {
    usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default()
}

/// The facts about a segment that can be read from the start and the end of its file.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The segment's header; `None` if it is damaged.
    pub header: Option<SegmentHeader>,
    /// Totals in the footer; `None` if the footer is damaged or not written yet.
    pub footer: Option<Totals>,
    /// The segment's salt; `None` if both the header and the footer are damaged or missing.
    pub salt: Option<Salt>,
    /// Size of the file in bytes.
    pub file_bytes: u64,
}

/// The version of a segment with an unsupported format version.
#[derive(Clone, Copy, Debug)]
pub struct OtherVersion(pub u32);

impl Frame {
    /// Reads the header and the footer of a complete file.
    pub fn read(bytes: &mut impl Bytes) -> io::Result<Result<Frame, OtherVersion>> {
        let file_bytes = bytes.end();
        let header = match opening(bytes.peek(0, SEGMENT_HEADER_MAX)?) {
            Opening::Header(header) => Some(header),
            Opening::Other(version) => return Ok(Err(OtherVersion(version))),
            Opening::Damaged => None,
        };
        let known = header.as_ref().map(|header| header.salt);
        let footer = match file_bytes.checked_sub(FOOTER as u64) {
            Some(at) => footer(bytes.peek(at, FOOTER)?, at),
            None => None,
        };
        let footer = footer.filter(|(salt, _)| known.is_none_or(|known| known == *salt));
        let salt = known.or(footer.map(|(salt, _)| salt));
        let footer = footer.map(|(_, totals)| totals);
        Ok(Ok(Frame { header, footer, salt, file_bytes }))
    }

    /// Returns the position of the first entry. A damaged header is treated as damage before that
    /// entry.
    pub fn start(&self) -> Position {
        let at = self.header.as_ref().map_or(0, |header| header.bytes);
        Position { at, ..Position::default() }
    }

    /// Returns the position where the entries end.
    pub fn end(&self) -> u64 {
        let footer = if self.footer.is_some() { FOOTER as u64 } else { 0 };
        self.file_bytes - footer
    }
}

/// A range of bytes that contains no valid entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    pub at: u64,
    pub bytes: u64,
    /// Number of lost entries and events, if known.
    pub lost: Option<(u64, u64)>,
}

impl Skipped {
    /// Describes the bytes as damage in the segment with this name.
    pub fn damage(self, segment: String) -> Damage {
        Damage {
            segment,
            at: self.at,
            bytes: self.bytes,
            entries: self.lost.map(|(entries, _)| entries),
            events: self.lost.map(|(_, events)| events),
        }
    }
}

/// An entry with a valid header.
pub struct FoundEntry {
    pub header: EntryHeader,
    /// All bytes of the entry, with a correct checksum; `None` if the caller did not request them.
    pub bytes: Option<Vec<u8>>,
}

/// The result of a search for the next entry.
pub struct Step {
    /// Bytes that were skipped before the entry.
    pub skipped: Option<Skipped>,
    /// The entry; `None` at the end of the segment.
    pub found: Option<FoundEntry>,
}

/// Reads the entries of a segment in order.
#[derive(Clone, Copy, Debug)]
pub struct Scanner {
    /// Expected position of the next entry.
    pub position: Position,
    /// The segment's salt; `None` until the first entry provides it.
    pub salt: Option<Salt>,
    /// Number of entries and events in the segment, if its footer is readable.
    pub totals: Option<(u64, u64)>,
}

impl Scanner {
    /// Creates a scanner at the first entry of a segment.
    pub fn new(frame: &Frame) -> Scanner {
        let totals = frame.footer.map(|totals| (totals.entries, totals.events));
        Scanner { position: frame.start(), salt: frame.salt, totals }
    }

    /// Returns the next entry, and moves past it. `wants` selects the entries whose bodies are read
    /// and checked. An error does not move the position.
    pub fn step(
        &mut self,
        bytes: &mut impl Bytes,
        wants: impl Fn(&EntryHeader) -> bool,
    ) -> io::Result<Step> {
        let mut at = self.position.at;
        while let Some(header) = self.next_header(bytes, at)? {
            at = header.end().at;
            let wanted = wants(&header);
            // The length is at most the length of the file, so the cast is lossless.
            let copy =
                |bytes: &mut _| Bytes::copy(bytes, header.position.at, header.length as usize);
            let entry = if wanted { Some(copy(bytes)?) } else { None };
            if entry.as_ref().is_none_or(|entry| header.is_intact(entry)) {
                let reached = (header.position.ordinal, header.position.events);
                let skipped = self.skipped(header.position.at, Some(reached));
                self.position = header.end();
                self.salt = Some(header.salt);
                return Ok(Step { skipped, found: Some(FoundEntry { header, bytes: entry }) });
            }
        }
        let Position { at, ordinal, events } = self.position;
        let is_footer = is_damaged_footer(bytes.peek(at, FOOTER + 1)?);
        let reached = self.totals.or(is_footer.then_some((ordinal, events)));
        let skipped = self.skipped(bytes.end(), reached);
        let (all_entries, all_events) = self.totals.unwrap_or((ordinal, events));
        self.position = Position {
            at: at.max(bytes.end()),
            ordinal: ordinal.max(all_entries),
            events: events.max(all_events),
        };
        Ok(Step { skipped, found: None })
    }

    /// Describes the bytes from the current position to `until` as skipped; returns `None` if there
    /// are none. `reached` is the number of entries and events before `until`, if known.
    fn skipped(&self, until: u64, reached: Option<(u64, u64)>) -> Option<Skipped> {
        let Position { at, ordinal, events } = self.position;
        let bytes = until.checked_sub(at).filter(|bytes| *bytes > 0)?;
        let lost = reached
            .map(|(all, of_all)| (all.saturating_sub(ordinal), of_all.saturating_sub(events)));
        Some(Skipped { at, bytes, lost })
    }

    /// Returns the first valid header at or after this position.
    fn next_header(&self, bytes: &mut impl Bytes, at: u64) -> io::Result<Option<EntryHeader>> {
        match self.header_at(bytes, at)? {
            Some(header) => Ok(Some(header)),
            None => self.search(bytes, at + 1),
        }
    }

    /// Reads the header at this position; `None` if it is not a valid header.
    pub fn header_at(&self, bytes: &mut impl Bytes, at: u64) -> io::Result<Option<EntryHeader>> {
        let Some((salt, len)) = entry_start(bytes.peek(at, ENTRY_FIXED)?) else { return Ok(None) };
        let end = bytes.end();
        // Check the salt first. Otherwise, a payload that contains many magics would cause a long
        // header to be read for each of them.
        let is_ours = self.salt.is_none_or(|own| own == salt);
        if !is_ours || end.saturating_sub(at) < len as u64 {
            return Ok(None);
        }
        let header = bytes.peek(at, len)?.get(..len).and_then(|header| entry_header(header, at));
        Ok(header.filter(|header| header.length <= end - at))
    }

    /// Searches for a valid header, starting at this position.
    fn search(&self, bytes: &mut impl Bytes, mut at: u64) -> io::Result<Option<EntryHeader>> {
        while at < bytes.end() {
            let window = bytes.peek(at, SEARCH_BYTES)?;
            let searched = window.len();
            match memmem::find(window, ENTRY_MAGIC) {
                Some(found) => {
                    at += found as u64;
                    if let Some(header) = self.header_at(bytes, at)? {
                        return Ok(Some(header));
                    }
                    at += 1;
                }
                // The magic may begin in this window and end after it, so keep the last bytes.
                None if searched >= ENTRY_MAGIC.len() => {
                    at += (searched - ENTRY_MAGIC.len() + 1) as u64;
                }
                None => break,
            }
        }
        Ok(None)
    }
}

/// Returns whether the last bytes of a file are a damaged footer, in which case no entries are lost
/// there. The start of a truncated entry does not count as a damaged footer.
fn is_damaged_footer(tail: &[u8]) -> bool {
    let has_length = tail.len() == FOOTER && !tail.starts_with(ENTRY_MAGIC);
    tail.len() <= FOOTER && (has_length || tail.starts_with(FOOTER_MAGIC))
}
