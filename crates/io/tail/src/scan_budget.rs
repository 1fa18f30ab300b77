//! CPU and time budget for directory scans. A long scan delays the next one.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Scans use at most 1/20 of a core.
const CPU_SHARE: u32 = 20;

/// Scans use at most 1/4 of the wall time, because disks can block. With a smaller share, a slow
/// disk would delay the next scan for so long that files could appear and be rotated away unseen.
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

    /// Stops measuring; returns the minimum time between the start of this scan and the next.
    pub fn interval(self) -> Duration {
        interval(thread_cpu().saturating_sub(self.cpu), self.begun.elapsed())
    }
}

fn interval(cpu: Duration, time: Duration) -> Duration {
    (cpu * CPU_SHARE).max(time * TIME_SHARE)
}

/// Returns the CPU time of this thread.
fn thread_cpu() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_delays_the_next_scan_more_than_waiting_does() {
        let ms = Duration::from_millis;
        assert_eq!(interval(ms(10), ms(10)), ms(200));
        assert_eq!(interval(ms(10), ms(1000)), ms(4000), "a slow disk delays the next scan");
        assert_eq!(interval(ms(1), ms(100)), ms(400), "waiting counts four times, not twenty");
        let scan_budget = ScanBudget::begin();
        std::thread::sleep(ms(20));
        assert!(scan_budget.interval() >= ms(80));
        let (scan_budget, begun) = (ScanBudget::begin(), thread_cpu());
        while thread_cpu() - begun < ms(20) {}
        assert!(scan_budget.interval() >= ms(400));
    }
}
