//! What work took, and the pause after which it may begin again.

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

    /// It has ended: how long to pause after it.
    pub fn pause(self) -> Duration {
        let (cpu, time) = (thread_cpu().saturating_sub(self.cpu), self.begun.elapsed());
        (cpu * (CPU_SHARE - 1)).max(time * (TIME_SHARE - 1))
    }
}

/// CPU time that this thread has taken.
fn thread_cpu() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_pauses_by_what_it_took_of_a_core_and_less_by_its_time() {
        let (begun, effort) = (Instant::now(), Effort::begin());
        std::thread::sleep(Duration::from_millis(20));
        let pause = effort.pause();
        assert!(pause >= Duration::from_millis(60) && pause < begun.elapsed() * 4, "{pause:?}");
        let (effort, begun) = (Effort::begin(), thread_cpu());
        while thread_cpu() - begun < Duration::from_millis(20) {}
        assert!(effort.pause() >= Duration::from_millis(380));
    }
}
