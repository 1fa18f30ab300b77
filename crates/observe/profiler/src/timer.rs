//! Timers that signal one thread.

use crate::settings::Event;
use std::io;
use std::mem;
use std::ptr;
use std::time::Duration;

/// Clock of the time that a thread was scheduled, in the kernel's numbering of clocks. The other
/// bits are the complement of the thread's number.
const THREAD_CPU_CLOCK: i32 = 0b110;

/// A timer of the kernel. Dropping it deletes the timer.
#[derive(Debug)]
pub(crate) struct Timer(libc::timer_t);

// SAFETY: the number of a timer is valid in all threads of the process.
unsafe impl Send for Timer {}

impl Timer {
    /// Starts a timer that signals a thread once per interval, first after `first`.
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
        // SAFETY: zeros are a valid value of this structure.
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
        // SAFETY: the timer exists, and it is deleted only here.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// Returns the clock of a thread's CPU time.
pub(crate) fn thread_cpu_clock(tid: u32) -> libc::clockid_t {
    !(tid as i32) << 3 | THREAD_CPU_CLOCK
}

fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: duration.as_secs() as libc::time_t,
        tv_nsec: duration.subsec_nanos().into(),
    }
}

/// Returns the CPU time of the process.
pub(crate) fn process_cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists, and the time outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
