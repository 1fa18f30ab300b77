//! Schedules folder walks, and checks of changed names.

use super::{UNWATCHED_WALK_INTERVAL, WALK_INTERVAL, WALK_PAUSE};
use millstream_model::EngineTime;
use std::time::Duration;

/// The schedule for directory walks, and for checks of changed names.
pub(super) struct Walks {
    /// Time at which the last walk started.
    last: Option<EngineTime>,
    is_requested: bool,
    /// Minimum time until the next walk, depending on the cost of the last one.
    pause: Duration,
    /// Whether inotify reports changes in every folder.
    is_watched: bool,
    /// Whether the search for files renamed or compressed while the agent was down is complete.
    is_searched: bool,
    /// Whether names have changed since the last check.
    is_check_requested: bool,
    /// Time at which the last check started.
    checked: Option<EngineTime>,
    /// Minimum time until the next check, depending on the cost of the last one.
    check_pause: Duration,
}

impl Walks {
    /// Creates a schedule in which a walk is due.
    pub(super) fn new() -> Walks {
        Walks {
            last: None,
            is_requested: true,
            pause: WALK_PAUSE,
            is_watched: false,
            is_searched: false,
            is_check_requested: false,
            checked: None,
            check_pause: Duration::ZERO,
        }
    }

    /// Returns whether a walk is due.
    pub(super) fn is_due(&self, now: EngineTime) -> bool {
        let Some(last) = self.last else { return true };
        let is_complete = self.is_watched && self.is_searched;
        let interval = if is_complete { WALK_INTERVAL } else { UNWATCHED_WALK_INTERVAL };
        now - last >= if self.is_requested { self.pause } else { interval.max(self.pause) }
    }

    /// Requests a walk after the pause.
    pub(super) fn request(&mut self) {
        self.is_requested = true;
    }

    /// Records the start of a walk; returns whether it is the first walk.
    pub(super) fn begin(&mut self, now: EngineTime) -> bool {
        self.last.replace(now).is_none()
    }

    /// Sets the minimum time until the next walk.
    pub(super) fn set_pause(&mut self, pause: Duration) {
        self.pause = pause.max(WALK_PAUSE);
    }

    /// Records whether every folder is watched now, and was watched before. A second walk is
    /// requested to find names that appeared before the watches were added.
    pub(super) fn set_watched(&mut self, is_watched: bool, was_watched: bool) {
        self.is_watched = is_watched;
        self.is_requested = is_watched && !was_watched;
    }

    /// Returns whether the search for files renamed or compressed while the agent was down is
    /// complete.
    pub(super) fn is_searched(&self) -> bool {
        self.is_searched
    }

    /// Records that the search for renamed and compressed files is complete.
    pub(super) fn note_searched(&mut self) {
        self.is_searched = true;
    }

    /// Makes the next walk repeat the search for renamed and compressed files.
    pub(super) fn search_again(&mut self) {
        self.is_searched = false;
    }

    /// Requests a check of changed names after the pause.
    pub(super) fn request_check(&mut self) {
        self.is_check_requested = true;
    }

    /// Returns whether a check of changed names is due. If `has_incomplete`, some files are checked
    /// again every second.
    pub(super) fn is_check_due(&self, now: EngineTime, has_incomplete: bool) -> bool {
        let since = self.checked.map_or(Duration::MAX, |checked| now - checked);
        let is_waiting = has_incomplete && since >= UNWATCHED_WALK_INTERVAL;
        (self.is_check_requested || is_waiting) && since >= self.check_pause
    }

    /// Records that a check or a walk takes all changed names.
    pub(super) fn begin_check(&mut self) {
        self.is_check_requested = false;
    }

    /// Records when a check started, and sets the minimum time until the next one.
    pub(super) fn end_check(&mut self, began: EngineTime, pause: Duration) {
        self.checked = Some(began);
        self.check_pause = pause;
    }

    /// Returns the time at which the last walk started.
    #[cfg(test)]
    pub(super) fn last(&self) -> Option<EngineTime> {
        self.last
    }

    /// Returns the minimum time until the next walk.
    #[cfg(test)]
    pub(super) fn pause(&self) -> Duration {
        self.pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_that_takes_long_delays_the_next_whatever_is_watched() {
        let begun = EngineTime::ZERO;
        let pause = UNWATCHED_WALK_INTERVAL * 13;
        for is_requested in [false, true] {
            let mut walks = Walks::new();
            walks.begin(begun);
            walks.set_watched(false, false);
            walks.set_pause(pause);
            if is_requested {
                walks.request();
            }
            assert!(!walks.is_due(begun + pause / 2));
            assert!(walks.is_due(begun + pause));
        }
    }
}
