//! The progress of a run on standard error.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Interval between progress updates: on a terminal, and elsewhere.
const SHOW_EVERY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));

/// Progress on standard error: a line that changes on a terminal, a new line each time elsewhere.
pub struct Progress {
    is_terminal: bool,
    shown: Instant,
    is_open: bool,
}

impl Progress {
    /// Creates progress that is first shown after an interval.
    pub fn new() -> Progress {
        Progress {
            is_terminal: std::io::stderr().is_terminal(),
            shown: Instant::now(),
            is_open: false,
        }
    }

    /// Shows the state if it is time.
    pub fn show(&mut self, state: impl FnOnce() -> String) {
        let every = if self.is_terminal { SHOW_EVERY.0 } else { SHOW_EVERY.1 };
        if self.shown.elapsed() < every {
            return;
        }
        (self.shown, self.is_open) = (Instant::now(), self.is_terminal);
        let (state, mut out) = (state(), std::io::stderr());
        // A closed standard error must not end the command.
        let _ =
            if self.is_terminal { write!(out, "\r{state}   ") } else { writeln!(out, "{state}") };
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_open {
            let _ = writeln!(std::io::stderr());
        }
    }
}
