//! Several addresses of one endpoint, and which of them to use next.

use millstream_model::Backoff;
use std::time::Duration;
use tokio::time::Instant;

/// Up to one part of what an endpoint asked for is waited beyond it.
const ASKED_PARTS: u32 = 3;

/// How long an endpoint that failed is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// As long as its backoff says.
    Backoff,
    /// What it asked for, and up to a third more: it tells many hosts the same. Never less than the
    /// backoff, for it may ask for nothing at all.
    Asked(Duration),
    /// Exactly so long.
    Fixed(Duration),
}

/// Which endpoints are left alone for a while, and whose turn it is. A function of the given time.
pub struct Endpoints {
    health: Vec<Health>,
    turn: usize,
}

#[derive(Clone, Default)]
struct Health {
    backoff: Backoff,
    /// Left alone until then.
    until: Option<Instant>,
}

impl Endpoints {
    /// `count` endpoints, at least one, all taken to be well. The first turn is that of `first`,
    /// modulo their number: lanes that begin at different ones share the load.
    pub fn new(count: usize, first: usize) -> Endpoints {
        let count = count.max(1);
        Endpoints { health: vec![Health::default(); count], turn: first % count }
    }

    /// The next one to use, in turn, of those that are not left alone.
    ///
    /// # Errors
    ///
    /// When the first of them is to be tried again, if all are left alone.
    pub fn choose(&mut self, now: Instant) -> Result<usize, Instant> {
        let count = self.health.len();
        let is_well = |index: &usize| self.health[*index].until.is_none_or(|until| until <= now);
        if let Some(index) = (0..count).map(|step| (self.turn + step) % count).find(is_well) {
            self.turn = (index + 1) % count;
            return Ok(index);
        }
        Err(self.next_at(now))
    }

    /// When the next one may be used: `now` if one is well.
    pub fn next_at(&self, now: Instant) -> Instant {
        self.health.iter().map(|health| health.until.unwrap_or(now).max(now)).min().unwrap_or(now)
    }

    /// This one has answered as it should.
    pub fn well(&mut self, index: usize) {
        self.health[index] = Health::default();
    }

    /// This one has failed: it is left alone for a pause, given a random number.
    pub fn failed(&mut self, index: usize, pause: Pause, random: u32, now: Instant) {
        let health = &mut self.health[index];
        let backoff = health.backoff.next(random);
        let part = f64::from(random) / f64::from(u32::MAX);
        let pause = match pause {
            Pause::Backoff => backoff,
            Pause::Asked(asked) => (asked + (asked / ASKED_PARTS).mul_f64(part)).max(backoff),
            Pause::Fixed(pause) => pause,
        };
        health.until = Some(now + pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn the_healthy_ones_are_used_in_turn_and_one_that_failed_is_tried_again() {
        let now = Instant::now();
        let mut three = Endpoints::new(3, 4);
        let next = |endpoints: &mut Endpoints, now| endpoints.choose(now).unwrap();
        assert_eq!([(); 4].map(|()| next(&mut three, now)), [1, 2, 0, 1]);
        three.failed(2, Pause::Asked(5 * S), 0, now);
        assert_eq!([(); 3].map(|()| next(&mut three, now)), [0, 1, 0]);
        let later = now + 5 * S;
        assert_eq!([(); 3].map(|()| next(&mut three, later)), [1, 2, 0]);
    }

    #[test]
    fn with_all_left_alone_it_says_when_the_first_may_be_tried() {
        let now = Instant::now();
        let mut two = Endpoints::new(2, 0);
        two.failed(0, Pause::Asked(9 * S), 0, now);
        two.failed(1, Pause::Fixed(4 * S), u32::MAX, now);
        assert_eq!(two.choose(now), Err(now + 4 * S));
        assert_eq!(two.choose(now + 4 * S), Ok(1));
        two.well(1);
        assert_eq!([two.choose(now), two.choose(now)], [Ok(1), Ok(1)]);
    }

    #[test]
    fn the_pause_of_each_grows_by_itself_and_ends_with_a_success() {
        let now = Instant::now();
        let mut one = Endpoints::new(1, 0);
        let mut pauses = Vec::new();
        for _ in 0..3 {
            one.failed(0, Pause::Backoff, u32::MAX, now);
            pauses.push(one.choose(now).unwrap_err() - now);
        }
        assert_eq!(pauses, [100, 200, 400].map(Duration::from_millis));
        one.well(0);
        one.failed(0, Pause::Backoff, u32::MAX, now);
        assert_eq!(one.choose(now), Err(now + Duration::from_millis(100)));
    }

    #[test]
    fn what_is_asked_for_is_waited_and_some_more_but_no_less_than_the_backoff() {
        let now = Instant::now();
        let mut one = Endpoints::new(1, 0);
        let mut pause = |asked, random| {
            one.failed(0, Pause::Asked(asked), random, now);
            one.next_at(now) - now
        };
        assert_eq!([pause(30 * S, 0), pause(30 * S, u32::MAX)], [30 * S, 40 * S]);
        let none: Vec<_> = (0..3).map(|_| pause(Duration::ZERO, u32::MAX)).collect();
        assert_eq!(none, [400, 800, 1600].map(Duration::from_millis), "no hot loop");
    }
}
