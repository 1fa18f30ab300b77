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
    hash: u32,
    space: u32,
    /// Where it lies in the bytes of its dictionary.
    start: u32,
    len: u32,
    index: u32,
}

/// Finds texts of several dictionaries. A hash table with open addressing, whose hashes nobody outside can tell.
#[derive(Debug)]
pub struct Interner {
    seed: u64,
    shared: SharedSeed,
    /// One more than the index of an entry; 0 where there is none. At most half of it is taken.
    places: Vec<u32>,
    entries: Vec<Entry>,
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
    hash: u32,
    space: u32,
    place: usize,
}

impl Interner {
    pub fn new(seed: u64) -> Interner {
        let shared = SharedSeed::from_u64(seed);
        Interner { seed, shared, places: vec![0; PLACES_MIN], entries: Vec::new() }
    }

    pub fn clear(&mut self) {
        self.entries.clear();
        self.places.fill(0);
    }

    /// Looks a text of one space up, whose texts lie in `bytes`.
    #[inline(always)]
    pub fn find(&self, space: u32, bytes: &[u8], text: &[u8]) -> Found {
        let mut hasher = FoldHasher::with_seed(self.seed ^ u64::from(space), &self.shared);
        hasher.write(text);
        let hash = hasher.finish();
        let (mask, hash) = (self.places.len() - 1, (hash ^ hash >> 32) as u32);
        let mut place = hash as usize & mask;
        loop {
            let Some(entry) = self.places[place].checked_sub(1) else {
                return Found::New(Missing { hash, space, place });
            };
            let entry = self.entries[entry as usize];
            if (entry.hash, entry.space, entry.len as usize) == (hash, space, text.len())
                && bytes[entry.start as usize..][..text.len()] == *text
            {
                return Found::There(Place { index: entry.index, start: entry.start as usize });
            }
            place = (place + 1) & mask;
        }
    }

    /// Remembers a text that was not there, and now lies at `start` in the bytes of its space.
    #[inline]
    pub fn put(&mut self, missing: Missing, start: usize, len: usize, index: u32) {
        let Missing { hash, space, place } = missing;
        self.entries.push(Entry { hash, space, start: start as u32, len: len as u32, index });
        self.places[place] = self.entries.len() as u32;
        if self.entries.len() * 2 > self.places.len() {
            self.grow();
        }
    }

    #[cold]
    fn grow(&mut self) {
        let len = self.places.len() * 2;
        self.places.clear();
        self.places.resize(len, 0);
        for (index, entry) in self.entries.iter().enumerate() {
            let mut place = entry.hash as usize & (len - 1);
            while self.places[place] != 0 {
                place = (place + 1) & (len - 1);
            }
            self.places[place] = index as u32 + 1;
        }
    }
}
