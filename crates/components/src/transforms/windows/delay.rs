//! Measures the delay from the end of a window until its results are in the feed.

use super::definition::Definition;
use millstream_model::{EngineTime, Now};
use std::collections::VecDeque;
use std::time::Duration;

/// Minimum time in nanoseconds from the end of an event-time window until its results can be late.
/// A window may end at the moment when its results are due.
const GRACE_NS: i64 = 1_000_000_000;

/// A window that has ended, but whose last result is not in the feed yet.
#[derive(Clone, Copy, Debug)]
pub struct Delay {
    /// Index of the task; `None` if the task has changed or no longer exists.
    pub task: Option<usize>,
    /// Time when the lane ended the window.
    ended: EngineTime,
    /// Time between the end of the window by the clock and the moment when the lane ended the
    /// window.
    behind: Duration,
    /// Time after `ended` at which the results are due, in nanoseconds; negative if they were due
    /// earlier, and `None` if they are never due.
    due_ns: Option<i64>,
}

/// Properties of a window when it ends.
pub struct Ending {
    /// End of the window by the clock, in nanoseconds since 1970.
    pub end_ns: i64,
    /// Whether the window began before its end by the clock, in this run of the agent.
    pub is_live: bool,
    /// Time when the last event arrived.
    pub updated: EngineTime,
}

impl Delay {
    /// Creates the delay when a window ends. The delay of an arrival-time window is measured from
    /// its end by the clock. The delay of an event-time window is measured from now, because its
    /// end may be long past when its events arrive.
    pub fn begin(task: Option<usize>, definition: &Definition, ending: &Ending, now: Now) -> Delay {
        let is_logged = definition.lateness_ns.is_some();
        let behind_ns = now.unix_ns.saturating_sub(ending.end_ns).max(0);
        let mut behind = Duration::from_nanos(behind_ns as u64);
        if is_logged {
            behind = Duration::ZERO;
        } else if ending.is_live {
            // Events arrived until this time. If the end is further in the past, the clock was set
            // forward.
            behind = behind.min(now.since_start - ending.updated);
        }
        let can_be_due = ending.is_live || !is_logged;
        let due_ns = definition.due_ns.filter(|_| can_be_due).map(|due_ns| {
            let left_ns = ending.end_ns.saturating_add(due_ns).saturating_sub(now.unix_ns);
            if is_logged { left_ns.max(GRACE_NS) } else { left_ns }
        });
        Delay { task, ended: now.since_start, behind, due_ns }
    }

    /// Returns the delay of the results if they are all in the feed now.
    pub fn until(&self, now: Now) -> Duration {
        (now.since_start - self.ended) + self.behind
    }

    /// Returns whether the results are late if they are all in the feed now.
    pub fn is_overdue(&self, now: Now) -> bool {
        let since_ns = (now.since_start - self.ended).as_nanos() as i64;
        self.due_ns.is_some_and(|due_ns| since_ns > due_ns)
    }
}

/// Windows whose results were produced but are not all in the feed.
#[derive(Default)]
pub struct Delays(VecDeque<(u64, Delay)>);

impl Delays {
    /// Adds a window whose last result has the number `next - 1`.
    pub fn push(&mut self, next: u64, delay: Delay) {
        self.0.push_back((next, delay));
    }

    /// Takes the next window whose results are all in the feed, that is, have numbers below
    /// `passed`.
    pub fn take(&mut self, passed: u64) -> Option<Delay> {
        self.0.pop_front_if(|(next, _)| *next <= passed).map(|(_, delay)| delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN_NS: i64 = 1_795_291_200_000_000_000;
    const END_NS: i64 = BEGIN_NS + 10_000_000_000;

    /// Returns the time that is this many milliseconds after the start by each clock.
    fn at(engine_ms: u64, clock_ms: i64) -> Now {
        let since_start = EngineTime::at(Duration::from_millis(engine_ms));
        Now { since_start, unix_ns: BEGIN_NS + clock_ms * 1_000_000 }
    }

    fn definition(lateness_ns: Option<i64>, due_ms: i64) -> Definition {
        Definition {
            name: "t".to_owned(),
            selection: String::new(),
            group_by: Vec::new(),
            emit: Vec::new(),
            samples: 0,
            window_s: 10,
            lateness_ns,
            due_ns: Some(due_ms * 1_000_000),
            priority: 0,
            groups_max: 10,
        }
    }

    fn begin(definition: &Definition, is_live: bool, now: Now) -> Delay {
        let updated = EngineTime::at(Duration::from_millis(9_000));
        Delay::begin(Some(0), definition, &Ending { end_ns: END_NS, is_live, updated }, now)
    }

    #[test]
    fn a_window_by_arrival_counts_from_its_end_by_the_clock() {
        let delay = begin(&definition(None, 300), true, at(10_100, 10_100));
        // The clock is set while the results are produced.
        assert_eq!(delay.until(at(10_250, 99_000)), Duration::from_millis(250));
        assert!(!delay.is_overdue(at(10_300, 0)) && delay.is_overdue(at(10_301, 0)));
    }

    #[test]
    fn a_clock_that_is_set_forward_is_no_delay() {
        let delay = begin(&definition(None, 300), true, at(9_500, 3_600_000));
        assert_eq!(delay.until(at(9_600, 3_600_100)), Duration::from_millis(600));
    }

    #[test]
    fn a_window_that_ended_while_the_agent_was_down_counts_from_its_end() {
        let delay = begin(&definition(None, 300), false, at(9_000, 90_000));
        assert_eq!(delay.until(at(9_001, 90_001)), Duration::from_millis(80_001));
        assert!(delay.is_overdue(at(9_000, 90_000)));
    }

    #[test]
    fn a_window_by_the_time_of_events_counts_from_when_it_ended() {
        let delay = begin(&definition(Some(0), 2_000), true, at(12_050, 12_050));
        assert_eq!(delay.until(at(13_000, 13_000)), Duration::from_millis(950));
        assert!(!delay.is_overdue(at(13_050, 13_050)), "it has a second");
        assert!(delay.is_overdue(at(13_051, 13_051)));
        let early = begin(&definition(Some(0), 5_000), true, at(11_000, 11_000));
        assert!(!early.is_overdue(at(15_000, 15_000)) && early.is_overdue(at(15_001, 15_001)));
        let past = begin(&definition(Some(0), 2_000), false, at(90_000, 90_000));
        assert!(!past.is_overdue(at(99_000, 99_000)), "of a log that was written before");
    }

    #[test]
    fn windows_are_taken_once_the_feed_has_all_their_results() {
        let mut delays = Delays::default();
        let delay = begin(&definition(None, 300), true, at(10_000, 10_000));
        [3, 3, 7].into_iter().for_each(|next| delays.push(next, delay));
        let mut taken = |passed| std::iter::from_fn(|| delays.take(passed)).count();
        assert_eq!([2, 3, 6, 7, 8].map(&mut taken), [0, 2, 0, 1, 0]);
    }
}
