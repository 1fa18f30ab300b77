//! Admits items in the order of their ticket numbers, regardless of the order of their arrival.

use crate::ticket::TicketNumber;
use std::collections::BTreeMap;

/// Items that wait for all items with lower numbers. Every number is inserted or skipped once.
pub(crate) struct Turns<T> {
    next: TicketNumber,
    waiting: BTreeMap<TicketNumber, T>,
    /// Skipped numbers after `next`, as ranges from the first number to the number after the last.
    /// While one ticket is stuck, any number of later tickets may have nothing to insert.
    skipped: BTreeMap<TicketNumber, TicketNumber>,
}

impl<T> Default for Turns<T> {
    fn default() -> Turns<T> {
        let (next, waiting, skipped) = Default::default();
        Turns { next, waiting, skipped }
    }
}

impl<T> Turns<T> {
    /// Inserts the item with a number.
    pub fn insert(&mut self, number: TicketNumber, item: T) {
        self.waiting.insert(number, item);
    }

    /// Records that there is no item with this number.
    pub fn skip(&mut self, number: TicketNumber) {
        if number == self.next {
            self.next = number.next();
            return;
        }
        let end = self.skipped.remove(&number.next()).unwrap_or(number.next());
        match self.skipped.range_mut(..number).next_back() {
            Some((_, before)) if *before == number => *before = end,
            _ => _ = self.skipped.insert(number, end),
        }
    }

    /// Takes the next item if it has arrived.
    pub fn pop(&mut self) -> Option<T> {
        while let Some(end) = self.skipped.remove(&self.next) {
            self.next = end;
        }
        let item = self.waiting.remove(&self.next)?;
        self.next = self.next.next();
        Some(item)
    }

    /// Returns the first number that was neither taken nor skipped.
    pub fn next(&self) -> TicketNumber {
        self.skipped.get(&self.next).copied().unwrap_or(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_testkit_random::{Seed, TestSize};

    fn pop_all(turns: &mut Turns<u64>) -> Vec<u64> {
        std::iter::from_fn(|| turns.pop()).collect()
    }

    fn numbers(count: usize) -> Vec<TicketNumber> {
        std::iter::successors(Some(TicketNumber::default()), |n| Some(n.next()))
            .take(count)
            .collect()
    }

    /// Orders of arrival.
    const ORDERS: TestSize = TestSize { gate: 200, long: 20_000 };

    #[test]
    fn items_leave_in_order_whatever_order_they_arrive_in() {
        let mut random = Seed::of_test_or(5).random();
        for _ in random.rounds(ORDERS) {
            let mut numbers = numbers(50);
            random.shuffle(&mut numbers);
            let skipped: Vec<TicketNumber> =
                numbers.iter().copied().filter(|_| random.bool()).collect();
            let mut turns = Turns::default();
            let mut left = Vec::new();
            for number in numbers {
                if skipped.contains(&number) {
                    turns.skip(number);
                } else {
                    turns.insert(number, number.get());
                }
                left.extend(pop_all(&mut turns));
            }
            let mut expected: Vec<u64> = (0..50).collect();
            expected.retain(|number| !skipped.iter().any(|skipped| skipped.get() == *number));
            assert_eq!((left, turns.next().get()), (expected, 50));
        }
    }

    #[test]
    fn skipped_numbers_behind_a_missing_one_take_no_memory_each() {
        let mut turns = Turns::default();
        let numbers = numbers(10_000);
        for number in &numbers[1..] {
            turns.skip(*number);
        }
        assert_eq!((turns.skipped.len(), turns.next()), (1, numbers[0]));
        turns.insert(numbers[0], 0);
        assert_eq!((pop_all(&mut turns), turns.next().get()), (vec![0], 10_000));
    }
}
