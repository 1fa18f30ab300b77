//! Sets of events of a batch.

use std::ops::Range;

/// A set of events, as ascending ranges of their indexes in the batch. Most sets are one range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventSet {
    ranges: Vec<Range<u32>>,
}

impl EventSet {
    /// Creates the set of consecutive events.
    pub fn of(range: Range<u32>) -> EventSet {
        let ranges = if range.is_empty() { Vec::new() } else { vec![range] };
        EventSet { ranges }
    }

    /// Adds an event after all existing events.
    pub fn push(&mut self, event: u32) {
        match self.ranges.last_mut() {
            Some(last) if last.end == event => last.end += 1,
            _ => self.ranges.push(event..event + 1),
        }
    }

    /// Returns the number of events.
    pub fn len(&self) -> u64 {
        self.ranges.iter().map(|range| range.len() as u64).sum()
    }

    /// Returns whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the ranges of consecutive events.
    pub fn ranges(&self) -> &[Range<u32>] {
        &self.ranges
    }

    /// Iterates over the events.
    pub fn iter(&self) -> impl Iterator<Item = u32> + use<'_> {
        self.ranges.iter().flat_map(Clone::clone)
    }

    /// Splits the set after its first `count` events.
    pub fn split_at(&self, count: u64) -> (EventSet, EventSet) {
        let (mut first, mut second, mut left) = (EventSet::default(), EventSet::default(), count);
        for range in &self.ranges {
            let here = left.min(range.len() as u64);
            left -= here;
            let middle = range.start + here as u32;
            first.ranges.extend((range.start < middle).then_some(range.start..middle));
            second.ranges.extend((middle < range.end).then_some(middle..range.end));
        }
        (first, second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(events: &[u32]) -> EventSet {
        let mut set = EventSet::default();
        events.iter().for_each(|event| set.push(*event));
        set
    }

    #[test]
    fn consecutive_events_are_one_range() {
        assert_eq!(of(&[3, 4, 5]), EventSet::of(3..6));
        assert_eq!(of(&[0, 1, 3, 7, 8]).ranges(), [0..2, 3..4, 7..9]);
        assert_eq!(of(&[0, 1, 3, 7, 8]).iter().collect::<Vec<_>>(), [0, 1, 3, 7, 8]);
        assert!(EventSet::of(4..4).is_empty() && !of(&[4]).is_empty());
    }

    #[test]
    fn a_set_is_split_between_any_two_events() {
        let events = [0, 1, 3, 7, 8];
        for count in 0..=events.len() {
            let (first, second) = of(&events).split_at(count as u64);
            assert_eq!((first, second), (of(&events[..count]), of(&events[count..])));
        }
        assert_eq!(of(&events).split_at(9), (of(&events), EventSet::default()));
    }
}
