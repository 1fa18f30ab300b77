//! The number of requests that may be in flight: as many as the endpoint accepts without slowing
//! down.

use std::time::Duration;
use tokio::time::Instant;

/// Multiple of the fastest response time above which a response no longer increases the limit.
const SLOW: u32 = 2;

/// Multiple of the fastest response time above which a response reduces the limit.
const SLOWER: u32 = 4;

/// Delay that is tolerated in addition to these multiples, because scheduling on a busy host can
/// cause it.
const NOISE: Duration = Duration::from_millis(20);

/// Each response to a large request moves the fastest response time by 1/`FORGET` of the
/// difference.
const FORGET: u32 = 64;

/// The limit of requests in flight. It grows by one with each window of responses, and is halved
/// when the endpoint is overloaded (AIMD, as in TCP). Time is an argument.
pub struct Concurrency {
    max: f64,
    limit: f64,
    /// Time when the limit was last halved.
    halved_at: Option<Instant>,
    fastest: Option<Duration>,
}

impl Concurrency {
    /// Creates a limit of one that grows up to `max`.
    pub fn new(max: usize) -> Concurrency {
        Concurrency { max: max.max(1) as f64, limit: 1.0, halved_at: None, fastest: None }
    }

    /// Returns the limit.
    pub fn limit(&self) -> usize {
        self.limit as usize
    }

    /// Records a response that arrived after `latency`. The latency counts only for a large
    /// request, because the latency of a small one says little about the endpoint.
    pub fn responded(&mut self, latency: Duration, is_large: bool) {
        let step = 1.0 / self.limit;
        if !is_large {
            self.limit = (self.limit + step).min(self.max);
            return;
        }
        let fastest = self.fastest.unwrap_or(latency).min(latency);
        if latency > fastest * SLOWER + NOISE {
            self.limit = (self.limit - step).max(1.0);
        } else if latency <= fastest * SLOW + NOISE {
            self.limit = (self.limit + step).min(self.max);
        }
        self.fastest = Some(fastest + (latency - fastest) / FORGET);
    }

    /// Records that the endpoint was overloaded when it processed a request sent at `started`.
    /// Halves the limit, but only once for all requests that were in flight together.
    pub fn overloaded(&mut self, started: Instant, now: Instant) {
        if self.halved_at.is_none_or(|halved_at| started >= halved_at) {
            self.limit = (self.limit / 2.0).max(1.0);
            self.halved_at = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn grows_by_one_per_window_up_to_the_maximum() {
        let mut concurrency = Concurrency::new(4);
        let mut limits = vec![concurrency.limit()];
        for _ in 0..12 {
            concurrency.responded(100 * MS, true);
            limits.push(concurrency.limit());
        }
        limits.dedup();
        assert_eq!(limits, [1, 2, 3, 4]);
    }

    #[test]
    fn is_halved_once_for_the_requests_of_a_window() {
        let (mut concurrency, now) = (Concurrency::new(8), Instant::now());
        (0..100).for_each(|_| concurrency.responded(MS, false));
        for late in 1..=8 {
            concurrency.overloaded(now, now + late * MS);
        }
        assert_eq!(concurrency.limit(), 4);
        for later in 1..=8 {
            let started = now + later * 100 * MS;
            concurrency.overloaded(started, started + MS);
        }
        assert_eq!(concurrency.limit(), 1);
    }

    #[test]
    fn rising_latency_ends_the_growth_and_then_lowers_the_limit() {
        let mut concurrency = Concurrency::new(8);
        (0..12).for_each(|_| concurrency.responded(100 * MS, true));
        let grown = concurrency.limit();
        (0..4).for_each(|_| concurrency.responded(300 * MS, true));
        assert_eq!(concurrency.limit(), grown, "slow");
        (0..12).for_each(|_| concurrency.responded(900 * MS, true));
        assert!(concurrency.limit() < grown, "slower");
        (0..600).for_each(|_| concurrency.responded(900 * MS, true));
        assert_eq!(concurrency.limit(), 8, "an endpoint that is always slow is not overloaded");
    }
}
