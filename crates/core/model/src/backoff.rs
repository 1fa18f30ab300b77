//! Pauses between retries, which grow and are randomized. Randomness keeps agents that have lost
//! the same endpoint from all retrying at the same moment.

use crate::limits::{BACKOFF_MAX, BACKOFF_MIN};
use std::time::Duration;

/// Minimum length of a pause, as a fraction of the longest possible pause, so that retries never
/// become a busy loop.
const FIXED_FRACTION: f64 = 0.25;

/// Counts consecutive failures and returns how long to wait before the next attempt.
///
/// The longest possible pause is the time waited so far, clamped to [`BACKOFF_MIN`] and
/// [`BACKOFF_MAX`]. A recovered endpoint is therefore noticed within twice the length of its
/// outage, or within [`BACKOFF_MIN`] if the outage was shorter. Doubling the pause with each
/// failure does not give this bound once pauses are random, even if only half of each pause is
/// ("equal jitter" in "Exponential Backoff And Jitter", AWS Architecture Blog, 2015).
#[derive(Clone, Debug, Default)]
pub struct Backoff {
    waited: Duration,
    failures: u32,
}

impl Backoff {
    /// Counts a failure and returns the pause that follows it. `random` must be uniformly
    /// distributed over all of `u32`.
    pub fn next(&mut self, random: u32) -> Duration {
        let fraction = f64::from(random) / f64::from(u32::MAX);
        let longest = self.waited.clamp(BACKOFF_MIN, BACKOFF_MAX);
        let pause = longest.mul_f64(FIXED_FRACTION + (1.0 - FIXED_FRACTION) * fraction);
        self.waited = self.waited.saturating_add(pause);
        self.failures = self.failures.saturating_add(1);
        pause
    }

    /// Starts over after a success.
    pub fn reset(&mut self) {
        *self = Backoff::default();
    }

    /// Returns the number of failures since the last success.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_with_the_time_waited_up_to_the_maximum() {
        let mut backoff = Backoff::default();
        let mut waited = Duration::ZERO;
        for _ in 0..40 {
            let pause = backoff.next(u32::MAX);
            assert_eq!(pause, waited.clamp(BACKOFF_MIN, BACKOFF_MAX));
            waited += pause;
        }
        assert_eq!(backoff.next(u32::MAX), BACKOFF_MAX);
        assert_eq!(backoff.next(0), BACKOFF_MAX / 4);
        backoff.reset();
        assert_eq!((backoff.failures(), backoff.next(u32::MAX)), (0, BACKOFF_MIN));
    }

    #[test]
    fn a_pause_is_at_most_as_long_as_the_outage_so_far_whatever_was_random_before() {
        let short = |_: u32| 0_u32;
        let mixed = |n: u32| n.wrapping_mul(0x9e37_79b9);
        for random in [short as fn(u32) -> u32, mixed] {
            for failures in 0..40 {
                let mut backoff = Backoff::default();
                let outage: Duration = (0..failures).map(|n| backoff.next(random(n))).sum();
                let pause = backoff.next(u32::MAX);
                assert!(pause <= outage.max(BACKOFF_MIN), "{pause:?} after {outage:?}");
            }
        }
    }
}
