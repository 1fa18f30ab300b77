//! The second copy of the identities: the sources that ran, their known files with ids, and
//! checkpoints that may be out of date.
//!
//! The file `identities` is a snapshot of the database, followed by every identity that was saved
//! later. The file is read only if the database is damaged or missing. The rest of the file is
//! filled with zeros up to a fixed length, so that an append needs no disk space and changes only
//! one or two blocks.
//!
//! | bytes | record |
//! |---|---|
//! | 4 | mark `a7 49 64 0a` |
//! | 4 | length of the payload, little-endian |
//! | n | payload: kind, then the fields |
//! | 8 | XXH3 of the payload |
//!
//! A record that fails its hash is skipped, and reading continues at the next mark.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Read};

const MARK: [u8; 4] = [0xa7, b'I', b'd', b'\n'];
const PREFIX_BYTES: usize = MARK.len() + 4;
const HASH_BYTES: usize = 8;

/// Number of bytes to read at once.
const WINDOW_BYTES: u64 = 256 * 1024;

/// Maximum size of a payload in bytes. A descriptor contains a few paths of at most 4 KiB each, in
/// JSON.
const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;

/// Minimum free space of a new file in bytes, in addition to half the size of its content.
pub const FREE_BYTES_MIN: u64 = 64 * 1024;

const LENGTH: u8 = 0;
const SOURCE: u8 = 1;
const ORIGIN: u8 = 2;
const FORGOTTEN: u8 = 3;
const CHECKPOINT: u8 = 4;

/// An origin that the store knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The source's descriptor for the origin.
    pub descriptor: Vec<u8>,
    /// Offset up to which each sink has settled the origin, by sink id.
    pub checkpoints: BTreeMap<String, u64>,
}

/// The origins of every source that ever ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identities(pub BTreeMap<String, BTreeMap<u64, Identity>>);

/// The decoded content of a file.
#[derive(Debug, Default)]
pub struct Decoded {
    /// All identities that could be read.
    pub identities: Identities,
    /// Whether everything that was written could be read.
    pub is_whole: bool,
    /// Size of the file in bytes.
    pub length: usize,
}

/// One item in the identities.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// A source that ran.
    Source(&'a str),
    /// An origin, as source id, origin id and descriptor.
    Origin(&'a str, u64, &'a [u8]),
    /// A checkpoint, as source id, origin id, sink id and the offset up to which the sink has
    /// settled the origin.
    Checkpoint(&'a str, u64, &'a str, u64),
}

/// The ids of the origins in a file, by source.
#[derive(Default)]
pub struct Ids(HashMap<String, HashSet<u64>>);

impl Ids {
    /// Reads the ids in a file.
    pub fn read(file: &mut dyn Read) -> io::Result<(Ids, Extent)> {
        let mut ids = Ids::default();
        let extent = scan(file, &mut |record| {
            let origins = ids.0.entry(record.source.to_owned()).or_default();
            match record.change {
                Change::Origin(id, _) => _ = origins.insert(id),
                Change::Forgotten(id) => _ = origins.remove(&id),
                Change::Ran | Change::Checkpoint(..) => {}
            }
        })?;
        Ok((ids, extent))
    }

    /// Returns whether the file contains this source or origin; `true` for a checkpoint.
    pub fn has(&self, part: Part<'_>) -> bool {
        match part {
            Part::Source(source) => self.0.contains_key(source),
            Part::Origin(source, origin, _) => {
                self.0.get(source).is_some_and(|origins| origins.contains(&origin))
            }
            Part::Checkpoint(..) => true,
        }
    }
}

/// Where a file and its records end, and whether the records are complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Whether everything that was written could be read.
    pub is_whole: bool,
    /// Offset of the end of the last record.
    pub end: u64,
    /// Size of the file in bytes.
    pub length: u64,
}

/// Records to append.
#[derive(Default)]
pub struct Records(pub Vec<u8>);

impl Records {
    fn push(&mut self, kind: u8, source: &str, fields: &[&[u8]]) {
        let source_bytes = (source.len() as u32).to_le_bytes();
        let mut payload = [&[kind][..], &source_bytes, source.as_bytes()].concat();
        fields.iter().for_each(|field| payload.extend_from_slice(field));
        self.0.extend_from_slice(&MARK);
        self.0.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        self.0.extend_from_slice(&payload);
        self.0.extend_from_slice(&hash(&payload).to_le_bytes());
    }

    /// Appends a source that ran.
    pub fn source(&mut self, source: &str) {
        self.push(SOURCE, source, &[]);
    }

    /// Appends an origin, or a newer descriptor of an origin.
    pub fn origin(&mut self, source: &str, origin: u64, descriptor: &[u8]) {
        self.push(ORIGIN, source, &[&origin.to_le_bytes(), descriptor]);
    }

    /// Appends the removal of a forgotten origin.
    pub fn forgotten(&mut self, source: &str, origin: u64) {
        self.push(FORGOTTEN, source, &[&origin.to_le_bytes()]);
    }

    /// Appends the record for a part.
    pub fn part(&mut self, part: Part<'_>) {
        match part {
            Part::Source(source) => self.source(source),
            Part::Origin(source, origin, descriptor) => self.origin(source, origin, descriptor),
            Part::Checkpoint(source, origin, sink, offset) => {
                self.checkpoint(source, origin, sink, offset);
            }
        }
    }

    fn checkpoint(&mut self, source: &str, origin: u64, sink: &str, offset: u64) {
        self.push(
            CHECKPOINT,
            source,
            &[&origin.to_le_bytes(), &offset.to_le_bytes(), sink.as_bytes()],
        );
    }

    /// Appends a record of the file's length.
    pub fn length(&mut self, bytes: u64) {
        self.push(LENGTH, "", &[&bytes.to_le_bytes()]);
    }
}

impl Identities {
    /// Returns the number of origins.
    pub fn count(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    fn apply(&mut self, record: Record<'_>) {
        let origins = self.0.entry(record.source.to_owned()).or_default();
        match record.change {
            Change::Ran => {}
            Change::Origin(id, descriptor) => {
                origins.entry(id).or_default().descriptor = descriptor.to_vec()
            }
            Change::Forgotten(id) => _ = origins.remove(&id),
            Change::Checkpoint(id, sink, offset) => {
                if let Some(identity) = origins.get_mut(&id) {
                    identity.checkpoints.insert(sink.to_owned(), offset);
                }
            }
        }
    }
}

struct Record<'a> {
    source: &'a str,
    change: Change<'a>,
}

enum Change<'a> {
    Ran,
    Origin(u64, &'a [u8]),
    Forgotten(u64),
    Checkpoint(u64, &'a str, u64),
}

/// Decodes all valid records of a file.
pub fn decode(bytes: &[u8]) -> Decoded {
    let mut identities = Identities::default();
    let mut rest = bytes;
    // Reading from memory never fails.
    let extent = scan(&mut rest, &mut |record| identities.apply(record)).unwrap_or_default();
    Decoded { identities, is_whole: extent.is_whole, length: extent.length as usize }
}

/// Calls `visit` with each valid record of a file. Only a small part of the file is in memory at
/// once.
fn scan(file: &mut dyn Read, visit: &mut dyn FnMut(Record<'_>)) -> io::Result<Extent> {
    let mut window = Window { file, bytes: Vec::new(), at: 0, offset: 0, has_ended: false };
    let (mut end, mut length, mut is_damaged) = (0, None, false);
    loop {
        let begin = window.offset;
        if !window.skip_zeros()? {
            break;
        }
        // Zeros are free space only at the end of the file.
        is_damaged |= window.offset > begin;
        window.fill_record()?;
        let Some(payload) = payload(window.rest()) else {
            is_damaged = true;
            window.skip(1);
            continue;
        };
        match (length_of(payload), record(payload)) {
            (Some(bytes), _) => length = Some(bytes),
            (None, Some(record)) => visit(record),
            (None, None) => is_damaged = true,
        }
        let bytes = PREFIX_BYTES + payload.len() + HASH_BYTES;
        window.skip(bytes);
        end = window.offset;
    }
    let is_whole = !is_damaged && length == Some(window.offset);
    Ok(Extent { is_whole, end, length: window.offset })
}

/// A buffered part of the file that is being read.
struct Window<'f> {
    file: &'f mut dyn Read,
    bytes: Vec<u8>,
    /// Number of bytes in the buffer that have been passed.
    at: usize,
    /// Number of bytes in the file that have been passed.
    offset: u64,
    has_ended: bool,
}

impl Window<'_> {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    fn skip(&mut self, bytes: usize) {
        self.at += bytes;
        self.offset += bytes as u64;
    }

    /// Reads until the window contains `bytes` bytes, or the file ends.
    fn fill(&mut self, bytes: usize) -> io::Result<()> {
        while self.rest().len() < bytes && !self.has_ended {
            self.bytes.drain(..std::mem::take(&mut self.at));
            let read = (&mut *self.file).take(WINDOW_BYTES).read_to_end(&mut self.bytes)?;
            self.has_ended = read == 0;
        }
        Ok(())
    }

    /// Skips zeros; returns whether other bytes follow.
    fn skip_zeros(&mut self) -> io::Result<bool> {
        loop {
            self.fill(1)?;
            if let Some(zeros) = self.rest().iter().position(|byte| *byte != 0) {
                self.skip(zeros);
                return Ok(true);
            }
            self.skip(self.rest().len());
            if self.has_ended {
                return Ok(false);
            }
        }
    }

    /// Reads the whole record that might begin here into the buffer.
    fn fill_record(&mut self) -> io::Result<()> {
        self.fill(PREFIX_BYTES)?;
        let length = self.rest().strip_prefix(&MARK).and_then(|rest| rest.first_chunk::<4>());
        let payload = length.map_or(0, |length| u32::from_le_bytes(*length) as usize);
        // A larger length can only come from damage.
        if payload <= PAYLOAD_BYTES_MAX {
            self.fill(PREFIX_BYTES + payload + HASH_BYTES)?;
        }
        Ok(())
    }
}

/// Returns the payload of the record at the start of `bytes`; `None` unless a complete record with
/// a valid hash starts there.
fn payload(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.strip_prefix(&MARK)?.split_first_chunk::<4>()?;
    let (payload, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let seal = rest.first_chunk::<HASH_BYTES>()?;
    (u64::from_le_bytes(*seal) == hash(payload)).then_some(payload)
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*number), rest))
}

fn length_of(payload: &[u8]) -> Option<u64> {
    let (kind, rest) = payload.split_first()?;
    (*kind == LENGTH).then_some(())?;
    Some(number(rest.get(4..)?)?.0)
}

fn record(payload: &[u8]) -> Option<Record<'_>> {
    let (kind, rest) = payload.split_first()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (source, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let source = std::str::from_utf8(source).ok()?;
    let change = match *kind {
        SOURCE => Change::Ran,
        ORIGIN => number(rest).map(|(origin, descriptor)| Change::Origin(origin, descriptor))?,
        FORGOTTEN => Change::Forgotten(number(rest)?.0),
        CHECKPOINT => {
            let (origin, rest) = number(rest)?;
            let (offset, sink) = number(rest)?;
            Change::Checkpoint(origin, std::str::from_utf8(sink).ok()?, offset)
        }
        _ => return None,
    };
    Some(Record { source, change })
}

fn hash(payload: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(origins: u64, descriptor: &[u8]) -> Vec<u8> {
        let mut records = Records::default();
        records.part(Part::Source("app"));
        for origin in 0..origins {
            records.part(Part::Origin("app", origin, descriptor));
            records.part(Part::Checkpoint("app", origin, "out", origin));
        }
        let mut file = Records::default();
        file.length(0);
        let length = file.0.len() + records.0.len() + 1000;
        let mut file = Records::default();
        file.length(length as u64);
        file.0.extend_from_slice(&records.0);
        file.0.resize(length, 0);
        file.0
    }

    /// Some records cross the boundaries between the parts in which the file is read.
    #[test]
    fn a_large_file_is_read_in_parts() {
        let (origins, descriptor) = (5000, [7; 300]);
        let bytes = file(origins, &descriptor);
        assert!(bytes.len() as u64 > 4 * WINDOW_BYTES);
        let (ids, extent) = Ids::read(&mut &bytes[..]).unwrap();
        let end = bytes.len() as u64 - 1000;
        assert_eq!(extent, Extent { is_whole: true, end, length: bytes.len() as u64 });
        assert!((0..origins).all(|origin| ids.has(Part::Origin("app", origin, &[]))));
        assert!(!ids.has(Part::Origin("app", origins, &[])) && !ids.has(Part::Source("other")));
        let decoded = decode(&bytes);
        assert!(decoded.is_whole && decoded.identities.count() as u64 == origins);
        assert_eq!(decoded.identities.0["app"][&9].checkpoints["out"], 9);
    }

    #[test]
    fn damage_costs_the_records_that_have_it() {
        let bytes = file(2000, &[7; 300]);
        for at in [0, 4, 100, 300_000, 500_000] {
            for value in [0, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at..at + 8].fill(value);
                let (ids, extent) = Ids::read(&mut &damaged[..]).unwrap();
                assert!(!extent.is_whole && extent.length == bytes.len() as u64, "{at} {value}");
                let left = (0..2000).filter(|origin| ids.has(Part::Origin("app", *origin, &[])));
                assert!((1998..=2000).contains(&left.count()), "{at} {value}");
            }
        }
        let mut short = bytes;
        short.pop();
        assert!(!Ids::read(&mut &short[..]).unwrap().1.is_whole);
    }
}
