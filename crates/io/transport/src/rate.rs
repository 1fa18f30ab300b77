//! A cap on how often something is done: evenly spaced, no bursts.

use std::time::Duration;
use tokio::time::Instant;

/// Spaces what it lets through. A function of the given time.
pub struct Rate {
    gap: Duration,
    next: Option<Instant>,
}

impl Rate {
    /// At most `per_second`, more than 0; without a number everything may go at once.
    pub fn new(per_second: Option<f64>) -> Rate {
        let gap = per_second.and_then(|rate| Duration::try_from_secs_f64(1.0 / rate).ok());
        Rate { gap: gap.unwrap_or_default(), next: None }
    }

    /// When the next one may go; `None` if it may go now.
    pub fn wait_until(&self, now: Instant) -> Option<Instant> {
        self.next.filter(|next| *next > now)
    }

    /// One goes now.
    pub fn take(&mut self, now: Instant) {
        self.next = Some(now + self.gap);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_is_spaced_evenly_and_time_off_is_not_made_up_for() {
        let begun = Instant::now();
        let mut rate = Rate::new(Some(4.0));
        assert_eq!(rate.wait_until(begun), None);
        rate.take(begun);
        assert_eq!(rate.wait_until(begun), Some(begun + Duration::from_millis(250)));
        let later = begun + Duration::from_secs(60);
        assert_eq!(rate.wait_until(later), None);
        rate.take(later);
        assert_eq!(rate.wait_until(later), Some(later + Duration::from_millis(250)));
        let mut free = Rate::new(None);
        free.take(begun);
        assert_eq!(free.wait_until(begun), None);
    }
}
