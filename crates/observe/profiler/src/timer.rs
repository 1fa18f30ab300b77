//! Timers that signal a single thread.

use crate::settings::Event;
use std::io;
use std::mem;
use std::ptr;
use std::time::Duration;

/// Lower bits of a clock id for a thread's CPU time. The upper bits are the complement of the
/// thread's system id.
const THREAD_CPU_CLOCK: i32 = 0b110;

/// A kernel timer. Dropping it deletes the timer.
#[derive(Debug)]
pub(crate) struct Timer(libc::timer_t);

// SAFETY: a timer id is valid in all threads of the process.
unsafe impl Send for Timer {}

impl Timer {
    /// Starts a timer that signals a thread once per interval. The first signal is after `first`.
    pub fn start(
        event: Event,
        tid: u32,
        value: usize,
        first: Duration,
        interval: Duration,
    ) -> io::Result<Timer> {
        let clock = match event {
            Event::Cpu => thread_cpu_clock(tid),
            Event::Wall | Event::Alloc => libc::CLOCK_MONOTONIC,
        };
        // SAFETY: all zeros are a valid value for this structure.
        let mut signal: libc::sigevent = unsafe { mem::zeroed() };
        signal.sigev_notify = libc::SIGEV_THREAD_ID;
        signal.sigev_signo = libc::SIGPROF;
        signal.sigev_value.sival_ptr = ptr::without_provenance_mut(value);
        signal.sigev_notify_thread_id = tid as i32;
        let mut timer = ptr::null_mut();
        // SAFETY: both structures outlive the call.
        if unsafe { libc::timer_create(clock, &mut signal, &mut timer) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let timer = Timer(timer);
        let times = libc::itimerspec { it_interval: timespec(interval), it_value: timespec(first) };
        // SAFETY: the timer exists, and the times outlive the call.
        match unsafe { libc::timer_settime(timer.0, 0, &times, ptr::null_mut()) } {
            0 => Ok(timer),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: the timer exists, and only this code deletes it.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// Returns the id of a thread's CPU time clock.
pub(crate) fn thread_cpu_clock(tid: u32) -> libc::clockid_t {
    !(tid as i32) << 3 | THREAD_CPU_CLOCK
}

fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: duration.as_secs() as libc::time_t,
        tv_nsec: duration.subsec_nanos().into(),
    }
}

/// Returns the CPU time that the process has used.
pub(crate) fn process_cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists, and the time outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
