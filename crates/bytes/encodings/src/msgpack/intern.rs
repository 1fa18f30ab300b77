//! String deduplication: maps each string to its index in a dictionary.

use foldhash::SharedSeed;
use foldhash::fast::FoldHasher;
use std::hash::Hasher;

/// Initial capacity of the hash table. Must be a power of two.
const SLOTS_MIN: usize = 1024;

/// A list of distinct strings, encoded as msgpack.
#[derive(Debug, Default)]
pub struct Dictionary {
    /// The encoded strings, concatenated.
    pub bytes: Vec<u8>,
    /// Number of strings.
    pub len: u32,
}

impl Dictionary {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.len = 0;
    }
}

/// An interned string.
#[derive(Clone, Copy, Debug)]
struct Entry {
    namespace: u32,
    /// Offset in the bytes of the string's dictionary.
    start: u32,
    len: u32,
    index: u32,
}

/// Finds strings in several dictionaries. The index is a hash table with open addressing. Its
/// hashes are seeded, so clients cannot predict them.
#[derive(Debug)]
pub struct Interner {
    seed: u64,
    shared: SharedSeed,
    /// The upper 32 bits of the hash, and the index of an entry plus 1. A free slot is 0. At most
    /// half of the slots are occupied.
    slots: Vec<u64>,
    entries: Vec<Entry>,
    /// The hash of each entry, for growing the table.
    hashes: Vec<u64>,
}

/// The result of a lookup.
pub enum Interned {
    /// The string is in the dictionary.
    Existing(Position),
    /// The string is new. Pass this value to [`Interner::insert`].
    New(Missing),
}

/// The position of a string.
#[derive(Clone, Copy)]
pub struct Position {
    /// Index in the string's dictionary.
    pub index: u32,
    /// Offset in the bytes of the dictionary.
    pub start: usize,
}

/// The hash of a string that is not in the dictionary.
pub struct Missing {
    hash: u64,
    namespace: u32,
}

impl Interner {
    pub fn new(seed: u64) -> Interner {
        let shared = SharedSeed::from_u64(seed);
        Interner {
            seed,
            shared,
            slots: vec![0; SLOTS_MIN],
            entries: Vec::new(),
            hashes: Vec::new(),
        }
    }

    pub fn clear(&mut self) {
        self.entries.clear();
        self.hashes.clear();
        self.slots.fill(0);
    }

    /// Looks up a string in one namespace. `bytes` contains the strings of the namespace.
    #[inline(always)]
    pub fn find(&self, namespace: u32, bytes: &[u8], text: &[u8]) -> Interned {
        let mut hasher = FoldHasher::with_seed(self.seed ^ u64::from(namespace), &self.shared);
        hasher.write(text);
        // The lower bits select the slot; the upper bits filter candidates.
        let hash = hasher.finish();
        let (mask, mut slot) = (self.slots.len() - 1, hash as usize);
        loop {
            slot &= mask;
            let occupied = self.slots[slot];
            if occupied == 0 {
                return Interned::New(Missing { hash, namespace });
            }
            if occupied >> 32 == hash >> 32 {
                let entry = self.entries[occupied as u32 as usize - 1];
                if (entry.namespace, entry.len as usize) == (namespace, text.len())
                    && bytes[entry.start as usize..][..text.len()] == *text
                {
                    return Interned::Existing(Position {
                        index: entry.index,
                        start: entry.start as usize,
                    });
                }
            }
            slot += 1;
        }
    }

    /// Inserts a string that was not found. The caller has already written the string at `start` in
    /// the bytes of its dictionary.
    #[inline]
    pub fn insert(&mut self, missing: Missing, start: usize, len: usize, index: u32) {
        let Missing { hash, namespace } = missing;
        self.entries.push(Entry { namespace, start: start as u32, len: len as u32, index });
        let entry = hash >> 32 << 32 | self.entries.len() as u64;
        self.occupy(hash, entry);
        self.hashes.push(hash);
        if self.entries.len() * 2 > self.slots.len() {
            self.grow();
        }
    }

    /// Stores `entry` in the first free slot for a hash.
    #[inline(always)]
    fn occupy(&mut self, hash: u64, entry: u64) {
        let (mask, mut slot) = (self.slots.len() - 1, hash as usize);
        while self.slots[slot & mask] != 0 {
            slot += 1;
        }
        self.slots[slot & mask] = entry;
    }

    #[cold]
    fn grow(&mut self) {
        let len = self.slots.len() * 2;
        self.slots.clear();
        self.slots.resize(len, 0);
        for index in 0..self.hashes.len() {
            let hash = self.hashes[index];
            self.occupy(hash, hash >> 32 << 32 | (index as u64 + 1));
        }
    }
}
