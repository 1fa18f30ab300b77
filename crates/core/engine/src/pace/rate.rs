//! A source's rate limit.

use super::bucket::Bucket;
use millstream_model::EngineTime;
use std::time::Duration;

/// Unused time that a source may catch up on, in seconds. After being idle or blocked, the source
/// may read this many seconds' worth of data at once.
const BURST_SECONDS: f64 = 1.0;

/// Limits a source to a rate. A block may exceed the remaining budget; the block is read whole, and
/// the source waits longer for the next one. Nothing is dropped.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    bucket: Bucket,
    waiting_since: Option<EngineTime>,
}

impl Rate {
    /// Creates a limit in bytes per second, which must be positive.
    pub fn new(bytes_per_second: u64) -> Rate {
        let per_second = bytes_per_second.max(1) as f64;
        Rate { bucket: Bucket::new(per_second, per_second * BURST_SECONDS), waiting_since: None }
    }

    /// Returns how long the source has waited if it may read now. Otherwise, returns the remaining
    /// wait as the error.
    pub fn ask(&mut self, now: EngineTime) -> Result<Duration, Duration> {
        let wait = self.bucket.wait(now);
        if wait.is_zero() {
            let since = self.waiting_since.take();
            return Ok(since.map_or(Duration::ZERO, |since| now - since));
        }
        self.waiting_since.get_or_insert(now);
        Err(wait)
    }

    /// Returns how long the source has been waiting to read; `None` if it is not waiting.
    pub fn waiting(&self, now: EngineTime) -> Option<Duration> {
        self.waiting_since.map(|since| now - since)
    }

    /// Returns the limit in bytes per second.
    pub fn per_second(&self) -> f64 {
        self.bucket.per_second()
    }

    /// Records that `bytes` were read after the limit allowed the read.
    pub fn read(&mut self, now: EngineTime, bytes: u64) {
        self.bucket.spend(now, bytes as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bytes read in `seconds` by a source that always has a whole block.
    fn read_in(seconds: u64, rate: u64, block: u64) -> (u64, Duration) {
        let mut rate = Rate::new(rate);
        let mut now = EngineTime::ZERO;
        let mut bytes = 0;
        let mut waited = Duration::ZERO;
        while now.uptime().as_secs() < seconds {
            match rate.ask(now) {
                Ok(time) => {
                    waited += time;
                    rate.read(now, block);
                    bytes += block;
                }
                Err(wait) => now += wait.max(Duration::from_micros(1)),
            }
        }
        (bytes, waited)
    }

    #[test]
    fn a_busy_source_reads_at_the_rate_with_a_burst_of_one_second() {
        for (rate, block) in [(1_000_000, 1000), (10 << 20, 256 << 10), (1000, 256 << 10)] {
            let (bytes, waited) = read_in(1000, rate, block);
            assert!(
                (rate * 1000..=rate * 1001 + 2 * block).contains(&bytes),
                "{rate} {block}: {bytes}"
            );
            assert!(waited > Duration::from_secs(700), "{waited:?}");
        }
    }

    #[test]
    fn at_most_one_second_of_unread_budget_is_carried_over() {
        let mut rate = Rate::new(1000);
        let later = EngineTime::at(Duration::from_secs(60));
        assert_eq!(rate.ask(later), Ok(Duration::ZERO));
        rate.read(later, 1500);
        assert_eq!(rate.waiting(later), None);
        assert_eq!(rate.ask(later), Err(Duration::from_millis(500)));
        assert_eq!(rate.ask(later + Duration::from_millis(200)), Err(Duration::from_millis(300)));
        let waiting = rate.waiting(later + Duration::from_millis(400));
        assert_eq!(waiting, Some(Duration::from_millis(400)));
        assert_eq!(rate.ask(later + Duration::from_millis(600)), Ok(Duration::from_millis(600)));
        assert_eq!(rate.waiting(later + Duration::from_millis(600)), None);
        assert_eq!(rate.ask(later + Duration::from_millis(600)), Ok(Duration::ZERO));
    }
}
