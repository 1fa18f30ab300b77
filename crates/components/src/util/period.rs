//! Periods that are aligned to a wall clock, which may step. This module reads no clocks.

use millstream_model::{EngineTime, Now};
use std::time::Duration;

/// Inverse of the fraction by which a period may exceed its length in monotonic time. A longer
/// period would mean that the wall clock was set back, so the period ends.
const OVERDUE_PARTS: u32 = 8;

/// Maximum difference in seconds between a duration and the length that is reported as the exact
/// length, because a late poll must not change rates.
const JITTER_SECONDS: f64 = 0.05;

/// The periods of a source, aligned to multiples of their length since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Periods {
    length: Duration,
    begun: EngineTime,
    /// End of the current period on the wall clock, in nanoseconds since 1970.
    boundary_ns: i64,
}

/// A period that has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Period {
    /// Timestamp of the period's events: its end on the wall clock, in nanoseconds since 1970.
    pub end_ns: i64,
    /// Duration in seconds by the monotonic clock; positive.
    pub seconds: f64,
}

impl Periods {
    /// Starts periods of `length`, a whole number of seconds. The first period begins now and ends
    /// at the next boundary.
    pub fn new(length: Duration, now: Now) -> Periods {
        let mut periods = Periods { length, begun: now.since_start, boundary_ns: 0 };
        periods.boundary_ns = periods.aligned(now) + periods.length_ns();
        periods
    }

    fn length_ns(&self) -> i64 {
        self.length.as_nanos() as i64
    }

    /// Returns the last boundary at or before `now`.
    fn aligned(&self, now: Now) -> i64 {
        now.unix_ns.div_euclid(self.length_ns()) * self.length_ns()
    }

    /// Returns the end of the current period, in nanoseconds since 1970.
    pub fn boundary_ns(&self) -> i64 {
        self.boundary_ns
    }

    /// Returns the time until the period ends; zero if it has ended.
    pub fn left(&self, now: Now) -> Duration {
        let by_wall =
            Duration::from_nanos(self.boundary_ns.saturating_sub(now.unix_ns).max(0) as u64);
        let longest = self.length + self.length / OVERDUE_PARTS;
        by_wall.min(self.begun + longest - now.since_start)
    }

    /// Ends the period, whether it is due or not, and starts the next.
    pub fn end(&mut self, now: Now) -> Period {
        let is_due = now.unix_ns >= self.boundary_ns;
        // A period that ends early, or after the clock was set back, does not end at a boundary.
        let end_ns = if is_due { self.aligned(now) } else { now.unix_ns };
        let (length, lasted) = (self.length.as_secs_f64(), now.since_start - self.begun);
        let lasted = lasted.max(Duration::from_millis(1)).as_millis() as f64 / 1000.0;
        let is_whole = (lasted - length).abs() <= JITTER_SECONDS;
        *self = Periods::new(self.length, now);
        Period { end_ns, seconds: if is_whole { length } else { lasted } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    fn at(engine_ms: u64, unix_ms: i64) -> Now {
        let since_start = EngineTime::at(Duration::from_millis(engine_ms));
        Now { since_start, unix_ns: unix_ms * 1_000_000 }
    }

    fn ten() -> Periods {
        Periods::new(Duration::from_secs(10), at(0, 1_003_000))
    }

    #[test]
    fn periods_end_at_multiples_of_their_length() {
        let mut periods = ten();
        assert_eq!(periods.left(at(0, 1_003_000)), Duration::from_secs(7));
        assert_eq!(periods.left(at(6_999, 1_009_999)), Duration::from_millis(1));
        assert_eq!(periods.left(at(7_001, 1_010_001)), Duration::ZERO);
        assert_eq!(periods.end(at(7_001, 1_010_001)), Period { end_ns: 1_010 * S, seconds: 7.001 });
        assert_eq!(periods.left(at(7_001, 1_010_001)), Duration::from_millis(9_999));
        // A slightly late end is treated as exact.
        assert_eq!(periods.end(at(17_030, 1_020_030)), Period { end_ns: 1_020 * S, seconds: 10.0 });
    }

    #[test]
    fn a_late_period_reports_its_actual_length() {
        let mut periods = ten();
        periods.end(at(7_000, 1_010_000));
        assert_eq!(periods.end(at(42_000, 1_045_000)), Period { end_ns: 1_040 * S, seconds: 35.0 });
        assert_eq!(periods.left(at(42_000, 1_045_000)), Duration::from_secs(5));
    }

    #[test]
    fn a_clock_that_steps_forward_ends_the_period_once() {
        let mut periods = ten();
        assert_eq!(periods.left(at(2_000, 5_003_000)), Duration::ZERO);
        assert_eq!(periods.end(at(2_000, 5_003_000)), Period { end_ns: 5_000 * S, seconds: 2.0 });
        assert_eq!(periods.left(at(2_000, 5_003_000)), Duration::from_secs(7));
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_extend_the_period_forever() {
        let mut periods = ten();
        assert_eq!(periods.left(at(3_000, 6_000)), Duration::from_millis(8_250));
        assert_eq!(periods.left(at(11_250, 14_250)), Duration::ZERO);
        let ended = periods.end(at(11_250, 14_250));
        assert_eq!(ended, Period { end_ns: 14_250_000_000, seconds: 11.25 });
        assert_eq!(periods.left(at(11_250, 14_250)), Duration::from_millis(5_750));
    }

    #[test]
    fn a_period_that_is_ended_early_ends_now() {
        let mut periods = ten();
        assert_eq!(periods.end(at(0, 1_003_000)), Period { end_ns: 1_003 * S, seconds: 0.001 });
        assert_eq!(
            periods.end(at(500, 1_003_500)),
            Period { end_ns: 1_003_500_000_000, seconds: 0.5 }
        );
    }
}
