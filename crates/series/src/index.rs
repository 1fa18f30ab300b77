//! From hashes to numbers.

/// No number.
pub const NONE: u32 = u32::MAX;

/// The parts of an index, of which each grows on its own: a part of a million numbers takes some ten
/// microseconds, all of them at once would hold a receiver up for milliseconds.
const PARTS: usize = 64;

/// Places of a part that has just begun.
const SLOTS_MIN: usize = 8;

const FREE: Slot = Slot { hash: 0, number: NONE };

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The lower half of the hash: a part grows without a look at what its numbers stand for.
    hash: u32,
    number: u32,
}

/// A hash table with linear probing, from hashes to numbers below [`NONE`].
///
/// A look-up reads one place in memory, which can be asked for ahead, where tables with separate control bytes
/// read two.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// By the upper bits of the hash; none before the first number.
    parts: Vec<Part>,
}

/// Slots by rising hash, as far as they are free: so a part is read and written in order when it grows.
#[derive(Clone, Debug, Default)]
struct Part {
    slots: Vec<Slot>,
    used: usize,
}

impl Index {
    /// A number with this hash, of which only the upper and the lower bits are compared, that `is_it`.
    #[inline]
    pub fn find(&self, hash: u64, is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        self.parts.get(part_of(hash))?.find(hash as u32, is_it)
    }

    /// Asks for the place of a hash.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        if let Some(slots) = self.parts.get(part_of(hash)).map(|part| &part.slots)
            && let Some(slot) = slots.get(home(hash as u32, slots.len()))
        {
            millstream_scan::prefetch(slot);
        }
    }

    /// Adds a number; one hash may have several.
    pub fn insert(&mut self, hash: u64, number: u32) {
        if self.parts.is_empty() {
            self.parts.resize_with(PARTS, Part::default);
        }
        self.parts[part_of(hash)].insert(Slot { hash: hash as u32, number });
    }

    /// Removes a number if it is there under this hash.
    pub fn remove(&mut self, hash: u64, number: u32) {
        if let Some(part) = self.parts.get_mut(part_of(hash)) {
            part.remove(Slot { hash: hash as u32, number });
        }
    }

    /// Removes all numbers and keeps the room.
    pub fn clear(&mut self) {
        for part in self.parts.iter_mut().filter(|part| part.used > 0) {
            part.slots.fill(FREE);
            part.used = 0;
        }
    }
}

impl Part {
    #[inline]
    fn find(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = home(hash, self.slots.len());
        // There is always a free slot, or none at all.
        while let Some(slot) = self.slots.get(at).filter(|slot| slot.number != NONE) {
            if slot.hash == hash && is_it(slot.number) {
                return Some(slot.number);
            }
            at = self.after(at);
        }
        None
    }

    /// The next slot; after the last one comes the first.
    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() { 0 } else { at + 1 }
    }

    fn insert(&mut self, slot: Slot) {
        // Beyond four fifths the ways become long.
        if self.used * 5 >= self.slots.len() * 4 {
            let len = (self.slots.len() * 3 / 2).max(SLOTS_MIN);
            let old = std::mem::replace(&mut self.slots, vec![FREE; len]);
            old.into_iter().filter(|slot| slot.number != NONE).for_each(|slot| self.put(slot));
        }
        self.used += 1;
        self.put(slot);
    }

    fn put(&mut self, slot: Slot) {
        let mut at = home(slot.hash, self.slots.len());
        while self.slots[at].number != NONE {
            at = self.after(at);
        }
        self.slots[at] = slot;
    }

    fn remove(&mut self, slot: Slot) {
        let mut hole = home(slot.hash, self.slots.len());
        while self.slots.get(hole).is_some_and(|at| at.number != slot.number) {
            if self.slots[hole].number == NONE {
                return;
            }
            hole = self.after(hole);
        }
        if self.slots.is_empty() {
            return;
        }
        // What lies behind moves up, so that a search may end at a free slot.
        let mut at = self.after(hole);
        while self.slots[at].number != NONE {
            let home = home(self.slots[at].hash, self.slots.len());
            if self.way(home, at) >= self.way(hole, at) {
                self.slots[hole] = self.slots[at];
                hole = at;
            }
            at = self.after(at);
        }
        self.slots[hole] = FREE;
        self.used -= 1;
    }

    /// How many slots lie between two.
    fn way(&self, from: usize, to: usize) -> usize {
        if from <= to { to - from } else { to + self.slots.len() - from }
    }
}

/// The upper bits, which say nothing about the place in a part.
#[inline]
fn part_of(hash: u64) -> usize {
    (hash >> (64 - PARTS.ilog2())) as usize
}

/// Where the search for a hash begins in a part of `slots`.
#[inline]
fn home(hash: u32, slots: usize) -> usize {
    ((u64::from(hash) * slots as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Hashes of which many share a slot, and some everything.
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
        assert!((0..500).all(|n| index.find(hash(n), |found| found == n).is_some() == model.contains(&n)));
        index.clear();
        assert!((0..500).all(|number| index.find(hash(number), |_| true).is_none()));
        assert_eq!(index.parts.iter().map(|part| part.used).sum::<usize>(), 0);
    }

    #[test]
    fn a_search_goes_on_behind_the_last_slot() {
        let mut index = Index::default();
        (0..5).for_each(|number| index.insert(u64::from(u32::MAX), number));
        assert_eq!(index.find(u64::from(u32::MAX), |number| number == 4), Some(4));
        index.remove(u64::from(u32::MAX), 0);
        assert!((1..5).all(|n| index.find(u64::from(u32::MAX), |number| number == n).is_some()));
        assert_eq!(index.find(u64::from(u32::MAX), |number| number == 0), None);
    }
}
