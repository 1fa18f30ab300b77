//! The CPU budget of directory scans: how long one took, and when the next may start.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Divisor of a core: the share that scans may take.
const CPU_SHARE: u32 = 20;

/// Divisor of the thread's wall time, for disks that block. With a larger one, a single slow read
/// would delay the next scan so long that files could appear and be rotated away unseen.
const TIME_SHARE: u32 = 4;

/// A scan in progress on this thread.
pub struct ScanBudget {
    begun: Instant,
    cpu: Duration,
}

impl ScanBudget {
    /// Starts measuring.
    pub fn begin() -> ScanBudget {
        ScanBudget { begun: Instant::now(), cpu: thread_cpu() }
    }

    /// Stops measuring; returns how long after its start the next scan may start.
    pub fn interval(self) -> Duration {
        interval(thread_cpu().saturating_sub(self.cpu), self.begun.elapsed())
    }
}

fn interval(cpu: Duration, time: Duration) -> Duration {
    (cpu * CPU_SHARE).max(time * TIME_SHARE)
}

/// CPU time of this thread.
fn thread_cpu() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_waits_comes_again_sooner_than_work_that_computes() {
        let ms = Duration::from_millis;
        assert_eq!(interval(ms(10), ms(10)), ms(200));
        assert_eq!(interval(ms(10), ms(1000)), ms(4000), "not back to back on a slow disk");
        assert_eq!(interval(ms(1), ms(100)), ms(400), "and not twenty times as late");
        let scan_budget = ScanBudget::begin();
        std::thread::sleep(ms(20));
        assert!(scan_budget.interval() >= ms(80));
        let (scan_budget, begun) = (ScanBudget::begin(), thread_cpu());
        while thread_cpu() - begun < ms(20) {}
        assert!(scan_budget.interval() >= ms(400));
    }
}
