//! CPU time clocks of threads. Each clock signals its thread once per interval of CPU time.
//!
//! The clocks are software events of `perf_event_open(2)`, which use a high-resolution timer while
//! the thread runs. In contrast, the kernel checks a timer for a thread's CPU time only at its
//! ticks, which are milliseconds apart. If other processes compete for the CPU, a thread might
//! rarely be running at a tick. Events need a privilege or a `kernel.perf_event_paranoid` below 2,
//! because they include time in the kernel.

use crate::kernel::{self, Ring};
use crate::timer::thread_cpu_clock;
use rustix::thread::gettid;
use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::Duration;

/// Number of file descriptors for which a handler can find the clock. A thread whose clock would
/// have a higher descriptor gets a timer.
const DESCRIPTORS_MAX: usize = 1 << 16;

/// Event type: a software event.
const SOFTWARE: u32 = 1;
/// Software event: the time during which a thread was scheduled.
const TASK_CLOCK: u64 = 1;
/// Sample type: the call chain.
const CALL_CHAIN: u64 = 1 << 5;
/// Flag for an event that does not count yet.
const DISABLED: u64 = 1;
/// Flag for an event whose call chains contain only kernel frames. For user frames, the kernel
/// would need frame pointers.
const EXCLUDE_USER_STACK: u64 = 1 << 22;
/// Flag of `perf_event_open`: close the descriptor on `exec`.
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;
/// `ioctl` request: start counting.
const ENABLE: libc::Ioctl = 0x2400;
/// `fcntl` command: set the signal for events on the descriptor.
const SET_SIGNAL: c_int = 10;
/// `fcntl` command: set the receiver of the signal.
const SET_OWNER: c_int = 15;

/// Attributes of an event, in the first version of the structure.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    bytes: u32,
    event: u64,
    period: u64,
    sample_kind: u64,
    read_format: u64,
    flags: u64,
    wake_events: u32,
    breakpoint_kind: u32,
    more: u64,
}

/// The receiver of a signal.
#[repr(C)]
struct Owner {
    /// Kind of the receiver, which is 0 for a thread.
    kind: c_int,
    id: c_int,
}

/// A clock, which handlers find by its file descriptor.
#[derive(Default)]
struct Entry {
    /// The thread's index plus one in the upper half, and the thread's system id in the lower half.
    /// 0 if there is no clock.
    thread: AtomicU64,
    /// CPU time of the thread that its samples represent so far, in nanoseconds.
    sampled_ns: AtomicU64,
    /// The mapped ring that contains kernel stacks, or null.
    ring: AtomicPtr<c_void>,
}

/// The sample that a signal requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    /// Index of the calling thread.
    pub thread: u32,
    /// Number of intervals since the thread's last sample.
    pub weight: u32,
    /// The clock's mapped ring, or null.
    ring: *const c_void,
}

impl Due {
    /// Returns the sample that a timer's signal requests.
    pub fn of_timer(thread: u32, weight: u32) -> Due {
        Due { thread, weight, ring: ptr::null() }
    }

    /// Writes the kernel frames, leaf first, and returns their number. Safe in signal handlers.
    pub fn take_kernel_stack(&self, frames: &mut [u64]) -> usize {
        if self.ring.is_null() {
            return 0;
        }
        // SAFETY: the ring belongs to the calling thread, so only this thread reads it. It stays
        // mapped until the thread has exited or its handler has returned.
        unsafe { kernel::take_stack(self.ring, frames) }
    }
}

/// The clocks of a profile, indexed by file descriptor.
pub(crate) struct Clocks {
    entries: Box<[Entry]>,
    interval_ns: u64,
}

impl Clocks {
    pub fn new(interval: Duration) -> Clocks {
        let entries = (0..DESCRIPTORS_MAX).map(|_| Entry::default()).collect();
        Clocks { entries, interval_ns: interval.as_nanos() as u64 }
    }

    /// Returns the sample that a signal requests, or `None` if the descriptor is not the calling
    /// thread's clock. Safe in signal handlers.
    pub fn take(&self, descriptor: usize) -> Option<Due> {
        let entry = self.entries.get(descriptor)?;
        let thread = entry.thread.load(Ordering::Acquire);
        let tid = gettid().as_raw_pid();
        if thread == 0 || thread as u32 != tid as u32 {
            return None;
        }
        // If more intervals pass while a signal is pending, for example during a long system call,
        // the sample represents all of them. Only this thread changes the value.
        let sampled = entry.sampled_ns.load(Ordering::Relaxed);
        let now = cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID);
        let passed = now.saturating_sub(sampled).saturating_add(self.interval_ns / 2);
        let weight = (passed / self.interval_ns).clamp(1, u64::from(u32::MAX));
        entry.sampled_ns.store(sampled + weight * self.interval_ns, Ordering::Relaxed);
        let ring = entry.ring.load(Ordering::Relaxed);
        Some(Due { thread: (thread >> 32) as u32 - 1, weight: weight as u32, ring })
    }
}

/// A thread's clock. Dropping it stops the clock.
pub(crate) struct TaskClock {
    descriptor: OwnedFd,
    /// The ring for kernel stacks. `None` if the process may not allocate memory for it.
    ring: Option<Ring>,
    clocks: Arc<Clocks>,
}

impl TaskClock {
    /// Starts a clock for a thread.
    pub fn start(clocks: &Arc<Clocks>, tid: u32, index: u32) -> io::Result<TaskClock> {
        let descriptor = open(tid, clocks.interval_ns)?;
        let number = descriptor.as_raw_fd();
        let Some(entry) = clocks.entries.get(number as usize) else {
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        let owner = Owner { kind: 0, id: tid as i32 };
        // SAFETY: the descriptor is open, and the commands take a number or a pointer to the owner.
        unsafe {
            check(libc::fcntl(number, libc::F_SETFL, libc::O_ASYNC))?;
            check(libc::fcntl(number, SET_SIGNAL, libc::SIGPROF))?;
            check(libc::fcntl(number, SET_OWNER, &raw const owner))?;
        }
        let ring = Ring::map(descriptor.as_fd()).ok();
        let address = ring.as_ref().map_or(ptr::null_mut(), Ring::address);
        entry.ring.store(address, Ordering::Relaxed);
        entry.sampled_ns.store(cpu_ns(thread_cpu_clock(tid)), Ordering::Relaxed);
        let thread = (u64::from(index) + 1) << 32 | u64::from(tid);
        entry.thread.store(thread, Ordering::Release);
        let clock = TaskClock { descriptor, ring, clocks: Arc::clone(clocks) };
        // SAFETY: the descriptor is open, and the request takes no argument.
        check(unsafe { libc::ioctl(number, ENABLE, 0) })?;
        Ok(clock)
    }
}

impl Drop for TaskClock {
    fn drop(&mut self) {
        // Remove the entry before another clock can reuse the descriptor.
        let number = self.descriptor.as_raw_fd() as usize;
        let entry = &self.clocks.entries[number];
        entry.thread.store(0, Ordering::Release);
        entry.ring.store(ptr::null_mut(), Ordering::Relaxed);
        drop(self.ring.take());
    }
}

fn open(tid: u32, interval_ns: u64) -> io::Result<OwnedFd> {
    let attributes = Attributes {
        kind: SOFTWARE,
        bytes: size_of::<Attributes>() as u32,
        event: TASK_CLOCK,
        period: interval_ns,
        sample_kind: CALL_CHAIN,
        flags: DISABLED | EXCLUDE_USER_STACK,
        wake_events: 1,
        ..Attributes::default()
    };
    let (any_cpu, no_group) = (-1, -1);
    // SAFETY: the attributes outlive the call.
    let descriptor = unsafe {
        let attributes = &raw const attributes;
        libc::syscall(libc::SYS_perf_event_open, attributes, tid, any_cpu, no_group, CLOSE_ON_EXEC)
    };
    check(descriptor as c_int)?;
    // SAFETY: the descriptor is new, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as RawFd) })
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the CPU time of a clock in nanoseconds, or 0 if the thread has exited.
fn cpu_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time outlives the call.
    unsafe { libc::clock_gettime(clock, &mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::{Clocks, TaskClock, cpu_ns};
    use rustix::thread::gettid;
    use std::os::fd::AsRawFd;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::thread;
    use std::time::Duration;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_sample_represents_all_intervals_since_the_last_one() {
        let clocks = Arc::new(Clocks::new(Duration::from_secs(1)));
        let tid = gettid().as_raw_pid() as u32;
        let clock = match TaskClock::start(&clocks, tid, 7) {
            Ok(clock) => clock,
            Err(error) => return println!("not tested, needs a privilege: {error}"),
        };
        let descriptor = clock.descriptor.as_raw_fd() as usize;
        let entry = &clocks.entries[descriptor];
        let now = cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID);
        entry.sampled_ns.store(now, Ordering::Relaxed);
        // A signal can arrive early.
        let taken = || clocks.take(descriptor).map(|due| (due.thread, due.weight));
        assert_eq!(taken(), Some((7, 1)));
        assert_eq!(entry.sampled_ns.load(Ordering::Relaxed), now + SECOND);
        // Simulate that four seconds have passed.
        let before = now.saturating_sub(4 * SECOND);
        entry.sampled_ns.store(before, Ordering::Relaxed);
        let expected = ((now - before + SECOND / 2) / SECOND).max(1) as u32;
        assert_eq!(taken(), Some((7, expected)));
        assert_eq!(clocks.take(usize::MAX), None);
        let of_other = thread::scope(|scope| scope.spawn(taken).join());
        assert_eq!(of_other.unwrap(), None);
        drop(clock);
        assert_eq!(taken(), None);
    }
}
