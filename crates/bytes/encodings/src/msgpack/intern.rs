//! Which texts were seen before, and where they stand in their dictionary.

use foldhash::SharedSeed;
use foldhash::fast::FoldHasher;
use std::hash::Hasher;

/// Places of an empty table; a power of two.
const PLACES_MIN: usize = 1024;

/// A list of texts as msgpack has them, each there once.
#[derive(Debug, Default)]
pub struct Dictionary {
    /// The texts, one after the other.
    pub bytes: Vec<u8>,
    /// How many there are.
    pub len: u32,
}

impl Dictionary {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.len = 0;
    }
}

/// A text that was seen.
#[derive(Clone, Copy, Debug)]
struct Entry {
    space: u32,
    /// Where it lies in the bytes of its dictionary.
    start: u32,
    len: u32,
    index: u32,
}

/// Finds texts of several dictionaries. A hash table with open addressing, whose hashes nobody
/// outside can tell.
#[derive(Debug)]
pub struct Interner {
    seed: u64,
    shared: SharedSeed,
    /// One more than the index of an entry, and above it 32 bits of its hash; 0 where there is
    /// none. At most half of it is taken.
    places: Vec<u64>,
    entries: Vec<Entry>,
    /// By entry, for when the table grows.
    hashes: Vec<u64>,
}

/// What was found of a text.
pub enum Found {
    /// It is there.
    There(Place),
    /// It is new. To be given back to [`Interner::put`].
    New(Missing),
}

/// Where a text stands.
#[derive(Clone, Copy)]
pub struct Place {
    /// Among the texts of its dictionary.
    pub index: u32,
    /// In their bytes.
    pub start: usize,
}

/// A text that is not there.
pub struct Missing {
    hash: u64,
    space: u32,
}

impl Interner {
    pub fn new(seed: u64) -> Interner {
        let shared = SharedSeed::from_u64(seed);
        Interner {
            seed,
            shared,
            places: vec![0; PLACES_MIN],
            entries: Vec::new(),
            hashes: Vec::new(),
        }
    }

    pub fn clear(&mut self) {
        self.entries.clear();
        self.hashes.clear();
        self.places.fill(0);
    }

    /// Looks a text of one space up, whose texts lie in `bytes`.
    #[inline(always)]
    pub fn find(&self, space: u32, bytes: &[u8], text: &[u8]) -> Found {
        let mut hasher = FoldHasher::with_seed(self.seed ^ u64::from(space), &self.shared);
        hasher.write(text);
        // The lower bits choose the place, the upper ones tell texts apart.
        let hash = hasher.finish();
        let (mask, mut place) = (self.places.len() - 1, hash as usize);
        loop {
            place &= mask;
            let taken = self.places[place];
            if taken == 0 {
                return Found::New(Missing { hash, space });
            }
            if taken >> 32 == hash >> 32 {
                let entry = self.entries[taken as u32 as usize - 1];
                if (entry.space, entry.len as usize) == (space, text.len())
                    && bytes[entry.start as usize..][..text.len()] == *text
                {
                    return Found::There(Place { index: entry.index, start: entry.start as usize });
                }
            }
            place += 1;
        }
    }

    /// Remembers a text that was not there, and now lies at `start` in the bytes of its space.
    #[inline]
    pub fn put(&mut self, missing: Missing, start: usize, len: usize, index: u32) {
        let Missing { hash, space } = missing;
        self.entries.push(Entry { space, start: start as u32, len: len as u32, index });
        let taken = hash >> 32 << 32 | self.entries.len() as u64;
        self.take(hash, taken);
        self.hashes.push(hash);
        if self.entries.len() * 2 > self.places.len() {
            self.grow();
        }
    }

    /// Takes the first free place for a hash.
    #[inline(always)]
    fn take(&mut self, hash: u64, taken: u64) {
        let (mask, mut place) = (self.places.len() - 1, hash as usize);
        while self.places[place & mask] != 0 {
            place += 1;
        }
        self.places[place & mask] = taken;
    }

    #[cold]
    fn grow(&mut self) {
        let len = self.places.len() * 2;
        self.places.clear();
        self.places.resize(len, 0);
        for index in 0..self.hashes.len() {
            let hash = self.hashes[index];
            self.take(hash, hash >> 32 << 32 | (index as u64 + 1));
        }
    }
}
