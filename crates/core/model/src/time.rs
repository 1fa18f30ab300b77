//! Time as it is handed to components: given, never read.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// One reading of both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Monotonic time since the engine was built: what deadlines and intervals are counted in.
    pub since_start: Duration,
    /// Wall clock in nanoseconds since 1970: what events are stamped with. It may step.
    pub unix_ns: i64,
}

impl Now {
    /// Reads the wall clock; `since_start` comes from the caller's monotonic clock.
    pub fn read(since_start: Duration) -> Now {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { since_start, unix_ns: i64::try_from(unix.as_nanos()).unwrap_or(i64::MAX) }
    }
}
