//! Pauses between attempts: exponential, with full jitter, so that many agents which lost the same
//! endpoint do not return to it at once.

use std::time::Duration;

/// The first step: an endpoint that restarts quickly is found again quickly.
pub const BACKOFF_MIN: Duration = Duration::from_millis(100);

/// The longest step: how late, at most, it is noticed that the endpoint is back.
pub const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// Counts failures and says how long to wait.
#[derive(Clone, Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The next pause, given a random number: anything from nothing to the whole exponential step.
    pub fn next(&mut self, random: u32) -> Duration {
        let step = BACKOFF_MIN.saturating_mul(1 << self.failures.min(16)).min(BACKOFF_MAX);
        self.failures = self.failures.saturating_add(1);
        step.mul_f64(f64::from(random) / f64::from(u32::MAX))
    }

    /// Begins anew, after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// Failures since the last success.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

/// A random number from the system; jitter does without if the system has none.
pub fn random() -> u32 {
    getrandom::u32().unwrap_or(u32::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_double_up_to_the_longest_and_jitter_covers_all_of_each() {
        let (mut low, mut high) = (Backoff::default(), Backoff::default());
        let mut step = BACKOFF_MIN;
        for _ in 0..40 {
            assert_eq!((low.next(0), high.next(u32::MAX)), (Duration::ZERO, step));
            step = (step * 2).min(BACKOFF_MAX);
        }
        assert_eq!(step, BACKOFF_MAX);
        high.reset();
        assert_eq!((high.failures(), high.next(u32::MAX)), (0, BACKOFF_MIN));
    }
}
