//! Assigns a time to each sample.

use crate::Profile;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A sample of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sample {
    /// Time of the sample since the start of the profile, in nanoseconds.
    pub ticks: u64,
    /// Stack number of the sample.
    pub stack: u32,
    /// Number of earlier samples of the same stack.
    number: u64,
}

/// The samples of all stacks, in order of time.
pub struct Schedule {
    /// The next sample of each stack.
    next: BinaryHeap<Reverse<Sample>>,
    /// The number of samples for each stack.
    counts: Vec<u64>,
    duration_ns: u64,
}

impl Schedule {
    /// Spreads the samples of each stack over the duration. If there are more than `samples_max` in
    /// total, the number for each stack is scaled down proportionally.
    pub fn new(profile: &Profile, samples_max: u64) -> Schedule {
        let total = profile.stacks().map(|(_, samples)| u128::from(samples)).sum::<u128>();
        let share = |samples: u64| match total > u128::from(samples_max) {
            true => (u128::from(samples) * u128::from(samples_max) / total) as u64,
            false => samples,
        };
        let counts: Vec<u64> = profile.stacks().map(|(_, samples)| share(samples)).collect();
        let duration_ns = profile.about().duration_ns;
        let mut schedule = Schedule { next: BinaryHeap::new(), counts, duration_ns };
        (0..schedule.counts.len() as u32).for_each(|stack| schedule.push(stack, 0));
        schedule
    }

    /// Adds a stack sample in the middle of the sample's share of the duration.
    fn push(&mut self, stack: u32, number: u64) {
        let count = self.counts[stack as usize];
        if number < count {
            let halves = u128::from(number) * 2 + 1;
            let ticks = u128::from(self.duration_ns) * halves / (u128::from(count) * 2);
            self.next.push(Reverse(Sample { ticks: ticks as u64, stack, number }));
        }
    }
}

impl Iterator for Schedule {
    type Item = Sample;

    fn next(&mut self) -> Option<Sample> {
        let Reverse(sample) = self.next.pop()?;
        self.push(sample.stack, sample.number + 1);
        Some(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{About, Frame, FrameKind};

    fn profile(counts: &[u64]) -> Profile {
        let mut profile = Profile::new(About { duration_ns: 1200, ..About::default() });
        for (index, count) in counts.iter().enumerate() {
            let frame = profile.frame(Frame::named(&index.to_string(), FrameKind::C));
            profile.add(&[frame], *count);
        }
        profile
    }

    #[test]
    fn samples_of_a_stack_are_spread_evenly_in_the_order_of_time() {
        let all = Schedule::new(&profile(&[3, 1, 2]), 6);
        let all: Vec<(u64, u32)> = all.map(|sample| (sample.ticks, sample.stack)).collect();
        assert_eq!(all, [(200, 0), (300, 2), (600, 0), (600, 1), (900, 2), (1000, 0)]);
    }

    #[test]
    fn of_more_samples_than_the_most_each_stack_has_its_share() {
        let all = Schedule::new(&profile(&[u64::MAX, u64::MAX / 3, 1]), 400);
        let stacks: Vec<u32> = all.map(|sample| sample.stack).collect();
        let count = |stack: u32| stacks.iter().filter(|other| **other == stack).count();
        assert!((299..=300).contains(&count(0)) && (99..=100).contains(&count(1)), "{stacks:?}");
        assert_eq!(count(2), 0);
    }
}
