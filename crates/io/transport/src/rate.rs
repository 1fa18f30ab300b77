//! A rate limit: evenly spaced requests, without bursts.

use std::time::Duration;
use tokio::time::Instant;

/// A rate limiter, which depends only on the times that are passed in.
pub struct Rate {
    gap: Duration,
    next: Option<Instant>,
}

impl Rate {
    /// Creates a limiter for `per_second` requests per second, which must be positive. `None`
    /// disables the limit.
    pub fn new(per_second: Option<f64>) -> Rate {
        let gap = per_second.and_then(|rate| Duration::try_from_secs_f64(1.0 / rate).ok());
        Rate { gap: gap.unwrap_or_default(), next: None }
    }

    /// Returns when the next request may start, or `None` if it may start now.
    pub fn wait_until(&self, now: Instant) -> Option<Instant> {
        self.next.filter(|next| *next > now)
    }

    /// Records a request that starts now.
    pub fn take(&mut self, now: Instant) {
        self.next = Some(now + self.gap);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_spaced_evenly_without_catching_up() {
        let start = Instant::now();
        let mut rate = Rate::new(Some(4.0));
        assert_eq!(rate.wait_until(start), None);
        rate.take(start);
        assert_eq!(rate.wait_until(start), Some(start + Duration::from_millis(250)));
        let later = start + Duration::from_secs(60);
        assert_eq!(rate.wait_until(later), None);
        rate.take(later);
        assert_eq!(rate.wait_until(later), Some(later + Duration::from_millis(250)));
        let mut free = Rate::new(None);
        free.take(start);
        assert_eq!(free.wait_until(start), None);
    }
}
