//! A token bucket that may go into debt.

use millstream_model::EngineTime;
use std::time::Duration;

/// Tokens that arrive at a steady rate up to a limit. A caller may spend more tokens than are
/// available, because a reader of blocks knows the cost only afterward. The bucket is then in
/// debt, and the next reader waits until the debt is repaid.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    per_second: f64,
    most: f64,
    tokens: f64,
    filled: EngineTime,
}

impl Bucket {
    /// Creates a full bucket of size `most`. `per_second` must be positive.
    pub fn new(per_second: f64, most: f64) -> Bucket {
        Bucket { per_second, most, tokens: most, filled: EngineTime::ZERO }
    }

    /// Returns the rate in tokens per second.
    pub fn per_second(&self) -> f64 {
        self.per_second
    }

    /// Spends tokens, possibly going into debt. Tokens that have arrived since the last call are
    /// spent first, before the bucket overflows.
    pub fn spend(&mut self, now: EngineTime, tokens: f64) {
        let came = (now - self.filled).as_secs_f64() * self.per_second;
        self.tokens = (self.tokens + came - tokens).min(self.most);
        self.filled = self.filled.max(now);
    }

    /// Returns the time until the debt is repaid; zero if there is no debt.
    pub fn wait(&mut self, now: EngineTime) -> Duration {
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
    fn a_debt_is_repaid_at_the_rate() {
        let mut bucket = Bucket::new(1000.0, 100.0);
        assert_eq!(bucket.wait(EngineTime::ZERO), Duration::ZERO);
        bucket.spend(EngineTime::ZERO, 100.0);
        assert_eq!(bucket.wait(EngineTime::ZERO), Duration::ZERO);
        bucket.spend(EngineTime::ZERO, 50.0);
        assert_eq!(bucket.wait(EngineTime::ZERO), 50 * MS);
        assert_eq!(bucket.wait(EngineTime::at(20 * MS)), 30 * MS);
        assert_eq!(bucket.wait(EngineTime::at(50 * MS)), Duration::ZERO);
    }

    #[test]
    fn the_bucket_does_not_overflow() {
        let mut bucket = Bucket::new(1000.0, 100.0);
        let earlier = EngineTime::at(Duration::from_secs(3600));
        let later = earlier + MS;
        assert_eq!(bucket.wait(later), Duration::ZERO);
        bucket.spend(later, 100.0 + 10.0);
        assert_eq!(bucket.wait(later), 10 * MS);
        // If another thread passes an earlier clock reading, no tokens are added twice.
        assert_eq!(bucket.wait(earlier), 10 * MS);
        assert_eq!(bucket.wait(later + MS), 9 * MS);
    }
}
