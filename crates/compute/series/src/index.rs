//! From hashes to numbers.

use millstream_scan::places_of;

/// No number.
pub const NONE: u32 = u32::MAX;

/// The parts of an index, of which each grows on its own: a part of a million numbers takes some
/// ten microseconds, all of them at once would hold a receiver up for milliseconds.
const PARTS: usize = 64;

/// Numbers of a bucket, which is one cache line.
const BUCKET_NUMBERS: usize = 8;

/// A hash table from hashes to numbers below [`NONE`].
///
/// A look-up mostly reads one cache line, which can be asked for ahead, where tables with separate
/// control bytes read two; and it compares all hashes of a bucket at once, as a branch for each
/// would be foreseen badly.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// By the upper bits of the hash; none before the first number.
    parts: Vec<Part>,
}

/// Buckets by rising hash: so a part is read and written in order when it grows. What finds no room
/// in its bucket is in the first one behind that has: a search ends at the first bucket that is not
/// full.
#[derive(Clone, Debug, Default)]
struct Part {
    buckets: Vec<Bucket>,
    used: usize,
}

/// Numbers from the first place on, then [`NONE`].
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Bucket {
    /// The lower halves of the hashes: a part grows without a look at what its numbers stand for.
    hashes: [u32; BUCKET_NUMBERS],
    numbers: [u32; BUCKET_NUMBERS],
}

pub static EMPTY: Bucket = Bucket { hashes: [0; BUCKET_NUMBERS], numbers: [NONE; BUCKET_NUMBERS] };

impl Index {
    /// A number with this hash, of which only the upper and the lower bits are compared, that
    /// `is_it`.
    #[inline]
    pub fn find(&self, hash: u64, is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        self.parts.get(part_of(hash))?.find(hash as u32, is_it)
    }

    /// The bucket where the search for a hash begins.
    #[inline(always)]
    pub fn bucket(&self, hash: u64) -> &Bucket {
        let buckets = self.parts.get(part_of(hash)).map_or(&[][..], |part| &part.buckets);
        buckets.get(home(hash as u32, buckets.len())).unwrap_or(&EMPTY)
    }

    /// Adds a number; one hash may have several.
    pub fn insert(&mut self, hash: u64, number: u32) {
        if self.parts.is_empty() {
            self.parts.resize_with(PARTS, Part::default);
        }
        self.parts[part_of(hash)].insert(hash as u32, number);
    }

    /// Removes a number if it is there under this hash.
    pub fn remove(&mut self, hash: u64, number: u32) {
        if let Some(part) = self.parts.get_mut(part_of(hash)) {
            part.remove(hash as u32, number);
        }
    }

    /// Removes all numbers and keeps the room.
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
        // There is always a bucket that is not full, or none at all.
        while let Some(bucket) = self.buckets.get(at) {
            let found = bucket.numbers_with(hash).find(|number| is_it(*number));
            if found.is_some() || !bucket.is_full() {
                return found;
            }
            at = self.after(at);
        }
        None
    }

    /// The next bucket; after the last one comes the first.
    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.buckets.len() { 0 } else { at + 1 }
    }

    fn insert(&mut self, hash: u32, number: u32) {
        // Beyond four fifths too many find no room in their bucket.
        if self.used * 5 >= self.buckets.len() * BUCKET_NUMBERS * 4 {
            let old = std::mem::take(&mut self.buckets);
            self.buckets = vec![EMPTY; (old.len() * 3).div_ceil(2).max(1)];
            old.iter().flat_map(Bucket::entries).for_each(|(hash, number)| self.put(hash, number));
        }
        self.used += 1;
        self.put(hash, number);
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
                return;
            }
            if !was_full {
                return;
            }
            at = self.after(at);
        }
    }

    /// Fills the gap in a bucket that was full with what found no room in it, as a search would end
    /// there.
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
    /// A number with this hash, if one found room here. Others may have the same hash.
    #[inline(always)]
    pub fn first(&self, hash: u64) -> Option<u32> {
        let equal = places_of(&self.hashes, hash as u32);
        let number = self.numbers[(equal | 1 << (BUCKET_NUMBERS - 1)).trailing_zeros() as usize];
        (equal != 0 && number != NONE).then_some(number)
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.numbers[BUCKET_NUMBERS - 1] != NONE
    }

    /// The numbers with this hash.
    #[inline]
    fn numbers_with(&self, hash: u32) -> impl Iterator<Item = u32> {
        let mut equal = places_of(&self.hashes, hash);
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

    /// Adds a number to a bucket that is not full.
    fn push(&mut self, hash: u32, number: u32) {
        let at = self.entries().count();
        (self.hashes[at], self.numbers[at]) = (hash, number);
    }

    /// Takes out the first number that `is_it`, with its hash; the last one comes to its place.
    fn take(&mut self, mut is_it: impl FnMut(u32, u32) -> bool) -> Option<(u32, u32)> {
        let len = self.entries().count();
        let at = self.entries().position(|(hash, number)| is_it(hash, number))?;
        let taken = (self.hashes[at], self.numbers[at]);
        (self.hashes[at], self.numbers[at]) = (self.hashes[len - 1], self.numbers[len - 1]);
        (self.hashes[len - 1], self.numbers[len - 1]) = (0, NONE);
        Some(taken)
    }
}

/// The upper bits, which say nothing about the place in a part.
#[inline]
fn part_of(hash: u64) -> usize {
    (hash >> (64 - PARTS.ilog2())) as usize
}

/// Where the search for a hash begins in a part of that many buckets.
#[inline]
fn home(hash: u32, buckets: usize) -> usize {
    ((u64::from(hash) * buckets as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Hashes of which many share a bucket, and some everything.
    fn hash(number: u32) -> u64 {
        let number = u64::from(number);
        (number % 3) << 62 | (number % 50) << 26 | (number % 2)
    }

    #[test]
    fn what_was_put_in_is_found_until_it_is_removed() {
        let (mut index, mut model) = (Index::default(), BTreeSet::new());
        let mut random = 1_u32;
        for _ in 0..20_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
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
    fn a_search_goes_on_behind_the_last_bucket() {
        let mut index = Index::default();
        (0..30).for_each(|number| index.insert(u64::from(u32::MAX), number));
        assert_eq!(index.find(u64::from(u32::MAX), |number| number == 29), Some(29));
        index.remove(u64::from(u32::MAX), 0);
        assert!((1..30).all(|n| index.find(u64::from(u32::MAX), |number| number == n).is_some()));
        assert_eq!(index.find(u64::from(u32::MAX), |number| number == 0), None);
    }
}
