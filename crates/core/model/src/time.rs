//! The current time, which components receive as an argument and never read themselves.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A point on the engine's monotonic clock, which begins when the engine is built. A length of time
/// is a [`Duration`].
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EngineTime(Duration);

impl EngineTime {
    /// The time at which the engine was built.
    pub const ZERO: EngineTime = EngineTime(Duration::ZERO);

    /// A time that never comes.
    pub const MAX: EngineTime = EngineTime(Duration::MAX);

    /// Creates the time at which the engine has been up for `uptime`.
    pub const fn at(uptime: Duration) -> EngineTime {
        EngineTime(uptime)
    }

    /// Returns how long the engine has been up at this time.
    pub const fn uptime(self) -> Duration {
        self.0
    }
}

impl Add<Duration> for EngineTime {
    type Output = EngineTime;

    /// Returns the time `length` later, capped at [`EngineTime::MAX`].
    fn add(self, length: Duration) -> EngineTime {
        EngineTime(self.0.saturating_add(length))
    }
}

impl AddAssign<Duration> for EngineTime {
    fn add_assign(&mut self, length: Duration) {
        *self = *self + length;
    }
}

impl Sub for EngineTime {
    type Output = Duration;

    /// Returns the time between `earlier` and this time; zero if `earlier` is later.
    fn sub(self, earlier: EngineTime) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Debug for EngineTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Values of both clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Monotonic time, for deadlines and intervals.
    pub since_start: EngineTime,
    /// Wall clock in nanoseconds since 1970, for event timestamps. The wall clock may jump.
    pub unix_ns: i64,
}

impl Now {
    /// Reads the wall clock; `since_start` comes from the caller's monotonic clock.
    pub fn read(since_start: EngineTime) -> Now {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { since_start, unix_ns: i64::try_from(unix.as_nanos()).unwrap_or(i64::MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_differences_saturate() {
        let (second, time) = (Duration::from_secs(1), EngineTime::at(Duration::from_secs(5)));
        assert_eq!(time + second - time, second);
        assert_eq!(time - (time + second), Duration::ZERO);
        assert_eq!(time + Duration::MAX, EngineTime::MAX);
        assert_eq!(format!("{time:?}"), "5s");
    }
}
