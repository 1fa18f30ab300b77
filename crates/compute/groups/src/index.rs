//! Hash indexes for tables of any size.

use crate::hashing::TextKey;
use crate::limits::{PARTS_BITS, SPLIT_BUCKETS};
use millstream_scan::equal_mask;

/// The number that marks an empty entry.
pub const NONE: u32 = u32::MAX;

/// A cache line with entries of an [`Index`]. Each entry has a number.
pub trait Bucket: Clone + Sized {
    /// The data of an entry, excluding its number.
    type Entry: Copy;
    /// Maximum load, as used entries per total entries. Above this load, too many entries would not
    /// fit into their home bucket.
    const LOAD: [usize; 2];
    /// Number of entries in a full bucket.
    const ENTRIES: usize;
    /// A bucket without entries.
    const EMPTY: Self;
    /// Returns the number of used entries, which come first.
    fn len(&self) -> usize;
    /// Returns an entry and its number.
    fn entry(&self, at: usize) -> (Self::Entry, u32);
    /// Sets an entry and its number.
    fn set(&mut self, at: usize, entry: Self::Entry, number: u32);
    /// Returns the hash of an entry.
    fn hash(entry: Self::Entry) -> u32;

    /// Returns whether the bucket has no space for another entry.
    fn is_full(&self) -> bool;
}

/// A hash table of numbers, whose entries are in buckets that are one cache line long. Entries
/// cannot be removed.
///
/// A lookup usually reads a single cache line, which can be prefetched. A small table is a single
/// part. A large table has a fixed number of parts, each of which grows by itself, so that no
/// insertion takes a long time and memory use does not double.
#[derive(Clone, Debug)]
pub struct Index<B> {
    /// Parts, selected by the upper bits of the hash.
    parts: Vec<Part<B>>,
    /// Number of bits that select the part.
    bits: u32,
}

/// Buckets in ascending order of hashes, so that growing a part reads and writes sequentially. If
/// an entry does not fit into its home bucket, it is in the next bucket with space. A search
/// therefore ends at the first bucket that is not full.
#[derive(Clone, Debug)]
struct Part<B> {
    buckets: Vec<B>,
    used: usize,
}

impl<B> Default for Index<B> {
    fn default() -> Self {
        Index { parts: Vec::new(), bits: 0 }
    }
}

impl<B> Default for Part<B> {
    fn default() -> Self {
        Part { buckets: Vec::new(), used: 0 }
    }
}

impl<B: Bucket> Index<B> {
    /// Returns the first result of `look` over the buckets that can contain entries with a hash:
    /// the home bucket, and the following buckets up to the first one that is not full.
    #[inline(always)]
    pub fn search<T>(&self, hash: u32, mut look: impl FnMut(&B) -> Option<T>) -> Option<T> {
        let buckets = &self.part(hash)?.buckets[..];
        let mut at = home(hash, self.bits, buckets.len());
        loop {
            let bucket = buckets.get(at)?;
            let found = look(bucket);
            if found.is_some() || !bucket.is_full() {
                return found;
            }
            at = if at + 1 == buckets.len() { 0 } else { at + 1 };
        }
    }

    /// Prefetches the home bucket of a hash.
    #[inline(always)]
    pub fn prefetch(&self, hash: u32) {
        let Some(part) = self.part(hash) else { return };
        let home = part.buckets.get(home(hash, self.bits, part.buckets.len()));
        home.into_iter().for_each(millstream_scan::prefetch);
    }

    /// Returns the part for a hash, which is selected by the upper bits. The position within a part
    /// does not use these bits.
    #[inline(always)]
    fn part(&self, hash: u32) -> Option<&Part<B>> {
        self.parts.get((u64::from(hash) << self.bits >> 32) as usize)
    }

    /// Inserts an entry. Existing equal entries are kept.
    pub fn insert(&mut self, entry: B::Entry, number: u32) {
        if self.parts.is_empty() {
            self.parts = vec![Part::default()];
        }
        if self.bits == 0 && self.parts[0].buckets.len() > SPLIT_BUCKETS {
            self.split();
        }
        let part = (u64::from(B::hash(entry)) << self.bits >> 32) as usize;
        self.parts[part].insert(entry, self.bits, number);
    }

    /// Distributes the entries of a small table's single part over many parts.
    #[cold]
    fn split(&mut self) {
        let old = std::mem::take(&mut self.parts);
        self.bits = PARTS_BITS;
        self.parts = vec![Part::default(); 1 << PARTS_BITS];
        let buckets = old.iter().flat_map(|part| &part.buckets);
        buckets.flat_map(entries).for_each(|(entry, number)| self.insert(entry, number));
    }

    /// Returns the number of bytes that the index has allocated.
    pub fn memory_bytes(&self) -> usize {
        let buckets: usize = self.parts.iter().map(|part| part.buckets.capacity()).sum();
        buckets * size_of::<B>() + self.parts.capacity() * size_of::<Part<B>>()
    }
}

impl<B: Bucket> Part<B> {
    fn insert(&mut self, entry: B::Entry, bits: u32, number: u32) {
        let [used, total] = B::LOAD;
        if (self.used + 1) * total > self.buckets.len() * B::ENTRIES * used {
            let old = std::mem::take(&mut self.buckets);
            self.buckets = vec![B::EMPTY; old.len() + old.len().div_ceil(4).max(1)];
            let entries = old.iter().flat_map(entries);
            entries.for_each(|(entry, number)| self.put(entry, bits, number));
        }
        self.used += 1;
        self.put(entry, bits, number);
    }

    fn put(&mut self, entry: B::Entry, bits: u32, number: u32) {
        let mut at = home(B::hash(entry), bits, self.buckets.len());
        // The loop terminates, because at least one bucket is not full.
        while self.buckets[at].is_full() {
            at = if at + 1 == self.buckets.len() { 0 } else { at + 1 };
        }
        let end = self.buckets[at].len();
        self.buckets[at].set(end, entry, number);
    }
}

fn entries<B: Bucket>(bucket: &B) -> impl Iterator<Item = (B::Entry, u32)> {
    (0..bucket.len()).map(|at| bucket.entry(at))
}

/// Returns the home bucket for a hash in a part with `buckets` buckets. Only the bits below the
/// bits that select the part are used.
#[inline(always)]
fn home(hash: u32, bits: u32, buckets: usize) -> usize {
    ((u64::from(hash << bits) * buckets as u64) >> 32) as usize
}

/// Eight hashes and their numbers.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Hashes {
    hashes: [u32; 8],
    numbers: [u32; 8],
}

impl Bucket for Hashes {
    type Entry = u32;
    const LOAD: [usize; 2] = [4, 5];
    const ENTRIES: usize = 8;
    const EMPTY: Hashes = Hashes { hashes: [0; 8], numbers: [NONE; 8] };

    #[inline(always)]
    fn len(&self) -> usize {
        8 - equal_mask(&self.numbers, NONE).count_ones() as usize
    }

    #[inline(always)]
    fn entry(&self, at: usize) -> (u32, u32) {
        (self.hashes[at], self.numbers[at])
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.numbers[7] != NONE
    }

    fn set(&mut self, at: usize, hash: u32, number: u32) {
        (self.hashes[at], self.numbers[at]) = (hash, number);
    }

    fn hash(entry: u32) -> u32 {
        entry
    }
}

impl Index<Hashes> {
    /// Returns the first number that has this hash, or [`NONE`]. More numbers can have the same
    /// hash.
    #[inline(always)]
    pub fn first(&self, hash: u32) -> u32 {
        let found = self.search(hash, |bucket| {
            let equal = equal_mask(&bucket.hashes, hash);
            // If no hash is equal, this is the last number, which is usually [`NONE`].
            let number = bucket.numbers[(equal | 1 << 7).trailing_zeros() as usize];
            (equal != 0 && number != NONE).then_some(number)
        });
        found.unwrap_or(NONE)
    }

    /// Returns a number that has this hash and for which `is_it` returns true.
    pub fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.search(hash, |bucket| {
            let numbers = entries(bucket).filter(|(other, _)| *other == hash);
            numbers.map(|(_, number)| number).find(|number| is_it(*number))
        })
    }
}

/// Three string keys and their ids, which are above 0.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Keys {
    keys: [TextKey; 3],
    /// Ids of the entries, or 0 for an empty entry.
    ids: [u32; 3],
    unused: u32,
}

impl Bucket for Keys {
    type Entry = TextKey;
    const LOAD: [usize; 2] = [3, 5];
    const ENTRIES: usize = 3;
    const EMPTY: Keys = Keys { keys: [[0; 2]; 3], ids: [0; 3], unused: 0 };

    #[inline(always)]
    fn len(&self) -> usize {
        self.ids.iter().filter(|id| **id != 0).count()
    }

    #[inline(always)]
    fn entry(&self, at: usize) -> (TextKey, u32) {
        (self.keys[at], self.ids[at])
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.ids[2] != 0
    }

    fn set(&mut self, at: usize, key: TextKey, id: u32) {
        (self.keys[at], self.ids[at]) = (key, id);
    }

    fn hash(entry: TextKey) -> u32 {
        crate::hashing::index_hash(entry)
    }
}

impl Index<Keys> {
    /// Returns the id for a key, or 0. If several keys are equal, the result can be a mixture of
    /// their ids, so the caller must compare long strings.
    #[inline(always)]
    pub fn first(&self, hash: u32, [low, high]: TextKey) -> u32 {
        let found = self.search(hash, |bucket| {
            let entries = bucket.keys.iter().zip(bucket.ids);
            let id = entries.fold(0, |found, (key, id)| {
                let is_equal = ((key[0] ^ low) | (key[1] ^ high)) == 0;
                found | std::hint::select_unpredictable(is_equal, id, 0)
            });
            (id != 0).then_some(id)
        });
        found.unwrap_or(0)
    }

    /// Returns an id that has this key and for which `is_it` returns true.
    pub fn find(&self, hash: u32, key: TextKey, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.search(hash, |bucket| {
            let ids = entries(bucket).filter(|(other, _)| *other == key);
            ids.map(|(_, id)| id).find(|id| is_it(*id))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_testkit_random::Seed;

    #[test]
    fn every_number_is_found_at_every_size() {
        let (mut index, mut inserted) = (Index::<Hashes>::default(), Vec::new());
        let mut random = Seed::of_test_or(1).random();
        for number in 0..60_000 {
            // Some hashes are equal.
            let is_shared = number < 100 && number % 9 == 0;
            let hash = if is_shared { 7 << 28 } else { random.u32(..) };
            index.insert(hash, number);
            inserted.push(hash);
            if number < 100 || number % 5000 == 0 {
                inserted.iter().zip(0..).for_each(|(hash, number)| {
                    assert_eq!(index.find(*hash, |found| found == number), Some(number));
                });
            }
            assert_eq!(index.find(hash, |_| false), None);
        }
        assert!(index.bits > 0);
        assert!(index.memory_bytes() < 60_000 * 16, "{} bytes", index.memory_bytes());
    }

    #[test]
    fn every_key_is_found_at_every_size() {
        let mut index = Index::<Keys>::default();
        for id in 1..20_000 {
            let key = crate::hashing::key(id.to_string().as_bytes());
            let hash = Keys::hash(key);
            assert_eq!(index.find(hash, key, |_| true), None);
            index.insert(key, id);
            assert_eq!(index.find(hash, key, |_| true), Some(id));
            assert_eq!(index.first(hash, key), id);
        }
        let is_found = |id: &u32| {
            let key = crate::hashing::key(id.to_string().as_bytes());
            index.find(Keys::hash(key), key, |_| true) == Some(*id)
        };
        assert!((1..20_000).all(|id| is_found(&id)));
    }

    #[test]
    fn a_search_wraps_around_after_the_last_bucket() {
        let mut index = Index::<Hashes>::default();
        (0..30).for_each(|number| index.insert(u32::MAX, number));
        assert!((0..30).all(|n| index.find(u32::MAX, |number| number == n).is_some()));
        assert_eq!(index.find(u32::MAX, |number| number == 30), None);
    }
}
