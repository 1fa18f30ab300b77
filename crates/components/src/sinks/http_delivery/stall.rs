//! Detects that a lane waits for events while the engine waits for the lane.

use millstream_model::Backpressure;
use std::sync::Arc;
use tokio::time::Instant;

/// Tracks since when a lane has been waiting for events under backpressure, although it could send
/// some.
pub struct Stall {
    backpressure: Arc<Backpressure>,
    since: Option<Instant>,
}

impl Stall {
    /// Creates the state of a lane that has no events to deliver.
    pub fn new(backpressure: Arc<Backpressure>) -> Stall {
        Stall { backpressure, since: None }
    }

    /// Returns the time since which the lane can receive no more events until it delivers some.
    /// `waits_for_more` says whether the lane could already send its events, although they are due
    /// later.
    pub fn since(&mut self, waits_for_more: bool, now: Instant) -> Option<Instant> {
        let is_stalled = waits_for_more && self.backpressure.watch();
        self.since = is_stalled.then(|| self.since.unwrap_or(now));
        self.since
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::BackpressureReason;
    use std::time::Duration;

    #[test]
    fn a_stall_begins_when_the_lane_waits_under_backpressure() {
        let backpressure = Arc::<Backpressure>::default();
        let mut stall = Stall::new(backpressure.clone());
        let now = Instant::now();
        let at = |ms| now + Duration::from_millis(ms);
        assert_eq!(stall.since(true, at(0)), None);
        backpressure.set(BackpressureReason::Source, true);
        assert_eq!(stall.since(false, at(1)), None);
        assert_eq!(stall.since(true, at(2)), Some(at(2)));
        assert_eq!(stall.since(true, at(3)), Some(at(2)));
        assert_eq!(stall.since(false, at(4)), None);
        assert_eq!(stall.since(true, at(5)), Some(at(5)));
        backpressure.set(BackpressureReason::Source, false);
        assert_eq!(stall.since(true, at(6)), None);
    }
}
