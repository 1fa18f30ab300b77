//! The current time, which components get as an argument and never read themselves.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A reading of both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Monotonic time since the engine was built, for deadlines and intervals.
    pub since_start: Duration,
    /// Wall clock in nanoseconds since 1970, for timestamps of events. It may step.
    pub unix_ns: i64,
}

impl Now {
    /// Reads the wall clock; `since_start` comes from the caller's monotonic clock.
    pub fn read(since_start: Duration) -> Now {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { since_start, unix_ns: i64::try_from(unix.as_nanos()).unwrap_or(i64::MAX) }
    }
}
