//! A hash index from 64-bit hashes to 32-bit numbers.

use millstream_scan::equal_mask;

/// Marks an empty entry.
pub const NONE: u32 = u32::MAX;

/// Number of parts in an index. Each part grows by itself. With a million entries, growing one part
/// takes tens of microseconds; growing all parts at once would block a receiver for milliseconds.
const PARTS: usize = 64;

/// Number of entries per bucket, which is one cache line.
const BUCKET_NUMBERS: usize = 8;

/// A part with fewer buckets never shrinks.
const BUCKETS_MIN: usize = 16;

/// A hash table from hashes to numbers below [`NONE`].
///
/// A lookup usually reads a single cache line, which can be prefetched. Tables with separate
/// control bytes read two. A lookup compares all hashes in a bucket at once, because a branch per
/// hash would be mispredicted.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// Parts, selected by the upper bits of the hash. Empty before the first insertion.
    parts: Vec<Part>,
}

/// Buckets in ascending order of hashes, so that growing a part reads and writes sequentially. If
/// an entry does not fit into its home bucket, it is in the next bucket with space. A search
/// therefore ends at the first bucket that is not full.
#[derive(Clone, Debug, Default)]
struct Part {
    buckets: Vec<Bucket>,
    used: usize,
}

/// A bucket of entries. Used entries come first, and [`NONE`] follows.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Bucket {
    /// The lower halves of the hashes, so that a part can grow without reading the keys.
    hashes: [u32; BUCKET_NUMBERS],
    numbers: [u32; BUCKET_NUMBERS],
}

pub static EMPTY: Bucket = Bucket { hashes: [0; BUCKET_NUMBERS], numbers: [NONE; BUCKET_NUMBERS] };

impl Index {
    /// Returns a number that has this hash and for which `is_it` returns true, if there is one.
    /// Only the upper and lower bits of the hash are compared.
    #[inline]
    pub fn find(&self, hash: u64, is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        self.parts.get(part_of(hash))?.find(hash as u32, is_it)
    }

    /// Returns the home bucket of a hash, in which a search begins.
    #[inline(always)]
    pub fn bucket(&self, hash: u64) -> &Bucket {
        let buckets = self.parts.get(part_of(hash)).map_or(&[][..], |part| &part.buckets);
        buckets.get(home(hash as u32, buckets.len())).unwrap_or(&EMPTY)
    }

    /// Inserts a number. Several numbers can have the same hash.
    pub fn insert(&mut self, hash: u64, number: u32) {
        if self.parts.is_empty() {
            self.parts.resize_with(PARTS, Part::default);
        }
        self.parts[part_of(hash)].insert(hash as u32, number);
    }

    /// Removes a number that has this hash, if present.
    pub fn remove(&mut self, hash: u64, number: u32) {
        if let Some(part) = self.parts.get_mut(part_of(hash)) {
            part.remove(hash as u32, number);
        }
    }

    /// Removes all numbers but keeps the memory.
    pub fn clear(&mut self) {
        for part in self.parts.iter_mut().filter(|part| part.used > 0) {
            part.buckets.fill(EMPTY);
            part.used = 0;
        }
    }
}

impl Part {
    #[inline]
    fn find(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = home(hash, self.buckets.len());
        // The loop terminates, because either there are no buckets or one of them is not full.
        while let Some(bucket) = self.buckets.get(at) {
            let found = bucket.numbers_with(hash).find(|number| is_it(*number));
            if found.is_some() || !bucket.is_full() {
                return found;
            }
            at = self.after(at);
        }
        None
    }

    /// Returns the index of the next bucket, wrapping around.
    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.buckets.len() { 0 } else { at + 1 }
    }

    fn insert(&mut self, hash: u32, number: u32) {
        // Above a load of 4/5, too many entries would not fit into their home bucket.
        if self.used * 5 >= self.buckets.len() * BUCKET_NUMBERS * 4 {
            self.resize((self.buckets.len() * 3).div_ceil(2).max(1));
        }
        self.used += 1;
        self.put(hash, number);
    }

    /// Moves all entries to `buckets` new buckets, which must have room for them.
    fn resize(&mut self, buckets: usize) {
        let old = std::mem::replace(&mut self.buckets, vec![EMPTY; buckets]);
        old.iter().flat_map(Bucket::entries).for_each(|(hash, number)| self.put(hash, number));
    }

    /// Frees memory at a load below 1/8, so that the memory is available elsewhere after series
    /// expire.
    fn shrink(&mut self) {
        let buckets = self.buckets.len();
        if buckets >= BUCKETS_MIN && self.used < buckets {
            self.resize(buckets / 4);
        }
    }

    fn put(&mut self, hash: u32, number: u32) {
        let mut at = home(hash, self.buckets.len());
        while self.buckets[at].is_full() {
            at = self.after(at);
        }
        self.buckets[at].push(hash, number);
    }

    fn remove(&mut self, hash: u32, number: u32) {
        let mut at = home(hash, self.buckets.len());
        while let Some(bucket) = self.buckets.get_mut(at) {
            let was_full = bucket.is_full();
            if bucket.take(|_, other| other == number).is_some() {
                self.used -= 1;
                if was_full {
                    self.close(at);
                }
                return self.shrink();
            }
            if !was_full {
                return;
            }
            at = self.after(at);
        }
    }

    /// Fills the gap in a bucket that was full. Moves an entry there that had not fit into the
    /// bucket, because a search for this entry would otherwise end at the gap.
    fn close(&mut self, mut gap: usize) {
        let (mut at, buckets) = (self.after(gap), self.buckets.len());
        while at != gap {
            let was_full = self.buckets[at].is_full();
            let way =
                |from: usize, to: usize| if from <= to { to - from } else { to + buckets - from };
            let has_passed = |hash, _| way(home(hash, buckets), at) >= way(gap, at);
            let moved = self.buckets[at].take(has_passed);
            if let Some((hash, number)) = moved {
                self.buckets[gap].push(hash, number);
                gap = at;
            }
            if !was_full {
                return;
            }
            at = self.after(at);
        }
    }
}

impl Bucket {
    /// Returns the first number in the bucket that has this hash, if there is one. More numbers can
    /// have the same hash.
    #[inline(always)]
    pub fn first(&self, hash: u64) -> Option<u32> {
        let equal = equal_mask(&self.hashes, hash as u32);
        let number = self.numbers[(equal | 1 << (BUCKET_NUMBERS - 1)).trailing_zeros() as usize];
        (equal != 0 && number != NONE).then_some(number)
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.numbers[BUCKET_NUMBERS - 1] != NONE
    }

    /// Returns the numbers that have this hash.
    #[inline]
    fn numbers_with(&self, hash: u32) -> impl Iterator<Item = u32> {
        let mut equal = equal_mask(&self.hashes, hash);
        std::iter::from_fn(move || {
            let at = (equal != 0).then(|| equal.trailing_zeros() as usize % BUCKET_NUMBERS)?;
            equal &= equal - 1;
            Some(self.numbers[at])
        })
        .filter(|number| *number != NONE)
    }

    fn entries(&self) -> impl Iterator<Item = (u32, u32)> {
        self.hashes.into_iter().zip(self.numbers).filter(|(_, number)| *number != NONE)
    }

    /// Adds an entry to a bucket that is not full.
    fn push(&mut self, hash: u32, number: u32) {
        let at = self.entries().count();
        (self.hashes[at], self.numbers[at]) = (hash, number);
    }

    /// Removes and returns the first entry for which `is_it` returns true, if there is one. Moves
    /// the last entry into its place.
    fn take(&mut self, mut is_it: impl FnMut(u32, u32) -> bool) -> Option<(u32, u32)> {
        let len = self.entries().count();
        let at = self.entries().position(|(hash, number)| is_it(hash, number))?;
        let taken = (self.hashes[at], self.numbers[at]);
        (self.hashes[at], self.numbers[at]) = (self.hashes[len - 1], self.numbers[len - 1]);
        (self.hashes[len - 1], self.numbers[len - 1]) = (0, NONE);
        Some(taken)
    }
}

/// Returns the part for a hash, which is selected by the upper bits. The position within a part
/// does not use these bits.
#[inline]
fn part_of(hash: u64) -> usize {
    (hash >> (64 - PARTS.ilog2())) as usize
}

/// Returns the home bucket for a hash in a part with `buckets` buckets.
#[inline]
fn home(hash: u32, buckets: usize) -> usize {
    ((u64::from(hash) * buckets as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_testkit_random::{Seed, TestSize};
    use std::collections::BTreeSet;

    /// Returns hashes that often share a bucket and are sometimes equal.
    fn hash(number: u32) -> u64 {
        let number = u64::from(number);
        (number % 3) << 62 | (number % 50) << 26 | (number % 2)
    }

    /// Number of calls to compare with the model.
    const CALLS: TestSize = TestSize { gate: 20_000, long: 2_000_000 };

    #[test]
    fn an_inserted_number_is_found_until_it_is_removed() {
        let (mut index, mut model) = (Index::default(), BTreeSet::new());
        let mut numbers = Seed::of_test_or(1).random();
        for _ in numbers.rounds(CALLS) {
            let random = numbers.u32(..);
            let number = (random >> 8) % 500;
            if model.remove(&number) {
                index.remove(hash(number), number);
            } else if random >> 28 > 2 {
                model.insert(number);
                index.insert(hash(number), number);
            } else {
                index.remove(hash(number), number);
            }
            for number in [number, number + 1, number / 2] {
                let found = index.find(hash(number), |found| found == number);
                assert_eq!(found.is_some(), model.contains(&number), "{number}");
            }
        }
        assert!(model.len() > 100);
        assert!(
            (0..500)
                .all(|n| index.find(hash(n), |found| found == n).is_some() == model.contains(&n))
        );
        index.clear();
        assert!((0..500).all(|number| index.find(hash(number), |_| true).is_none()));
        assert_eq!(index.parts.iter().map(|part| part.used).sum::<usize>(), 0);
    }

    #[test]
    fn the_memory_of_entries_that_were_removed_is_freed() {
        let (mut index, count) = (Index::default(), 100_000_u32);
        let hash = |number: u32| u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let buckets =
            |index: &Index| -> usize { index.parts.iter().map(|part| part.buckets.len()).sum() };
        (0..count).for_each(|number| index.insert(hash(number), number));
        let before = buckets(&index);
        (100..count).for_each(|number| index.remove(hash(number), number));
        assert!(buckets(&index) < before / 10, "{before} {}", buckets(&index));
        assert!((0..100).all(|n| index.find(hash(n), |found| found == n).is_some()));
        (100..count).for_each(|number| index.insert(hash(number), number));
        assert!((0..count).all(|n| index.find(hash(n), |found| found == n).is_some()));
    }

    #[test]
    fn a_search_wraps_around_after_the_last_bucket() {
        let mut index = Index::default();
        (0..30).for_each(|number| index.insert(u64::from(u32::MAX), number));
        assert_eq!(index.find(u64::from(u32::MAX), |number| number == 29), Some(29));
        index.remove(u64::from(u32::MAX), 0);
        assert!((1..30).all(|n| index.find(u64::from(u32::MAX), |number| number == n).is_some()));
        assert_eq!(index.find(u64::from(u32::MAX), |number| number == 0), None);
    }
}
