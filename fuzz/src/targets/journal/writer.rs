//! Writes small journal files.

use crate::Random;
use millstream_journal::{jenkins, siphash24};
use std::collections::HashMap;

/// Bytes of the header.
const HEADER_BYTES: usize = 272;

/// Number of chains in the hash table, few, so that fields share them.
const BUCKETS: u64 = 4;

/// Maximum number of entries.
const ENTRIES_MAX: usize = 12;

/// Maximum number of fields of an entry.
const FIELDS_MAX: usize = 5;

/// Id of the file.
const FILE_ID: [u8; 16] = *b"id of this file.";

/// A name and a value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// The format of a file.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    is_compact: bool,
    is_keyed: bool,
    /// Flag of the compression of fields, or 0.
    compression: u8,
}

impl Format {
    /// All formats, except those with xz.
    pub const ALL: &[Format] = &[
        Format { is_compact: false, is_keyed: false, compression: 0 },
        Format { is_compact: false, is_keyed: true, compression: 4 },
        Format { is_compact: true, is_keyed: true, compression: 0 },
        Format { is_compact: true, is_keyed: true, compression: 2 },
        Format { is_compact: true, is_keyed: false, compression: 4 },
    ];
}

/// A written entry.
#[derive(Debug)]
pub struct Written {
    pub seqnum: u64,
    pub times: [u64; 2],
    pub pairs: Vec<Pair>,
}

/// Writes entries whose values are pieces of the input. The values contain no zeros, which every
/// object has. Otherwise, an object in a value would be valid if a changed offset refers to it.
pub fn write(format: Format, input: &[u8], random: &mut Random) -> (Vec<u8>, Vec<Written>) {
    let input: Vec<u8> = input.iter().map(|byte| if *byte == 0 { b'0' } else { *byte }).collect();
    let mut writer = Writer::new(format);
    let count = 1 + random.below(ENTRIES_MAX);
    let first = 1 + random.below(3) as u64;
    let mut entries = Vec::new();
    for index in 0..count {
        let mut pairs = Vec::new();
        for field in 0..1 + random.below(FIELDS_MAX) {
            let start = random.below(input.len() + 1);
            let len = random.below(input.len() - start + 1);
            // The next entry often has the same field.
            let value = if random.below(2) == 0 {
                b"shared".to_vec()
            } else {
                input[start..start + len].to_vec()
            };
            pairs.push((format!("FIELD_{field}").into_bytes(), value));
        }
        let seqnum = first + index as u64;
        let entry = Written { seqnum, times: [1 + index as u64, index as u64], pairs };
        writer.append(&entry);
        entries.push(entry);
    }
    (writer.finish(&entries), entries)
}

struct Writer {
    format: Format,
    bytes: Vec<u8>,
    fields: HashMap<Pair, u64>,
    /// Offsets of the last field of each chain of the hash table.
    chains: [u64; BUCKETS as usize],
    /// Offset, number of used items, and capacity of the last array.
    array: (usize, usize, usize),
    last_object: usize,
}

impl Writer {
    fn new(format: Format) -> Writer {
        let mut writer = Writer {
            format,
            bytes: vec![0; HEADER_BYTES],
            fields: HashMap::new(),
            chains: [0; BUCKETS as usize],
            array: (0, 0, 0),
            last_object: 0,
        };
        writer.object(4, 0, &[0; BUCKETS as usize * 16]);
        writer
    }

    /// Appends an object, and returns its offset.
    fn object(&mut self, kind: u8, flags: u8, body: &[u8]) -> usize {
        let offset = self.bytes.len();
        self.bytes.extend([kind, flags, 0, 0, 0, 0, 0, 0]);
        self.bytes.extend((16 + body.len() as u64).to_le_bytes());
        self.bytes.extend(body);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        self.last_object = offset;
        offset
    }

    fn set(&mut self, at: usize, number: u64) {
        self.bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
    }

    fn hash(&self, pair: &[u8]) -> u64 {
        if self.format.is_keyed { siphash24(FILE_ID, pair) } else { jenkins(pair) }
    }

    /// Returns the offset of a field, after writing the field if it is new.
    fn field(&mut self, pair: &Pair) -> u64 {
        if let Some(offset) = self.fields.get(pair) {
            let users = *offset as usize + 56;
            self.bytes[users] += 1;
            return *offset;
        }
        let payload = [&pair.0[..], b"=", &pair.1].concat();
        let hash = self.hash(&payload);
        let (flags, packed) = self.compressed(&payload);
        let mut body = [hash, 0, 0, 0, 0, 1].map(u64::to_le_bytes).concat();
        body.resize(if self.format.is_compact { 56 } else { 48 }, 0);
        body.extend(packed);
        let offset = self.object(1, flags, &body) as u64;
        let bucket = (hash % BUCKETS) as usize;
        let item = HEADER_BYTES + 16 + bucket * 16;
        match self.chains[bucket] {
            0 => self.set(item, offset),
            last => self.set(last as usize + 24, offset),
        }
        self.set(item + 8, offset);
        self.chains[bucket] = offset;
        self.fields.insert(pair.clone(), offset);
        offset
    }

    /// Returns the payload of a field with the flag of its compression.
    fn compressed(&self, payload: &[u8]) -> (u8, Vec<u8>) {
        match self.format.compression {
            _ if payload.len() < 80 => (0, payload.to_vec()),
            2 => {
                let block = lz4_flex::block::compress(payload);
                (2, [&(payload.len() as u64).to_le_bytes()[..], &block].concat())
            }
            4 => (4, zstd::bulk::compress(payload, 1).unwrap()),
            _ => (0, payload.to_vec()),
        }
    }

    fn append(&mut self, entry: &Written) {
        let mut xor_hash = 0;
        let mut items = Vec::new();
        for pair in &entry.pairs {
            let payload = [&pair.0[..], b"=", &pair.1].concat();
            xor_hash ^= jenkins(&payload);
            let offset = self.field(pair);
            if self.format.is_compact {
                items.extend((offset as u32).to_le_bytes());
            } else {
                items.extend(offset.to_le_bytes());
                items.extend(self.hash(&payload).to_le_bytes());
            }
        }
        let [realtime, monotonic] = entry.times;
        let mut body = [entry.seqnum, realtime, monotonic].map(u64::to_le_bytes).concat();
        body.extend(b"id of this boot.");
        body.extend(xor_hash.to_le_bytes());
        body.extend(items);
        let offset = self.object(3, 0, &body) as u64;
        for pair in &entry.pairs {
            let first_entry = self.fields[pair] as usize + 40;
            if self.bytes[first_entry..first_entry + 8] == [0; 8] {
                self.set(first_entry, offset);
            }
        }
        self.link(offset);
    }

    /// Adds an entry to the last array, or to a new one.
    fn link(&mut self, entry: u64) {
        let width = if self.format.is_compact { 4 } else { 8 };
        let (last, used, capacity) = self.array;
        if used == capacity {
            let capacity = (capacity * 2).max(4);
            let array = self.object(6, 0, &vec![0; 8 + capacity * width]);
            let link = if last == 0 { 176 } else { last + 16 };
            self.set(link, array as u64);
            self.array = (array, 0, capacity);
        }
        let (array, used, _) = &mut self.array;
        let at = *array + 24 + *used * width;
        *used += 1;
        self.bytes[at..at + width].copy_from_slice(&entry.to_le_bytes()[..width]);
    }

    /// Writes the header.
    fn finish(mut self, entries: &[Written]) -> Vec<u8> {
        let size = self.bytes.len() as u64;
        let Format { is_compact, is_keyed, compression } = self.format;
        let zstd = u8::from(compression == 4) << 3;
        let lz4 = u8::from(compression == 2) << 1;
        self.bytes[..8].copy_from_slice(b"LPKSHHRH");
        self.bytes[12] = u8::from(is_keyed) << 2 | u8::from(is_compact) << 4 | zstd | lz4;
        for (id, at) in [(FILE_ID, 24), ([1; 16], 40), ([2; 16], 56), ([3; 16], 72)] {
            self.bytes[at..at + 16].copy_from_slice(&id);
        }
        self.set(88, HEADER_BYTES as u64);
        self.set(96, size - HEADER_BYTES as u64);
        self.set(104, HEADER_BYTES as u64 + 16);
        self.set(112, BUCKETS * 16);
        self.set(136, self.last_object as u64);
        self.set(152, entries.len() as u64);
        self.set(160, entries.last().map_or(0, |entry| entry.seqnum));
        self.set(168, entries.first().map_or(0, |entry| entry.seqnum));
        self.set(184, entries.first().map_or(0, |entry| entry.times[0]));
        self.set(192, entries.last().map_or(0, |entry| entry.times[0]));
        self.bytes
    }
}
