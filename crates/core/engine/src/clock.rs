//! An engine's clocks.

use millstream_model::{EngineTime, Now};
use tokio::time::Instant;

/// Source of wall-clock time.
#[derive(Clone, Copy, Debug)]
pub enum Clock {
    /// The system clock.
    System,
    /// Nanoseconds since 1970 at the start, plus the time that has passed since; for simulations.
    Simulated(i64),
}

/// An engine's wall clock and its monotonic clock, which starts at zero with the engine.
#[derive(Clone, Copy)]
pub(crate) struct EngineClock {
    clock: Clock,
    started: Instant,
}

impl EngineClock {
    /// Starts the monotonic clock.
    pub fn start(clock: Clock) -> EngineClock {
        EngineClock { clock, started: Instant::now() }
    }

    /// Reads both clocks.
    pub fn now(self) -> Now {
        let since_start = self.engine_time();
        match self.clock {
            Clock::System => Now::read(since_start),
            Clock::Simulated(base) => {
                Now { since_start, unix_ns: base + since_start.uptime().as_nanos() as i64 }
            }
        }
    }

    /// Reads the monotonic clock.
    pub fn engine_time(self) -> EngineTime {
        EngineTime::at(self.started.elapsed())
    }
}
