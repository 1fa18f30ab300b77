//! Counts of one receiver thread, added to the component's counters once per round.

use millstream_model::Counters;
use millstream_points::{Fault, Note};
use millstream_profiler::Entered;
use std::sync::Arc;

/// Minimum time in nanoseconds between two log lines about rejected points with the same reason.
/// The wall clock measures this time. If the clock is set forward or back, the next line may be
/// logged earlier.
const LOG_INTERVAL_NS: u64 = 1_000_000_000;

/// Maximum number of bytes to log from a rejected line.
const LOGGED_BYTES_MAX: usize = 100;

/// The counts of one round, which is a set of messages that were received together.
#[derive(Default)]
pub struct RoundCounts {
    source: String,
    counters: Arc<Counters>,
    /// Number of points, events and service checks, including rejected ones.
    pub points: u64,
    /// Number of events and service checks that were dropped because the queue was full.
    pub log_events_lost: u64,
    rejected: [u64; Fault::ALL.len()],
    notes: [u64; Note::ALL.len()],
    /// Whether any of `rejected` or `notes` is not zero.
    has_some: bool,
    /// Errors from the round to log.
    logged: Vec<(Fault, String)>,
    /// By error: arrival time of the last logged message.
    logged_at: [Option<u64>; Fault::ALL.len()],
    arrived: u64,
}

impl RoundCounts {
    /// Creates zero counts. `source` is the id of the component.
    pub fn new(source: String, counters: Arc<Counters>) -> RoundCounts {
        RoundCounts { source, counters, ..RoundCounts::default() }
    }

    /// Counts a rejected point or line.
    pub fn reject(&mut self, fault: Fault, text: &[u8]) {
        self.points += 1;
        self.rejected[fault as usize] += 1;
        self.has_some = true;
        let logged_at = &mut self.logged_at[fault as usize];
        if logged_at.is_none_or(|at| self.arrived.abs_diff(at) >= LOG_INTERVAL_NS) {
            *logged_at = Some(self.arrived);
            let start = &text[..text.len().min(LOGGED_BYTES_MAX)];
            self.logged.push((fault, start.escape_ascii().to_string()));
        }
    }

    /// Counts an accepted deviation from the protocol.
    pub fn note(&mut self, note: Note) {
        self.notes[note as usize] += 1;
        self.has_some = true;
    }

    /// Starts a round that arrived at this time, in nanoseconds since 1970.
    pub fn begin_round(&mut self, arrived: u64) {
        self.arrived = arrived;
    }

    /// Makes the component the root of the thread's samples in a profile.
    pub fn enter(&self) -> Entered {
        self.counters.enter()
    }

    /// Adds the counts of a round with this many bytes to the counters, and resets the counts.
    pub fn end_round(&mut self, bytes: u64) {
        self.counters.received(std::mem::take(&mut self.points), bytes);
        if std::mem::take(&mut self.has_some) {
            self.report_exceptions();
        }
        if self.log_events_lost > 0 {
            self.counters.dropped("too_many_events", std::mem::take(&mut self.log_events_lost));
        }
    }

    #[cold]
    fn report_exceptions(&mut self) {
        for (fault, count) in Fault::ALL.iter().zip(&mut self.rejected) {
            self.counters.dropped(fault.name(), std::mem::take(count));
        }
        for (note, count) in Note::ALL.iter().zip(&mut self.notes) {
            self.counters.noted(note.name(), std::mem::take(count));
        }
        for (fault, text) in self.logged.drain(..) {
            log::warn!("source {}: {}: \"{text}\"; dropped and counted", self.source, fault.name());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// Returns the number of invalid lines that are logged if they arrive individually at these
    /// times in seconds.
    fn logged(arrivals: &[u64]) -> usize {
        let mut round_counts = RoundCounts::new("dogs".into(), Arc::default());
        let mut logged = 0;
        for arrived in arrivals {
            round_counts.begin_round(arrived * S);
            round_counts.reject(Fault::ALL[0], b"x");
            logged += round_counts.logged.len();
            round_counts.end_round(1);
        }
        logged
    }

    #[test]
    fn one_invalid_line_per_second_and_reason_is_logged() {
        assert_eq!(logged(&[5000, 5000, 5000, 5001, 5001, 5002]), 3);
        let mut round_counts = RoundCounts::new("dogs".into(), Arc::default());
        round_counts.begin_round(S);
        Fault::ALL.iter().for_each(|fault| round_counts.reject(*fault, b"x"));
        assert_eq!(round_counts.logged.len(), Fault::ALL.len());
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_stop_logging() {
        assert_eq!(logged(&[5000, 1400, 1400, 1401]), 3);
    }
}
