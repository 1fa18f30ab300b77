//! Several addresses of one far side, and which of them to use next.

use crate::backoff::Backoff;
use std::time::Duration;
use tokio::time::Instant;

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
    /// `count` endpoints, at least one, all taken to be well. The first turn is that of `first`, modulo
    /// their number: lanes that begin at different ones share the load.
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

    /// This one has failed: it is left alone for `pause`, or as long as its backoff says, given a random
    /// number.
    pub fn failed(&mut self, index: usize, pause: Option<Duration>, random: u32, now: Instant) {
        let health = &mut self.health[index];
        let backoff = health.backoff.next(random);
        health.until = Some(now + pause.unwrap_or(backoff));
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
        three.failed(2, Some(5 * S), 0, now);
        assert_eq!([(); 3].map(|()| next(&mut three, now)), [0, 1, 0]);
        let later = now + 5 * S;
        assert_eq!([(); 3].map(|()| next(&mut three, later)), [1, 2, 0]);
    }

    #[test]
    fn with_all_left_alone_it_says_when_the_first_may_be_tried() {
        let now = Instant::now();
        let mut two = Endpoints::new(2, 0);
        two.failed(0, Some(9 * S), 0, now);
        two.failed(1, Some(4 * S), 0, now);
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
            one.failed(0, None, u32::MAX, now);
            pauses.push(one.choose(now).unwrap_err() - now);
        }
        assert_eq!(pauses, [100, 200, 400].map(Duration::from_millis));
        one.well(0);
        one.failed(0, None, u32::MAX, now);
        assert_eq!(one.choose(now), Err(now + Duration::from_millis(100)));
    }
}
