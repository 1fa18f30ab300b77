//! The binary format of a segment: its header, entries and footer. `docs/formats/spool.md`
//! describes the format.
//!
//! All numbers are little-endian. A checksum is the 64-bit XXH3 hash of all preceding bytes in the
//! structure, seeded with the structure's position in the file.

use crate::{Entry, EntryMeta, EntryNumber, NewEntry, SourceRange};
use bytes::Bytes;
use std::io;
use std::sync::Arc;
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

/// Version of the format.
pub const VERSION: u32 = 1;

/// First bytes of a segment, in every version.
const SEGMENT_MAGIC: &[u8; 8] = b"\x89MSPOOL\n";

/// First bytes of an entry; the second-to-last byte is the version.
pub const ENTRY_MAGIC: &[u8; 8] = b"\xD7MSENT\x01\n";

/// First bytes of a footer; the second-to-last byte is the version.
pub const FOOTER_MAGIC: &[u8; 8] = b"\xD7MSEND\x01\n";

/// Number of bytes in a segment's header before the payload format.
const SEGMENT_FIXED: usize = 26;

/// Maximum size of a segment's header in bytes.
pub const SEGMENT_HEADER_MAX: usize = SEGMENT_FIXED + TEXT_BYTES_MAX + CHECKSUM;

/// Maximum length, in bytes, of a payload format or a source id.
const TEXT_BYTES_MAX: usize = u16::MAX as usize;

/// Bytes in an entry's header before the fields of variable length.
pub const ENTRY_FIXED: usize = 88;

/// Number of bytes in a footer. A footer is smaller than any entry, so that a damaged footer is not
/// counted as a lost entry.
pub const FOOTER: usize = 80;

const CHECKSUM: usize = 8;

const COMPLETES: u16 = 1;

/// A random number that identifies a segment. The segment's header, entries and footer contain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Salt(pub u64);

/// The start of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    pub salt: Salt,
    pub format: Arc<str>,
    pub bytes: u64,
}

/// The result of reading a file's first bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Opening {
    Header(SegmentHeader),
    /// The header of a segment in another version of the format.
    Other(u32),
    Damaged,
}

/// The number of entries and events in a segment, and the entries' numbers and times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub entries: u64,
    pub events: u64,
    pub first: EntryNumber,
    pub last: EntryNumber,
    pub first_ms: i64,
    pub last_ms: i64,
}

impl Totals {
    /// Adds an entry to the totals.
    pub fn add(&mut self, meta: &EntryMeta) {
        if self.entries == 0 {
            self.first = meta.number;
            self.first_ms = meta.written_ms;
        }
        self.entries += 1;
        self.events = self.events.saturating_add(meta.events);
        self.last = meta.number;
        self.last_ms = meta.written_ms;
    }
}

/// The place of an entry in its segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Position of the entry's first byte in the file.
    pub at: u64,
    /// Number of entries before this entry.
    pub ordinal: u64,
    /// Number of events before this entry.
    pub events: u64,
}

/// The header of an entry that was read.
#[derive(Clone, Debug)]
pub struct EntryHeader {
    pub position: Position,
    /// Length of the entry in bytes.
    pub length: u64,
    pub salt: Salt,
    pub meta: EntryMeta,
    header_bytes: usize,
    parts: Vec<u32>,
    routing: u32,
    rows: u32,
}

impl EntryHeader {
    /// Returns the position after the entry.
    pub fn end(&self) -> Position {
        Position {
            at: self.position.at + self.length,
            ordinal: self.position.ordinal + 1,
            events: self.position.events.saturating_add(self.meta.events),
        }
    }

    /// Returns whether the entry's bytes are unchanged since they were written.
    pub fn is_intact(&self, entry: &[u8]) -> bool {
        let Some((content, checksum)) = entry.split_last_chunk::<CHECKSUM>() else { return false };
        let is_whole = entry.len() as u64 == self.length;
        is_whole && checksum_of(content, self.position.at) == u64::from_le_bytes(*checksum)
    }

    /// Returns the content of an intact entry.
    pub fn entry(self, bytes: &Bytes) -> Entry {
        let mut at = self.header_bytes;
        let mut section = |len: u32| {
            let range = at..at + len as usize;
            at = range.end;
            bytes.slice(range)
        };
        let parts = self.parts.iter().map(|len| section(*len)).collect();
        Entry { parts, routing: section(self.routing), rows: section(self.rows), meta: self.meta }
    }

    /// Returns the number of bytes in the payload.
    pub fn payload_bytes(&self) -> u64 {
        self.parts.iter().map(|len| u64::from(*len)).sum()
    }
}

fn checksum_of(bytes: &[u8], position: u64) -> u64 {
    xxh3_64_with_seed(bytes, position)
}

fn put_checksum(out: &mut Vec<u8>, from: usize, position: u64) {
    let checksum = checksum_of(&out[from..], position);
    out.extend_from_slice(&checksum.to_le_bytes());
}

/// Splits off the checksum at the end; returns `None` if it is wrong.
fn checked(bytes: &[u8], position: u64) -> Option<&[u8]> {
    let (content, checksum) = bytes.split_last_chunk::<CHECKSUM>()?;
    (checksum_of(content, position) == u64::from_le_bytes(*checksum)).then_some(content)
}

fn too_long(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{what} is too long for a disk buffer"))
}

fn len_u16(text: &str, what: &str) -> io::Result<u16> {
    u16::try_from(text.len()).map_err(|_| too_long(what))
}

fn len_u32(len: usize, what: &str) -> io::Result<u32> {
    u32::try_from(len).map_err(|_| too_long(what))
}

/// Appends the header of a segment.
pub fn put_segment_header(out: &mut Vec<u8>, salt: Salt, format: &str) -> io::Result<()> {
    let from = out.len();
    let len = len_u16(format, "the format of a payload")?;
    let bytes = (SEGMENT_FIXED + format.len() + CHECKSUM) as u32;
    out.extend_from_slice(SEGMENT_MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&bytes.to_le_bytes());
    out.extend_from_slice(&salt.0.to_le_bytes());
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(format.as_bytes());
    put_checksum(out, from, 0);
    Ok(())
}

/// Determines what a file contains from its first bytes.
pub fn opening(bytes: &[u8]) -> Opening {
    parse_opening(bytes).unwrap_or(Opening::Damaged)
}

fn parse_opening(bytes: &[u8]) -> Option<Opening> {
    let mut fields = Fields(bytes);
    fields.magic(SEGMENT_MAGIC)?;
    let version = fields.u32()?;
    let header_bytes = fields.u32()?;
    let content = checked(bytes.get(..header_bytes as usize)?, 0)?;
    if version != VERSION {
        return Some(Opening::Other(version));
    }
    let mut fields = Fields(content.get(16..)?);
    let salt = Salt(fields.u64()?);
    let format = fields.text()?;
    Some(Opening::Header(SegmentHeader { salt, format, bytes: header_bytes.into() }))
}

/// Appends a footer, which ends a segment at this position.
pub fn put_footer(out: &mut Vec<u8>, salt: Salt, position: u64, totals: &Totals) {
    let from = out.len();
    out.extend_from_slice(FOOTER_MAGIC);
    let fields = [
        salt.0,
        totals.entries,
        totals.events,
        totals.first.0,
        totals.last.0,
        totals.first_ms as u64,
        totals.last_ms as u64,
        position,
    ];
    fields.iter().for_each(|field| out.extend_from_slice(&field.to_le_bytes()));
    put_checksum(out, from, position);
}

/// Reads the footer at this position; returns `None` if the bytes are not a valid footer.
pub fn footer(bytes: &[u8], position: u64) -> Option<(Salt, Totals)> {
    let mut fields = Fields(checked(bytes.get(..FOOTER)?, position)?);
    fields.magic(FOOTER_MAGIC)?;
    let salt = Salt(fields.u64()?);
    let totals = Totals {
        entries: fields.u64()?,
        events: fields.u64()?,
        first: EntryNumber(fields.u64()?),
        last: EntryNumber(fields.u64()?),
        first_ms: fields.u64()? as i64,
        last_ms: fields.u64()? as i64,
    };
    (fields.u64()? == position).then_some((salt, totals))
}

/// Returns the number of bytes that an entry takes in a file.
pub fn entry_bytes(entry: &NewEntry<'_>) -> u64 {
    let body = entry.parts.iter().map(Bytes::len).sum::<usize>();
    let body = body + entry.routing.len() + entry.rows.len();
    (header_bytes(entry) + body + CHECKSUM) as u64
}

fn header_bytes(entry: &NewEntry<'_>) -> usize {
    let ranges: usize = entry.meta.ranges.iter().map(|range| 2 + range.source.len() + 24).sum();
    ENTRY_FIXED + entry.meta.format.len() + ranges + 4 * entry.parts.len() + CHECKSUM
}

/// Appends the header of an entry.
pub fn put_entry_header(
    out: &mut Vec<u8>,
    salt: Salt,
    position: Position,
    entry: &NewEntry<'_>,
) -> io::Result<()> {
    let from = out.len();
    let meta = entry.meta;
    let ordinal = len_u32(position.ordinal as usize, "a segment")?;
    out.extend_from_slice(ENTRY_MAGIC);
    out.extend_from_slice(&salt.0.to_le_bytes());
    out.extend_from_slice(&entry_bytes(entry).to_le_bytes());
    out.extend_from_slice(&len_u32(header_bytes(entry), "the header of an entry")?.to_le_bytes());
    out.extend_from_slice(&ordinal.to_le_bytes());
    out.extend_from_slice(&position.events.to_le_bytes());
    out.extend_from_slice(&meta.number.0.to_le_bytes());
    out.extend_from_slice(&meta.written_ms.to_le_bytes());
    out.extend_from_slice(&meta.events.to_le_bytes());
    out.extend_from_slice(&meta.lane.to_le_bytes());
    out.extend_from_slice(&meta.lanes.to_le_bytes());
    out.extend_from_slice(&if meta.completes { COMPLETES } else { 0 }.to_le_bytes());
    out.extend_from_slice(&len_u16(&meta.format, "the format of a payload")?.to_le_bytes());
    put_counts(out, entry)?;
    out.extend_from_slice(meta.format.as_bytes());
    meta.ranges.iter().try_for_each(|range| put_range(out, range))?;
    for part in entry.parts {
        out.extend_from_slice(&len_u32(part.len(), "a part of a payload")?.to_le_bytes());
    }
    put_checksum(out, from, position.at);
    Ok(())
}

fn put_counts(out: &mut Vec<u8>, entry: &NewEntry<'_>) -> io::Result<()> {
    let counts = [
        (entry.meta.ranges.len(), "the list of ranges"),
        (entry.parts.len(), "the list of parts"),
        (entry.routing.len(), "the routing of an entry"),
        (entry.rows.len(), "the rows of an entry"),
    ];
    for (count, what) in counts {
        out.extend_from_slice(&len_u32(count, what)?.to_le_bytes());
    }
    Ok(())
}

fn put_range(out: &mut Vec<u8>, range: &SourceRange) -> io::Result<()> {
    out.extend_from_slice(&len_u16(&range.source, "the id of a source")?.to_le_bytes());
    out.extend_from_slice(range.source.as_bytes());
    for number in [range.origin, range.start, range.end] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    Ok(())
}

/// Computes the checksum at the end of an entry, from its header and body.
pub struct EntryChecksum(Xxh3);

impl EntryChecksum {
    /// Creates a checksum that starts with the header of an entry at this position.
    pub fn new(position: u64, header: &[u8]) -> EntryChecksum {
        let mut hash = Xxh3::with_seed(position);
        hash.update(header);
        EntryChecksum(hash)
    }

    /// Adds a section of the body.
    pub fn update(&mut self, section: &[u8]) {
        self.0.update(section);
    }

    /// Returns the bytes of the checksum.
    pub fn finish(self) -> [u8; CHECKSUM] {
        self.0.digest().to_le_bytes()
    }
}

/// Returns the salt of an entry and the length of its header, given the entry's first
/// [`ENTRY_FIXED`] bytes; `None` if an entry cannot begin with these bytes. Only the checksum shows
/// whether the values are correct.
pub fn entry_start(fixed: &[u8]) -> Option<(Salt, usize)> {
    let mut fields = Fields(fixed.get(..ENTRY_FIXED)?);
    fields.magic(ENTRY_MAGIC)?;
    let salt = Salt(fields.u64()?);
    fields.u64()?;
    let bytes = fields.u32()? as usize;
    (bytes >= ENTRY_FIXED + CHECKSUM).then_some((salt, bytes))
}

/// Reads the header of an entry at this position; returns `None` if the header has been changed, or
/// was written at another position.
pub fn entry_header(bytes: &[u8], at: u64) -> Option<EntryHeader> {
    let mut fields = Fields(checked(bytes, at)?);
    fields.magic(ENTRY_MAGIC)?;
    let salt = Salt(fields.u64()?);
    let length = fields.u64()?;
    let header_bytes = fields.u32()? as usize;
    let position = Position { at, ordinal: fields.u32()?.into(), events: fields.u64()? };
    let (number, written_ms) = (EntryNumber(fields.u64()?), fields.u64()? as i64);
    let events = fields.u64()?;
    let (lane, lanes) = (fields.u16()?, fields.u16()?);
    let flags = fields.u16()?;
    let format_bytes = fields.u16()?;
    let [ranges, parts, routing, rows] =
        [fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?];
    let format = fields.utf8(format_bytes.into())?;
    let ranges = (0..ranges).map(|_| fields.range()).collect::<Option<Vec<_>>>()?;
    let parts = (0..parts).map(|_| fields.u32()).collect::<Option<Vec<_>>>()?;
    let completes = flags & COMPLETES != 0;
    let meta = EntryMeta { number, written_ms, events, lane, lanes, format, ranges, completes };
    let header = EntryHeader { position, length, salt, meta, header_bytes, parts, routing, rows };
    (fields.0.is_empty() && header_bytes == bytes.len() && header.has_sum()).then_some(header)
}

impl EntryHeader {
    /// Returns whether the lengths of all sections add up to the entry's length.
    fn has_sum(&self) -> bool {
        let body = self.payload_bytes() + u64::from(self.routing) + u64::from(self.rows);
        (self.header_bytes + CHECKSUM) as u64 + body == self.length
    }
}

/// Bytes from which fields are read one after the other.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn bytes(&mut self, len: usize) -> Option<&[u8]> {
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn magic(&mut self, expected: &[u8; 8]) -> Option<()> {
        (self.array::<8>()? == *expected).then_some(())
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn utf8(&mut self, len: usize) -> Option<Arc<str>> {
        std::str::from_utf8(self.bytes(len)?).ok().map(Arc::from)
    }

    fn text(&mut self) -> Option<Arc<str>> {
        let len = self.u16()?;
        self.utf8(len.into())
    }

    fn range(&mut self) -> Option<SourceRange> {
        let source = self.text()?;
        Some(SourceRange { source, origin: self.u64()?, start: self.u64()?, end: self.u64()? })
    }
}

/// Suffix of a segment's name.
const SEGMENT_SUFFIX: &str = ".spool";

/// Suffix of a damaged segment's name, if the segment was kept.
const DAMAGED_SUFFIX: &str = ".damaged";

/// Number of digits in a segment's name.
const NAME_DIGITS: usize = 20;

/// Returns the name of the segment whose first entry has this number.
pub fn segment_name(first: EntryNumber) -> String {
    format!("{:0NAME_DIGITS$}{SEGMENT_SUFFIX}", first.0)
}

/// Returns the name of the same segment after damage was found.
pub fn damaged_name(first: EntryNumber) -> String {
    format!("{:0NAME_DIGITS$}{DAMAGED_SUFFIX}", first.0)
}

/// Returns the first number in the segment with this name; `None` if this is not a segment's name.
pub fn segment_number(name: &str) -> Option<EntryNumber> {
    number_before(name, SEGMENT_SUFFIX)
}

/// Returns whether this is the name of a damaged segment that was kept.
pub fn is_damaged_name(name: &str) -> bool {
    number_before(name, DAMAGED_SUFFIX).is_some()
}

fn number_before(name: &str, suffix: &str) -> Option<EntryNumber> {
    let digits = name.strip_suffix(suffix)?;
    let is_number = digits.len() == NAME_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { digits.parse().ok().map(EntryNumber) } else { None }
}
