//! The second copy of the identities: which sources ran, which files they know under which ids, and
//! the checkpoints of a while ago.
//!
//! The file `identities` is a snapshot of the database, to which every identity that is kept later
//! is appended; it is read only when the database is damaged or missing. Zeros up to a fixed length
//! follow, so that an append needs no space of the disk and changes nothing but one or two blocks.
//!
//! | bytes | record |
//! |---|---|
//! | 4 | mark `a7 49 64 0a` |
//! | 4 | length of the payload, little endian |
//! | n | payload: kind, then the fields |
//! | 8 | XXH3 of the payload |
//!
//! A record that fails its hash is skipped, and reading continues at the next mark.

use std::collections::BTreeMap;

const MARK: [u8; 4] = [0xa7, b'I', b'd', b'\n'];
const PREFIX_BYTES: usize = MARK.len() + 4;
const HASH_BYTES: usize = 8;

/// Least free bytes of a new file, in addition to half of its content.
const FREE_BYTES_MIN: usize = 64 * 1024;

const LENGTH: u8 = 0;
const SOURCE: u8 = 1;
const ORIGIN: u8 = 2;
const FORGOTTEN: u8 = 3;
const CHECKPOINT: u8 = 4;

/// A known origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The source's own descriptor.
    pub descriptor: Vec<u8>,
    /// Offset by sink id.
    pub checkpoints: BTreeMap<String, u64>,
}

/// The origins of every source that ever ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identities(pub BTreeMap<String, BTreeMap<u64, Identity>>);

/// The content of a file.
#[derive(Debug, Default)]
pub struct Decoded {
    /// Everything that could be read.
    pub identities: Identities,
    /// Whether that is everything that was written.
    pub is_whole: bool,
    /// Bytes up to the end of the last record.
    pub end: usize,
    /// Bytes of the file.
    pub length: usize,
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

    /// The source ran.
    pub fn source(&mut self, source: &str) {
        self.push(SOURCE, source, &[]);
    }

    /// An origin, or a newer descriptor of one.
    pub fn origin(&mut self, source: &str, origin: u64, descriptor: &[u8]) {
        self.push(ORIGIN, source, &[&origin.to_le_bytes(), descriptor]);
    }

    /// A forgotten origin.
    pub fn forgotten(&mut self, source: &str, origin: u64) {
        self.push(FORGOTTEN, source, &[&origin.to_le_bytes()]);
    }

    fn checkpoint(&mut self, source: &str, origin: u64, sink: &str, offset: u64) {
        self.push(
            CHECKPOINT,
            source,
            &[&origin.to_le_bytes(), &offset.to_le_bytes(), sink.as_bytes()],
        );
    }

    fn length(&mut self, bytes: usize) {
        self.push(LENGTH, "", &[&(bytes as u64).to_le_bytes()]);
    }
}

impl Identities {
    /// Builds a file with all of it and free space; returns also how many bytes are records.
    pub fn encode(&self) -> (Vec<u8>, usize) {
        let mut records = Records::default();
        for (source, origins) in &self.0 {
            records.source(source);
            for (origin, identity) in origins {
                records.origin(source, *origin, &identity.descriptor);
                for (sink, offset) in &identity.checkpoints {
                    records.checkpoint(source, *origin, sink, *offset);
                }
            }
        }
        let length = records.0.len() + records.0.len() / 2 + FREE_BYTES_MIN;
        let mut file = Records::default();
        file.length(length);
        file.0.extend_from_slice(&records.0);
        let end = file.0.len();
        file.0.resize(length, 0);
        (file.0, end)
    }

    /// Whether it has every source and origin of `other`.
    pub fn covers(&self, other: &Identities) -> bool {
        other.0.iter().all(|(source, origins)| {
            let known = self.0.get(source);
            known.is_some_and(|known| origins.keys().all(|origin| known.contains_key(origin)))
        })
    }

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

/// Reads a file as far as it is valid.
pub fn decode(bytes: &[u8]) -> Decoded {
    let mut decoded = Decoded { length: bytes.len(), ..Decoded::default() };
    let (mut at, mut length, mut is_damaged) = (0, None, false);
    while let Some(found) = bytes[at..].iter().position(|byte| *byte != 0) {
        // Only trailing zeros are free space.
        is_damaged |= found > 0;
        at += found;
        let Some(payload) = payload(&bytes[at..]) else {
            (at, is_damaged) = (at + 1, true);
            continue;
        };
        match (length_of(payload), record(payload)) {
            (Some(of), _) => length = Some(of),
            (None, Some(record)) => decoded.identities.apply(record),
            (None, None) => is_damaged = true,
        }
        at += PREFIX_BYTES + payload.len() + HASH_BYTES;
        decoded.end = at;
    }
    decoded.is_whole = !is_damaged && length == Some(bytes.len() as u64);
    decoded
}

/// Returns the payload of the record at the start of `bytes`.
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
