//! Selects the next address to connect to, and the time of the attempt.

use millstream_transport::tcp::Address;
use millstream_transport::{Endpoints, Pause};
use std::time::Duration;
use tokio::time::Instant;

/// Minimum interval between a lane's connection attempts to any address. It limits the load on an
/// endpoint that accepts connections and closes them immediately.
const CONNECT_EVERY: Duration = Duration::from_millis(100);

/// The addresses of one lane, with their health.
pub struct Targets {
    addresses: Vec<Address>,
    endpoints: Endpoints,
    /// Index of the address in use.
    current: usize,
    /// Index of the address to try next, and the time of the attempt, if they are decided.
    planned: Option<(usize, Instant)>,
    /// Time of the last attempt.
    tried: Option<Instant>,
}

impl Targets {
    /// Uses the addresses round-robin, starting at index `first`, so that lanes are distributed
    /// over the addresses.
    pub fn new(addresses: Vec<Address>, first: usize) -> Targets {
        let endpoints = Endpoints::new(addresses.len(), first);
        Targets { addresses, endpoints, current: 0, planned: None, tried: None }
    }

    /// Returns the next address, and the time to connect to it; [`None`] if there are no addresses.
    pub fn next(&mut self, now: Instant) -> Option<(Address, Instant)> {
        let (index, when) = self.planned.take().unwrap_or_else(|| self.plan(now));
        let when = when.max(now);
        (self.current, self.tried) = (index, Some(when));
        Some((self.addresses.get(index)?.clone(), when))
    }

    /// Selects an address that is healthy now, otherwise the first one that may be retried.
    fn plan(&mut self, now: Instant) -> (usize, Instant) {
        let soonest = self.tried.map_or(now, |tried| now.max(tried + CONNECT_EVERY));
        match self.endpoints.choose(soonest) {
            Ok(index) => (index, soonest),
            Err(when) => (self.endpoints.choose(when).unwrap_or(self.current), when),
        }
    }

    /// Marks the current address as failed. Returns the time until the next attempt, given a random
    /// number.
    pub fn failed(&mut self, now: Instant, random: u32) -> Duration {
        self.endpoints.mark_failed(self.current, Pause::Backoff, random, now);
        let planned = self.plan(now);
        self.planned = Some(planned);
        planned.1.saturating_duration_since(now)
    }

    /// Allows failed addresses to be retried immediately.
    pub fn end_pauses(&mut self) {
        self.endpoints.end_pauses();
        self.planned = None;
    }

    /// Marks the current address as healthy.
    pub fn succeeded(&mut self) {
        self.endpoints.mark_healthy(self.current);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> Address {
        Address { host: "a".into(), port }
    }

    #[test]
    fn an_ended_pause_leaves_the_interval_of_attempts() {
        let now = Instant::now();
        let mut targets = Targets::new(vec![address(1)], 0);
        targets.next(now);
        let pauses: Vec<_> = (0..9).map(|_| targets.failed(now, u32::MAX)).collect();
        assert!(pauses[8] > 9 * CONNECT_EVERY, "{pauses:?}");
        targets.end_pauses();
        assert_eq!(targets.next(now), Some((address(1), now + CONNECT_EVERY)));
    }

    #[test]
    fn the_next_address_is_used_when_one_fails() {
        let now = Instant::now();
        let mut targets = Targets::new(vec![address(1), address(2)], 0);
        assert_eq!(targets.next(now), Some((address(1), now)));
        assert_eq!(targets.failed(now, u32::MAX), CONNECT_EVERY, "the other one is healthy");
        assert_eq!(targets.next(now), Some((address(2), now + CONNECT_EVERY)));
        targets.failed(now + CONNECT_EVERY, u32::MAX);
        let later = now + 2 * CONNECT_EVERY;
        assert_eq!(targets.next(later), Some((address(1), later)));
    }

    #[test]
    fn pauses_grow_while_all_attempts_fail_and_reset_on_success() {
        let mut now = Instant::now();
        let mut targets = Targets::new(vec![address(1)], 7);
        for step in [100, 100, 200, 400, 800] {
            now = targets.next(now).unwrap().1;
            assert_eq!(targets.failed(now, u32::MAX), Duration::from_millis(step));
        }
        now = targets.next(now).unwrap().1;
        targets.succeeded();
        assert_eq!(targets.failed(now, u32::MAX), Duration::from_millis(100));
        assert!(Targets::new(Vec::new(), 0).next(now).is_none());
    }

    #[test]
    fn the_connection_rate_is_bounded_whatever_the_jitter() {
        for random in [0, u32::MAX / 2, u32::MAX] {
            let mut now = Instant::now();
            let mut targets = Targets::new(vec![address(1), address(2)], 1);
            targets.next(now);
            for _ in 0..50 {
                targets.failed(now, random);
                let next = targets.next(now).unwrap().1;
                assert!(next >= now + CONNECT_EVERY);
                now = next;
            }
        }
    }
}
