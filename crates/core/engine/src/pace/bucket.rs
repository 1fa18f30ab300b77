//! The token bucket.

use std::time::Duration;

/// Tokens that come at a steady rate and are kept up to a limit. More may be spent than there are:
/// who spends in blocks cannot know before how many it will be. Then the bucket is in debt, and the
/// next one waits until that is paid.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    per_second: f64,
    most: f64,
    tokens: f64,
    filled: Duration,
}

impl Bucket {
    /// A full bucket. `per_second` is more than zero; a bucket holds `most` tokens.
    pub fn new(per_second: f64, most: f64) -> Bucket {
        Bucket { per_second, most, tokens: most, filled: Duration::ZERO }
    }

    /// Spends tokens, which may leave a debt, between the last call and this one at `now`: what
    /// came meanwhile pays for them before any of it is lost over the rim.
    pub fn spend(&mut self, now: Duration, tokens: f64) {
        let came = now.saturating_sub(self.filled).as_secs_f64() * self.per_second;
        self.tokens = (self.tokens + came - tokens).min(self.most);
        self.filled = self.filled.max(now);
    }

    /// How long it takes until there is no debt; zero if there is none.
    pub fn wait(&mut self, now: Duration) -> Duration {
        self.spend(now, 0.0);
        Duration::try_from_secs_f64((-self.tokens / self.per_second).max(0.0))
            .unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_debt_is_paid_at_the_rate() {
        let mut bucket = Bucket::new(1000.0, 100.0);
        assert_eq!(bucket.wait(Duration::ZERO), Duration::ZERO);
        bucket.spend(Duration::ZERO, 100.0);
        assert_eq!(bucket.wait(Duration::ZERO), Duration::ZERO);
        bucket.spend(Duration::ZERO, 50.0);
        assert_eq!(bucket.wait(Duration::ZERO), 50 * MS);
        assert_eq!(bucket.wait(20 * MS), 30 * MS);
        assert_eq!(bucket.wait(50 * MS), Duration::ZERO);
    }

    #[test]
    fn no_more_is_kept_than_the_bucket_holds() {
        let mut bucket = Bucket::new(1000.0, 100.0);
        let later = Duration::from_secs(3600);
        assert_eq!(bucket.wait(later), Duration::ZERO);
        bucket.spend(later, 100.0 + 10.0);
        assert_eq!(bucket.wait(later), 10 * MS);
        // A clock that is read late by another thread gives nothing twice.
        assert_eq!(bucket.wait(later - MS), 10 * MS);
        assert_eq!(bucket.wait(later + MS), 9 * MS);
    }
}
