//! A source's pause at a transform's request.

use millstream_model::EngineTime;
use std::time::Duration;

/// A period in which a source does not read, because a transform has asked for a pause. Overlapping
/// pauses are counted as one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pause {
    since: EngineTime,
    until: EngineTime,
}

impl Pause {
    /// Starts a pause, or extends the current one; returns the length of an earlier pause that has
    /// ended but is not counted yet.
    pub fn extend(&mut self, now: EngineTime, pause: Duration) -> Duration {
        let ended = self.ask(now).unwrap_or_default();
        if self.until <= now {
            self.since = now;
        }
        self.until = self.until.max(now + pause);
        ended
    }

    /// Returns the length of the pause that has ended, or zero if that was already returned. If a
    /// pause is in progress, returns its remaining time as the error.
    pub fn ask(&mut self, now: EngineTime) -> Result<Duration, Duration> {
        if now < self.until {
            return Err(self.until - now);
        }
        let waited = self.until - self.since;
        self.since = self.until;
        Ok(waited)
    }

    /// Returns how long the current pause has lasted; `None` if there is none.
    pub fn lasted(&self, now: EngineTime) -> Option<Duration> {
        (now < self.until).then(|| now - self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(uptime: u64) -> EngineTime {
        EngineTime::at(ms(uptime))
    }

    #[test]
    fn pauses_that_overlap_are_counted_as_one_at_its_end() {
        let mut pause = Pause::default();
        assert_eq!((pause.ask(at(5)), pause.lasted(at(5))), (Ok(ms(0)), None));
        assert_eq!(pause.extend(at(10), ms(20)), ms(0));
        assert_eq!(pause.extend(at(20), ms(5)), ms(0), "it is not made shorter");
        assert_eq!(pause.extend(at(25), ms(15)), ms(0));
        assert_eq!((pause.ask(at(30)), pause.lasted(at(30))), (Err(ms(10)), Some(ms(20))));
        assert_eq!((pause.ask(at(50)), pause.lasted(at(50))), (Ok(ms(30)), None));
        assert_eq!(pause.ask(at(60)), Ok(ms(0)), "it is counted once");
    }

    #[test]
    fn a_pause_that_ended_unasked_is_returned_by_the_next_one() {
        let mut pause = Pause::default();
        pause.extend(at(10), ms(20));
        assert_eq!(pause.extend(at(100), ms(5)), ms(20));
        assert_eq!((pause.lasted(at(103)), pause.ask(at(105))), (Some(ms(3)), Ok(ms(5))));
    }
}
