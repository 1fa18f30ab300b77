//! The clock for events.
//!
//! On x86-64, the clock is the time stamp counter if its rate is constant and the same on all
//! processors (CPUID 8000_0007h, EDX bit 8; Intel SDM, volume 3, "Invariant TSC"), and if the
//! kernel trusts it. Otherwise, the clock is `clock_gettime`, in nanoseconds.

use rustix::time::{ClockId, clock_gettime};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The available clock sources. The kernel removes `tsc` if the processors' counters diverge.
#[cfg(target_arch = "x86_64")]
const CLOCK_SOURCES: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// Duration of the first rate measurement. The clock readings at both ends are off by about 50 ns,
/// so the rate is accurate to 0.2%.
const FIRST_MEASUREMENT: Duration = Duration::from_micros(50);

/// Number of clock readings per moment. The fastest reading counts.
const READINGS: usize = 5;

const NS_PER_SECOND: u64 = 1_000_000_000;

static USES_COUNTER: AtomicBool = AtomicBool::new(false);

/// The clock of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Source {
    /// The time stamp counter.
    Counter = 0,
    /// `clock_gettime(CLOCK_MONOTONIC)`, in nanoseconds.
    System = 1,
}

/// Returns the current time in ticks.
#[inline(always)]
pub fn now() -> u64 {
    if USES_COUNTER.load(Ordering::Relaxed) { counter() } else { monotonic_ns() }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and Linux permits it unless a process
    // asks to disable it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn counter() -> u64 {
    monotonic_ns()
}

/// Selects the clock for the process.
pub fn choose() -> Source {
    let is_counter = has_counter();
    USES_COUNTER.store(is_counter, Ordering::Relaxed);
    if is_counter { Source::Counter } else { Source::System }
}

#[cfg(target_arch = "x86_64")]
fn has_counter() -> bool {
    use std::arch::x86_64::__cpuid;
    const POWER_MANAGEMENT: u32 = 0x8000_0007;
    let has_leaf = __cpuid(0x8000_0000).eax >= POWER_MANAGEMENT;
    let is_invariant = has_leaf && __cpuid(POWER_MANAGEMENT).edx & 1 << 8 != 0;
    let sources = std::fs::read_to_string(CLOCK_SOURCES).unwrap_or_default();
    is_invariant && sources.split_whitespace().any(|source| source == "tsc")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_counter() -> bool {
    false
}

/// Returns the current time of the monotonic clock in nanoseconds.
pub fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.cast_unsigned() * NS_PER_SECOND + time.tv_nsec.cast_unsigned()
}

/// One point in time, according to all clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Time in ticks.
    pub ticks: u64,
    /// Time of the monotonic clock in nanoseconds.
    pub monotonic_ns: u64,
    /// Time in nanoseconds since 1970.
    pub unix_ns: u64,
}

impl Moment {
    /// Reads the clocks several times and returns the fastest reading, because the thread can be
    /// preempted between two clocks.
    pub fn now() -> Moment {
        let mut best = (u64::MAX, Moment { ticks: 0, monotonic_ns: 0, unix_ns: 0 });
        for _ in 0..READINGS {
            let (took, moment) = Moment::read();
            if took < best.0 {
                best = (took, moment);
            }
        }
        best.1
    }

    /// Reads the clocks once. Also returns the number of ticks that reading took.
    fn read() -> (u64, Moment) {
        let begun = now();
        let monotonic_ns = monotonic_ns();
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let took = now().saturating_sub(begun);
        let unix_ns = u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX);
        (took, Moment { ticks: begun, monotonic_ns, unix_ns })
    }

    /// Returns the ticks per second between this moment and `later`, or one billion if no time has
    /// passed.
    pub fn rate(&self, later: &Moment) -> NonZeroU64 {
        let ticks = u128::from(later.ticks.saturating_sub(self.ticks));
        let ns = u128::from(later.monotonic_ns.saturating_sub(self.monotonic_ns));
        let rate = (ticks * u128::from(NS_PER_SECOND)).checked_div(ns).unwrap_or(0);
        let rate = u64::try_from(rate).ok().and_then(NonZeroU64::new);
        rate.unwrap_or(const { NonZeroU64::new(NS_PER_SECOND).unwrap() })
    }

    /// Returns the ticks per second, measured over a short time that starts at this moment.
    pub fn first_rate(&self) -> NonZeroU64 {
        let until = self.monotonic_ns + FIRST_MEASUREMENT.as_nanos() as u64;
        while monotonic_ns() < until {
            std::hint::spin_loop();
        }
        self.rate(&Moment::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::sleep;

    #[test]
    fn the_rate_is_that_of_the_system_clock() {
        choose();
        let start = Moment::now();
        let first = start.first_rate().get() as f64;
        sleep(Duration::from_millis(50));
        let end = Moment::now();
        let seconds = (end.monotonic_ns - start.monotonic_ns) as f64 / NS_PER_SECOND as f64;
        let measured = (end.ticks - start.ticks) as f64 / start.rate(&end).get() as f64;
        assert!((measured / seconds - 1.0).abs() < 1e-6, "{measured} s, not {seconds} s");
        assert!((first / start.rate(&end).get() as f64 - 1.0).abs() < 0.1, "{first}");
    }

    #[test]
    fn a_clock_that_stands_still_has_a_rate() {
        let moment = Moment { ticks: 5, monotonic_ns: 7, unix_ns: 9 };
        assert_eq!(moment.rate(&moment).get(), NS_PER_SECOND);
    }
}
