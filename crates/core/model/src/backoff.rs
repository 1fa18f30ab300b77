//! Pauses between retries: exponential with jitter, so that many agents that lost the same endpoint
//! do not return to it at once.

use crate::limits::{BACKOFF_MAX, BACKOFF_MIN};
use std::time::Duration;

/// How much of a step is random, as in "Exponential Backoff And Jitter" (AWS Architecture Blog,
/// 2015).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jitter {
    /// All of the step: spreads clients the most, and may not wait at all.
    #[default]
    Full,
    /// The upper half: a pause never degenerates into a busy loop.
    Equal,
}

/// Counts consecutive failures and returns how long to wait before the next attempt.
#[derive(Clone, Debug, Default)]
pub struct Backoff {
    jitter: Jitter,
    failures: u32,
}

impl Backoff {
    /// Creates a backoff without failures.
    pub fn new(jitter: Jitter) -> Backoff {
        Backoff { jitter, failures: 0 }
    }

    /// Counts a failure and returns the pause after it. `random` is uniform over all of `u32`.
    pub fn next(&mut self, random: u32) -> Duration {
        let step = BACKOFF_MIN.saturating_mul(1 << self.failures.min(16)).min(BACKOFF_MAX);
        self.failures = self.failures.saturating_add(1);
        let part = f64::from(random) / f64::from(u32::MAX);
        match self.jitter {
            Jitter::Full => step.mul_f64(part),
            Jitter::Equal => step / 2 + (step / 2).mul_f64(part),
        }
    }

    /// Starts over after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// Returns the failures since the last success.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum_and_jitter_stays_in_range() {
        let (mut low, mut high) = (Backoff::new(Jitter::Full), Backoff::new(Jitter::Full));
        let mut equal = Backoff::new(Jitter::Equal);
        let mut step = BACKOFF_MIN;
        for _ in 0..40 {
            assert_eq!((low.next(0), high.next(u32::MAX)), (Duration::ZERO, step));
            assert_eq!(equal.next(0), step / 2);
            step = (step * 2).min(BACKOFF_MAX);
        }
        assert_eq!(step, BACKOFF_MAX);
        high.reset();
        assert_eq!((high.failures(), high.next(u32::MAX)), (0, BACKOFF_MIN));
    }
}
