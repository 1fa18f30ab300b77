//! Wall-clock time, as the engine reads it.

use millstream_model::{EngineTime, Now};

/// Source of wall-clock time.
#[derive(Clone, Copy, Debug)]
pub enum Clock {
    /// The system clock.
    System,
    /// Nanoseconds since 1970 at the start, plus the time since; for simulations.
    Simulated(i64),
}

impl Clock {
    /// Reads the clock, given the monotonic time.
    pub(crate) fn now(self, since_start: EngineTime) -> Now {
        match self {
            Clock::System => Now::read(since_start),
            Clock::Simulated(base) => {
                Now { since_start, unix_ns: base + since_start.uptime().as_nanos() as i64 }
            }
        }
    }
}
