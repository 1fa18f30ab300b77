//! `millstream generate`: load for tests and benchmarks.

mod logs;
mod metrics;

pub use logs::{LogsArgs, logs};
pub use metrics::{HELP as METRICS_HELP, MetricsArgs, metrics};

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// Tick of a rate-limited load; each tick is one append to the file, or one burst.
const TICK: Duration = Duration::from_millis(10);

/// Returns the events due after `elapsed`, including the events of the first tick.
fn due(rate: u64, elapsed: Duration) -> u64 {
    ((elapsed + TICK).as_secs_f64() * rate as f64) as u64
}

/// Shows progress on a terminal.
struct Progress {
    unit: &'static str,
    count: Option<u64>,
    shown: Option<Instant>,
    wanted: bool,
}

impl Progress {
    /// Creates the display for `count` events called `unit`. `is_seen` says whether the events go
    /// to the terminal.
    fn new(unit: &'static str, count: Option<u64>, is_seen: bool) -> Progress {
        Progress { unit, count, shown: None, wanted: io::stderr().is_terminal() && !is_seen }
    }

    fn show(&mut self, made: u64, elapsed: Duration) {
        let due = self.shown.is_none_or(|shown| shown.elapsed() >= Duration::from_millis(500));
        if !self.wanted || !due {
            return;
        }
        self.shown = Some(Instant::now());
        let rate = made as f64 / elapsed.as_secs_f64().max(1e-9);
        let left = self
            .count
            .map_or(String::new(), |count| format!(", {:.0} s left", (count - made) as f64 / rate));
        let unit = self.unit;
        eprint!("\r{made} {unit}, {rate:.0} {unit}/s{left}   ");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            eprintln!();
        }
    }
}
