//! Priorities, rate limits and the CPU limit. All functions take the time as an argument and read
//! no clock.

mod bucket;
mod cpu;
mod pause;
mod rate;

pub use cpu::CpuCeiling;
pub use pause::Pause;
pub use rate::Rate;

/// Priority of a source that has data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Sources with this priority come first.
    High,
    /// The default.
    #[default]
    Normal,
    /// Sources with this priority come last.
    Low,
}

/// Priority and rate limit with which a source is polled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Priority of the source.
    pub priority: Priority,
    /// Maximum rate in bytes per second; unlimited if `None`.
    pub rate_limit: Option<u64>,
}

/// One pick in this many takes the source that has waited longest, regardless of priority, so that
/// no source starves.
const FAIR_ONE_IN: u64 = 16;

/// Picks the next source: the first one with the highest priority, or periodically the first one
/// regardless of priority.
///
/// `waiting` contains the priorities of the waiting sources, longest wait first; `turn` is
/// incremented with each pick. `None` if no source is waiting.
pub fn pick(waiting: impl Iterator<Item = Priority>, turn: u64) -> Option<usize> {
    let mut waiting = waiting.enumerate();
    if turn % FAIR_ONE_IN == FAIR_ONE_IN - 1 {
        return waiting.next().map(|(index, _)| index);
    }
    waiting.min_by_key(|(index, priority)| (*priority, *index)).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Returns how many times each source is picked in `turns` turns if every source always has
    /// data and queues again.
    fn turns(priorities: &[Priority], turns: u64) -> Vec<u64> {
        let mut queue: VecDeque<usize> = (0..priorities.len()).collect();
        let mut picked = vec![0; priorities.len()];
        for turn in 0..turns {
            let index = pick(queue.iter().map(|who| priorities[*who]), turn).unwrap();
            let who = queue.remove(index).unwrap();
            picked[who] += 1;
            queue.push_back(who);
        }
        picked
    }

    #[test]
    fn equal_priorities_alternate() {
        assert_eq!(turns(&[Priority::Normal; 4], 1600), [400; 4]);
    }

    #[test]
    fn the_higher_priority_runs_first_and_the_lower_once_in_sixteen() {
        use Priority::{High, Low, Normal};
        assert_eq!(turns(&[Normal, High], 1600), [100, 1500]);
        assert_eq!(turns(&[Low, Normal], 1600), [100, 1500]);
        let [high, low, normal] = turns(&[High, Low, Normal], 1600)[..] else {
            panic!("three of them")
        };
        assert!(high >= 1500 - 50 && low >= 45 && normal >= 45, "{high} {low} {normal}");
        assert_eq!(pick([].into_iter(), 0), None);
    }
}
