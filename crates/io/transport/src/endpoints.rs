//! Chooses among several addresses for one destination.

use millstream_model::Backoff;
use std::time::Duration;
use tokio::time::Instant;

/// Divisor for the jitter added to a requested pause: the jitter is up to a third of the pause.
const JITTER_DIVISOR: u32 = 3;

/// The pause after an endpoint fails, during which it is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// The endpoint's exponential backoff.
    Backoff,
    /// The delay that the endpoint asked for, plus jitter of up to a third, so that clients that
    /// were asked to wait equally long do not all retry at once. The pause is never shorter than
    /// the backoff, because the endpoint may ask for a delay of zero.
    Requested(Duration),
    /// Exactly this duration.
    Fixed(Duration),
}

/// The health of the endpoints, and the next one to use. The choices depend only on the arguments.
pub struct Endpoints {
    health: Vec<Health>,
    next: usize,
}

#[derive(Clone, Default)]
struct Health {
    backoff: Backoff,
    /// End of the pause during which the endpoint is skipped.
    until: Option<Instant>,
    /// Whether the endpoint requested the pause.
    is_requested: bool,
}

impl Endpoints {
    /// Creates `count` healthy endpoints, but at least one. The first choice is the endpoint
    /// `first` modulo `count`; lanes pass different values, so that the load is spread.
    pub fn new(count: usize, first: usize) -> Endpoints {
        let count = count.max(1);
        Endpoints { health: vec![Health::default(); count], next: first % count }
    }

    /// Returns the next healthy endpoint, round-robin.
    ///
    /// # Errors
    ///
    /// If no endpoint is healthy, returns the earliest time at which one may be retried.
    pub fn choose(&mut self, now: Instant) -> Result<usize, Instant> {
        let count = self.health.len();
        let is_healthy = |index: &usize| self.health[*index].until.is_none_or(|until| until <= now);
        if let Some(index) = (0..count).map(|step| (self.next + step) % count).find(is_healthy) {
            self.next = (index + 1) % count;
            return Ok(index);
        }
        Err(self.next_at(now))
    }

    /// Returns the earliest time at which an endpoint may be used: `now` if one is healthy.
    pub fn next_at(&self, now: Instant) -> Instant {
        self.health.iter().map(|health| health.until.unwrap_or(now).max(now)).min().unwrap_or(now)
    }

    /// Marks an endpoint as healthy.
    pub fn mark_healthy(&mut self, index: usize) {
        self.health[index] = Health::default();
    }

    /// Marks an endpoint as failed, so that it is skipped for a while. `random` determines the
    /// jitter.
    pub fn mark_failed(&mut self, index: usize, pause: Pause, random: u32, now: Instant) {
        let health = &mut self.health[index];
        let backoff = health.backoff.next(random);
        health.is_requested = matches!(pause, Pause::Requested(_));
        let jitter = f64::from(random) / f64::from(u32::MAX);
        let pause = match pause {
            Pause::Backoff => backoff,
            Pause::Requested(pause) => {
                (pause + (pause / JITTER_DIVISOR).mul_f64(jitter)).max(backoff)
            }
            Pause::Fixed(pause) => pause,
        };
        health.until = Some(now + pause);
    }

    /// Makes all endpoints available immediately and resets their backoff, except for endpoints
    /// that requested their pause.
    pub fn end_pauses(&mut self) {
        let ended = self.health.iter_mut().filter(|health| !health.is_requested);
        ended.for_each(|health| *health = Health::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn healthy_endpoints_rotate_and_failed_ones_return() {
        let now = Instant::now();
        let mut three = Endpoints::new(3, 4);
        let next = |endpoints: &mut Endpoints, now| endpoints.choose(now).unwrap();
        assert_eq!([(); 4].map(|()| next(&mut three, now)), [1, 2, 0, 1]);
        three.mark_failed(2, Pause::Requested(5 * S), 0, now);
        assert_eq!([(); 3].map(|()| next(&mut three, now)), [0, 1, 0]);
        let later = now + 5 * S;
        assert_eq!([(); 3].map(|()| next(&mut three, later)), [1, 2, 0]);
    }

    #[test]
    fn without_a_healthy_endpoint_returns_the_next_retry_time() {
        let now = Instant::now();
        let mut two = Endpoints::new(2, 0);
        two.mark_failed(0, Pause::Requested(9 * S), 0, now);
        two.mark_failed(1, Pause::Fixed(4 * S), u32::MAX, now);
        assert_eq!(two.choose(now), Err(now + 4 * S));
        assert_eq!(two.choose(now + 4 * S), Ok(1));
        two.mark_healthy(1);
        assert_eq!([two.choose(now), two.choose(now)], [Ok(1), Ok(1)]);
    }

    #[test]
    fn backoff_grows_and_a_success_resets_it() {
        let now = Instant::now();
        let mut one = Endpoints::new(1, 0);
        let mut pauses = Vec::new();
        for _ in 0..3 {
            one.mark_failed(0, Pause::Backoff, u32::MAX, now);
            pauses.push(one.choose(now).unwrap_err() - now);
        }
        assert_eq!(pauses, [100, 100, 200].map(Duration::from_millis));
        one.mark_healthy(0);
        one.mark_failed(0, Pause::Backoff, u32::MAX, now);
        assert_eq!(one.choose(now), Err(now + Duration::from_millis(100)));
    }

    #[test]
    fn pauses_end_but_for_requested_ones() {
        let now = Instant::now();
        let mut three = Endpoints::new(3, 0);
        three.mark_failed(0, Pause::Requested(9 * S), 0, now);
        three.mark_failed(1, Pause::Fixed(4 * S), 0, now);
        (0..9).for_each(|_| three.mark_failed(2, Pause::Backoff, u32::MAX, now));
        three.end_pauses();
        assert_eq!([(); 3].map(|()| three.choose(now)), [1, 2, 1].map(Ok));
        three.mark_failed(1, Pause::Backoff, u32::MAX, now);
        three.mark_failed(2, Pause::Backoff, u32::MAX, now);
        assert_eq!(three.choose(now), Err(now + Duration::from_millis(100)), "it starts over");
    }

    #[test]
    fn a_requested_pause_gets_jitter_and_at_least_the_backoff() {
        let now = Instant::now();
        let mut one = Endpoints::new(1, 0);
        let mut pause = |requested, random| {
            one.mark_failed(0, Pause::Requested(requested), random, now);
            one.next_at(now) - now
        };
        assert_eq!([pause(30 * S, 0), pause(30 * S, u32::MAX)], [30 * S, 40 * S]);
        // The previous backoffs were 25 and 100 ms.
        let none: Vec<_> = (0..3).map(|_| pause(Duration::ZERO, u32::MAX)).collect();
        assert_eq!(none, [125, 250, 500].map(Duration::from_millis), "no hot loop");
    }
}
