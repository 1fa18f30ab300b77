//! The limit on the CPU time of the process.

use super::bucket::Bucket;
use millstream_model::EngineTime;
use std::time::Duration;

/// Unused CPU time that the process may catch up on, as time on the allowed cores: long enough not
/// to interrupt jobs, and short enough for the burst to go unnoticed.
const BURST: Duration = Duration::from_millis(200);

/// Limits the process to a number of cores. The allowance of CPU time grows with the wall clock.
#[derive(Clone, Copy, Debug)]
pub struct CpuCeiling {
    bucket: Bucket,
    /// CPU time accounted for so far; `None` before the first call, so that CPU time from before
    /// then is not counted.
    used: Option<Duration>,
}

impl CpuCeiling {
    /// Creates a limit of `cores` cores, which must be positive.
    pub fn new(cores: f64) -> CpuCeiling {
        CpuCeiling { bucket: Bucket::new(cores, cores * BURST.as_secs_f64()), used: None }
    }

    /// Returns how long after `now` the process must not start new work, given that it has `used`
    /// this much CPU time since its start. Returns zero if it may start work.
    pub fn wait(&mut self, now: EngineTime, used: Duration) -> Duration {
        let before = self.used.unwrap_or(used);
        let spent = used.saturating_sub(before);
        self.used = Some(before.max(used));
        self.bucket.spend(now, spent.as_secs_f64());
        self.bucket.wait(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the CPU time used in `seconds` by `threads` threads that always have a job of length
    /// `job`.
    fn used_in(seconds: u64, cores: f64, threads: u32, job: Duration) -> f64 {
        let mut ceiling = CpuCeiling::new(cores);
        let mut now = EngineTime::ZERO;
        let mut used = Duration::ZERO;
        while now.uptime().as_secs() < seconds {
            let wait = ceiling.wait(now, used);
            now += wait;
            if wait.is_zero() {
                (now, used) = (now + job, used + job * threads);
            }
        }
        used.as_secs_f64() / now.uptime().as_secs_f64()
    }

    #[test]
    fn the_process_uses_its_allowed_cores() {
        let job = Duration::from_micros(300);
        for (cores, threads) in [(0.1, 1), (0.5, 2), (1.0, 2), (1.7, 4)] {
            let used = used_in(100, cores, threads, job);
            assert!((cores * 0.98..cores * 1.02).contains(&used), "{cores}: {used}");
        }
        // Long jobs, such as those on a slow disk, are paid for later.
        let used = used_in(100, 0.5, 2, Duration::from_millis(700));
        assert!((0.45..0.55).contains(&used), "{used}");
    }

    #[test]
    fn below_the_limit_there_is_no_wait() {
        let used = used_in(100, 2.5, 2, Duration::from_millis(1));
        assert!(used > 1.99, "{used}");
    }

    #[test]
    fn only_the_burst_compensates_for_a_pause() {
        let mut ceiling = CpuCeiling::new(0.5);
        let later = EngineTime::at(Duration::from_secs(60));
        assert_eq!(ceiling.wait(EngineTime::ZERO, Duration::from_millis(50)), Duration::ZERO);
        assert_eq!(ceiling.wait(later, Duration::from_millis(100)), Duration::ZERO);
        assert_eq!(ceiling.wait(later, Duration::from_millis(200)), Duration::ZERO);
        assert_eq!(ceiling.wait(later, Duration::from_millis(250)), Duration::from_millis(100));
        // The wait covers a large debt in full.
        assert_eq!(ceiling.wait(later, Duration::from_millis(1250)), Duration::from_millis(2100));
    }
}
