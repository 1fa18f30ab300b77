//! Computes the number of datagrams that are due. The time is an argument.

/// Maximum delay in seconds that a sender makes up for. After a longer delay it skips the missed
/// datagrams, because the load would otherwise be a burst.
const BEHIND_S: f64 = 0.001;

/// The schedule of a load.
pub struct Pace {
    /// Datagrams per second; infinite to send as fast as possible.
    per_s: f64,
    /// Minimum number of datagrams per call.
    burst: usize,
    /// Time at which the first datagram was due, moved by the time of the skipped datagrams.
    origin_s: f64,
    sent: u64,
}

impl Pace {
    /// Schedules `per_s` datagrams per second, at least `burst` per call; 0 sends as fast as
    /// possible.
    pub fn new(per_s: f64, burst: usize) -> Self {
        let per_s = if per_s > 0.0 { per_s } else { f64::INFINITY };
        Pace { per_s, burst: burst.max(1), origin_s: 0.0, sent: 0 }
    }

    /// Returns how many datagrams are due at `now_s`.
    pub fn due(&mut self, now_s: f64) -> usize {
        if self.per_s.is_infinite() {
            return usize::MAX;
        }
        let room = self.per_s * BEHIND_S + self.burst as f64;
        let due = (now_s - self.origin_s) * self.per_s - self.sent as f64 + 1.0;
        if due > room {
            self.origin_s += (due - room) / self.per_s;
        }
        let due = due.min(room) as usize;
        if due < self.burst { 0 } else { due }
    }

    /// Returns the time at which the next datagrams are due.
    pub fn next_s(&self) -> f64 {
        self.origin_s + (self.sent as f64 + self.burst as f64 - 1.0) / self.per_s
    }

    /// Records that `count` datagrams were sent.
    pub fn sent(&mut self, count: usize) {
        self.sent += count as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_comes_to_the_rate() {
        let mut pace = Pace::new(1000.0, 1);
        let mut sent = 0;
        for tick in 0..100_000 {
            let due = pace.due(f64::from(tick) / 100_000.0);
            pace.sent(due);
            sent += due;
        }
        assert!((999..=1001).contains(&sent), "{sent}");
    }

    #[test]
    fn a_pause_is_not_made_up_for() {
        let mut pace = Pace::new(1_000_000.0, 1);
        let due = pace.due(1.0);
        assert_eq!(due, 1001);
        pace.sent(due);
        assert!(pace.due(1.0) <= 1);
        assert!((1.0..1.001).contains(&pace.next_s()), "{}", pace.next_s());
    }

    #[test]
    fn a_burst_waits_until_it_is_whole() {
        let mut pace = Pace::new(1000.0, 100);
        assert_eq!(pace.due(0.05), 0);
        assert!((0.0985..0.0995).contains(&pace.next_s()));
        assert!((100..=101).contains(&pace.due(0.1)));
    }
}
