//! Writes journal files of systemd, with numbers and times that the test chooses.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// Bytes of the header.
const HEADER_BYTES: usize = 256;

/// Number of buckets in the hash table.
const BUCKETS: usize = 64;

/// Maximum number of entries in a file.
const ENTRIES_MAX: usize = 4096;

/// Offset of the items of the hash table.
const TABLE: usize = HEADER_BYTES + 16;

/// Offset of the only array of entries.
const ARRAY: usize = TABLE + 16 * BUCKETS;

/// Time of the boot, in microseconds since 1970.
const BOOTED_US: u64 = 1_700_000_000_000_000;

/// Returns the hash of Bob Jenkins' lookup3 as journals contain it.
fn jenkins(bytes: &[u8]) -> u64 {
    let mut s = [0xDEAD_BEEF_u32.wrapping_add(bytes.len() as u32); 3];
    let mix = |s: &mut [u32; 3], to: usize, from: usize, by: usize, turn: u32| {
        s[to] = s[to].wrapping_sub(s[from]) ^ s[from].rotate_left(turn);
        s[from] = s[from].wrapping_add(s[by]);
    };
    let blocks = bytes.chunks(12).count();
    for (index, chunk) in bytes.chunks(12).enumerate() {
        let mut block = [0; 12];
        block[..chunk.len()].copy_from_slice(chunk);
        for (word, four) in s.iter_mut().zip(block.chunks(4)) {
            let number = four.iter().rev().fold(0, |all, byte| all << 8 | u32::from(*byte));
            *word = word.wrapping_add(number);
        }
        let [a, b, c] = [0, 1, 2];
        if index + 1 < blocks {
            for (to, from, by, turn) in [
                (a, c, b, 4),
                (b, a, c, 6),
                (c, b, a, 8),
                (a, c, b, 16),
                (b, a, c, 19),
                (c, b, a, 4),
            ] {
                mix(&mut s, to, from, by, turn);
            }
        } else {
            for (to, from, turn) in
                [(c, b, 14), (a, c, 11), (b, a, 25), (c, b, 16), (a, c, 4), (b, a, 14), (c, b, 24)]
            {
                s[to] = (s[to] ^ s[from]).wrapping_sub(s[from].rotate_left(turn));
            }
        }
    }
    u64::from(s[2]) << 32 | u64::from(s[1])
}

/// An entry to write.
#[derive(Clone, Debug)]
pub struct JournalEntry {
    /// Number of the entry.
    pub seqnum: u64,
    /// Boot of the entry: a byte that is repeated.
    pub boot: u8,
    /// Monotonic time in microseconds.
    pub monotonic: u64,
    /// Fields, as `NAME=value`.
    pub fields: Vec<Vec<u8>>,
}

impl JournalEntry {
    /// Creates an entry with a message, at a second per number after the boot.
    pub fn new(seqnum: u64, message: &str) -> JournalEntry {
        let fields = [format!("MESSAGE={message}"), "PRIORITY=6".to_owned()];
        let fields = fields.map(String::into_bytes).to_vec();
        JournalEntry { seqnum, boot: 1, monotonic: seqnum * 1_000_000, fields }
    }

    /// Adds a field, as `NAME=value`.
    #[must_use]
    pub fn field(mut self, field: impl AsRef<[u8]>) -> JournalEntry {
        self.fields.push(field.as_ref().to_vec());
        self
    }

    /// Sets the monotonic time, in microseconds.
    #[must_use]
    pub fn at(self, monotonic: u64) -> JournalEntry {
        JournalEntry { monotonic, ..self }
    }

    /// Sets the boot.
    #[must_use]
    pub fn of_boot(self, boot: u8) -> JournalEntry {
        JournalEntry { boot, ..self }
    }

    /// Returns the time in microseconds since 1970. A boot takes place 10,000 s after the one
    /// before.
    pub fn realtime(&self) -> u64 {
        BOOTED_US + u64::from(self.boot) * 10_000_000_000 + self.monotonic
    }
}

/// A journal file in progress: regular format, hashes without a key, one array of entries.
pub struct JournalWriter {
    bytes: Vec<u8>,
    data: HashMap<Vec<u8>, (u64, u64)>,
    /// The last array of each object for a pair.
    arrays: HashMap<usize, usize>,
    entries: usize,
}

impl JournalWriter {
    /// Begins a file. `file` and `sequence` are bytes that are repeated in the ids.
    pub fn begin(file: u8, sequence: u8) -> JournalWriter {
        let mut writer = JournalWriter {
            bytes: vec![0; ARRAY + 24 + 8 * ENTRIES_MAX],
            data: HashMap::new(),
            arrays: HashMap::new(),
            entries: 0,
        };
        let bytes = &mut writer.bytes;
        bytes[..8].copy_from_slice(b"LPKSHHRH");
        bytes[16] = 1;
        for (at, id) in [(24, file), (40, 0xAA), (72, sequence)] {
            bytes[at..at + 16].fill(id);
        }
        writer.object(HEADER_BYTES, 4, 16 + 16 * BUCKETS);
        writer.object(ARRAY, 6, 24 + 8 * ENTRIES_MAX);
        writer.set(88, HEADER_BYTES as u64);
        writer.set(104, TABLE as u64);
        writer.set(112, 16 * BUCKETS as u64);
        writer.set(136, ARRAY as u64);
        writer.set(144, 2);
        writer.set(176, ARRAY as u64);
        writer.grow();
        writer
    }

    /// Sets the state to archived, as a rotation does.
    pub fn archive(&mut self) {
        self.bytes[16] = 2;
    }

    /// Sets the state to offline.
    pub fn offline(&mut self) {
        self.bytes[16] = 0;
    }

    /// Adds an entry.
    pub fn add(&mut self, entry: &JournalEntry) {
        let mut items: Vec<(u64, u64)> =
            entry.fields.iter().map(|field| self.data(field)).collect();
        items.sort_unstable();
        let offset = self.append(3, 64 + 16 * items.len());
        let xor_hash = items.iter().fold(0, |all, (_, hash)| all ^ hash);
        let numbers = [(16, entry.seqnum), (24, entry.realtime()), (32, entry.monotonic)];
        numbers.into_iter().for_each(|(at, number)| self.set(offset + at, number));
        self.bytes[offset + 40..offset + 56].fill(entry.boot);
        self.set(offset + 56, xor_hash);
        for (index, (data, hash)) in items.iter().enumerate() {
            self.set(offset + 64 + 16 * index, *data);
            self.set(offset + 72 + 16 * index, *hash);
        }
        items.iter().for_each(|(data, _)| self.link(*data as usize, offset));
        self.set(ARRAY + 24 + 8 * self.entries, offset as u64);
        self.entries += 1;
        if self.entries == 1 {
            self.set(168, entry.seqnum);
            self.set(184, entry.realtime());
        }
        self.bytes[56..72].fill(entry.boot);
        self.set(152, self.entries as u64);
        self.set(160, entry.seqnum);
        self.set(192, entry.realtime());
        self.set(200, entry.monotonic);
    }

    /// Returns the file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Writes the file. The inode of an existing file stays the same.
    pub fn write(&self, path: &Path) {
        fs::write(path, &self.bytes).expect("a writable folder");
    }

    /// Returns offset and hash of the object for a pair of name and value.
    fn data(&mut self, pair: &[u8]) -> (u64, u64) {
        if let Some(known) = self.data.get(pair) {
            return *known;
        }
        let hash = jenkins(pair);
        let offset = self.append(1, 64 + pair.len());
        self.bytes[offset + 64..offset + 64 + pair.len()].copy_from_slice(pair);
        self.set(offset + 16, hash);
        let bucket = TABLE + 16 * (hash as usize % BUCKETS);
        let tail = self.get(bucket + 8) as usize;
        self.set(if tail == 0 { bucket } else { tail + 24 }, offset as u64);
        self.set(bucket + 8, offset as u64);
        self.data.insert(pair.to_vec(), (offset as u64, hash));
        (offset as u64, hash)
    }

    /// Adds an entry to those that an object for a pair refers to: the first one in the object
    /// itself, and each of the others in an array.
    fn link(&mut self, data: usize, entry: usize) {
        let count = self.get(data + 56);
        if count == 0 {
            self.set(data + 40, entry as u64);
        } else {
            let array = self.append(6, 24 + 8);
            self.set(array + 24, entry as u64);
            let last = self.arrays.insert(data, array);
            self.set(last.map_or(data + 48, |last| last + 16), array as u64);
        }
        self.set(data + 56, count + 1);
    }

    /// Appends an object of zeros, and returns its offset.
    fn append(&mut self, kind: u8, size: usize) -> usize {
        let offset = self.bytes.len().next_multiple_of(8);
        self.bytes.resize((offset + size).next_multiple_of(8), 0);
        self.object(offset, kind, size);
        self.set(136, offset as u64);
        self.set(144, self.get(144) + 1);
        self.grow();
        offset
    }

    fn object(&mut self, offset: usize, kind: u8, size: usize) {
        self.bytes[offset] = kind;
        self.set(offset + 8, size as u64);
    }

    fn grow(&mut self) {
        self.set(96, (self.bytes.len() - HEADER_BYTES) as u64);
    }

    fn get(&self, at: usize) -> u64 {
        let mut number = [0; 8];
        number.copy_from_slice(&self.bytes[at..at + 8]);
        u64::from_le_bytes(number)
    }

    fn set(&mut self, at: usize, number: u64) {
        self.bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
    }
}
