//! What work took, and when it may begin again.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Work takes one part in this many of a core at most.
const CPU_SHARE: u32 = 20;

/// It takes one part in this many of the time of its thread at most, on a disk that keeps it waiting. More is not
/// asked for: one wait of half a second would put off the next walk for so long that files come and are rotated
/// away unseen.
const TIME_SHARE: u32 = 4;

/// Work under way on this thread.
pub struct Effort {
    begun: Instant,
    cpu: Duration,
}

impl Effort {
    /// It begins now.
    pub fn begin() -> Effort {
        Effort { begun: Instant::now(), cpu: thread_cpu() }
    }

    /// It has ended: how long after its beginning it may begin again.
    pub fn interval(self) -> Duration {
        interval(thread_cpu().saturating_sub(self.cpu), self.begun.elapsed())
    }
}

fn interval(cpu: Duration, time: Duration) -> Duration {
    (cpu * CPU_SHARE).max(time * TIME_SHARE)
}

/// CPU time that this thread has taken.
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
        let effort = Effort::begin();
        std::thread::sleep(ms(20));
        assert!(effort.interval() >= ms(80));
        let (effort, begun) = (Effort::begin(), thread_cpu());
        while thread_cpu() - begun < ms(20) {}
        assert!(effort.interval() >= ms(400));
    }
}
