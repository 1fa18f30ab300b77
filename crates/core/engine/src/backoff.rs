//! Pauses between attempts: exponential, with full jitter, so that many agents do not return at
//! once.

use crate::limits::{BACKOFF_MAX, BACKOFF_MIN};
use std::time::Duration;

/// Counts failures and says how long to wait.
#[derive(Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The next pause, given a random number: between half of and the whole exponential step.
    ///
    /// Half of the step is kept so that a pause never degenerates into a busy loop.
    pub fn next(&mut self, random: u32) -> Duration {
        let step = BACKOFF_MIN.saturating_mul(1 << self.failures.min(16)).min(BACKOFF_MAX);
        self.failures = self.failures.saturating_add(1);
        step / 2 + (step / 2).mul_f64(f64::from(random) / f64::from(u32::MAX))
    }
}

/// A random number from the system; jitter does without if the system has none.
pub(crate) fn random() -> u32 {
    getrandom::u32().unwrap_or(u32::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_jitter_covers_the_upper_half() {
        let (mut low, mut high) = (Backoff::default(), Backoff::default());
        let mut step = BACKOFF_MIN;
        for _ in 0..40 {
            assert_eq!((low.next(0), high.next(u32::MAX)), (step / 2, step));
            step = (step * 2).min(BACKOFF_MAX);
        }
        assert_eq!(step, BACKOFF_MAX);
    }
}
