//! The memory governor, which keeps the process's memory below `limits.memory`.
//!
//! Most parts of the agent declare how much memory they may take. The governor is for all other
//! parts, such as series, the allocator, and a runtime's heap. It measures the resident memory, and
//! above the high water mark it asks every part to take less. Sources get a smaller grant,
//! components keep nothing new, and the runtime's host is called to collect garbage.

use millstream_model::snapshot::MemorySnapshot;
use millstream_model::{Grant, MemoryPressure, Pressure};
use parking_lot::{Condvar, Mutex};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time between two measurements. If memory grows by 1 GB/s, a tenth of a second uses up the memory
/// above the high mark, which is a fifth of the smallest usual limit.
const INTERVAL: Duration = Duration::from_millis(100);

/// Time between two measurements while memory is calm. A wake-up costs more than the measurement
/// itself.
const CALM_INTERVAL: Duration = Duration::from_millis(200);

/// The limit divided by this number is the maximum change of calm memory between two measurements.
const CALM_PART: u64 = 100;

/// Percentage of the limit below which memory is plentiful.
const LOW_PERCENT: u64 = 60;

/// Percentage of the limit at which the pressure becomes high.
const HIGH_PERCENT: u64 = 80;

/// Percentage of the limit below which the pressure is no longer high. The distance to the high
/// mark keeps the level from changing with each measurement.
const HIGH_ENDS_PERCENT: u64 = 75;

/// Percentage of the limit up to which components may keep more. The percentage applies to the sum
/// of the resident memory and the memory that a runtime may still take. The JVM has another limit,
/// which is its heap.
const FULL_PERCENT: u64 = 95;

/// The room below the high mark, divided by this number, is the maximum growth of the expected
/// bytes until the next measurement. A new series immediately takes about as much memory as it is
/// expected to take later.
const GROWTH_PART: u64 = 2;

/// The limit divided by this number is the growth of the expected bytes that is always allowed. A
/// smaller share would stop the growth just below the high mark, where the pressure never becomes
/// high.
const GROWTH_LEAST_PART: u64 = 32;

/// Time between two steps of the grant. The memory that a step frees is measured before the next
/// step.
const STEP_INTERVAL: Duration = Duration::from_millis(500);

/// Minimum time between two log lines about a change of the pressure.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The result of one measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLook {
    /// Resident memory in bytes.
    pub resident_bytes: u64,
    /// `limits.memory` in bytes.
    pub limit_bytes: u64,
    /// The resulting pressure level.
    pub pressure: Pressure,
}

/// Measures the process's memory, and frees memory that the engine does not manage.
#[derive(Clone)]
pub struct MemoryHost {
    /// Returns the resident memory of the agent and its child processes in bytes; `None` if it
    /// cannot be read.
    pub resident_bytes: Arc<dyn Fn() -> Option<u64> + Send + Sync>,
    /// Returns the bytes that runtimes inside the process may still take within their own limits.
    pub promised_bytes: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Called on the governor's thread after each measurement, five to ten times per second.
    pub on_look: Arc<dyn Fn(MemoryLook) + Send + Sync>,
}

impl fmt::Debug for MemoryHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryHost").finish_non_exhaustive()
    }
}

/// The governor's measurements, shared with the components that act on them.
pub(crate) struct MemoryState {
    limit_bytes: u64,
    pressure: Arc<MemoryPressure>,
    resident_bytes: AtomicU64,
    /// Number of times that the pressure became high.
    times_high: AtomicU64,
    /// Time with high pressure, in milliseconds.
    high_ms: AtomicU64,
    stopped: Mutex<bool>,
    wake: Condvar,
}

impl MemoryState {
    /// Creates the state for a process with this memory limit.
    pub fn new(limit_bytes: u64) -> Arc<MemoryState> {
        Arc::new(MemoryState {
            limit_bytes,
            pressure: Arc::default(),
            resident_bytes: AtomicU64::new(0),
            times_high: AtomicU64::new(0),
            high_ms: AtomicU64::new(0),
            stopped: Mutex::new(false),
            wake: Condvar::new(),
        })
    }

    /// Returns the memory pressure, which components read.
    pub fn pressure(&self) -> Arc<MemoryPressure> {
        self.pressure.clone()
    }

    /// Returns a snapshot of the process's memory use.
    pub fn snapshot(&self, grant: &Grant) -> MemorySnapshot {
        MemorySnapshot {
            limit_bytes: self.limit_bytes,
            resident_bytes: self.resident_bytes.load(Ordering::Relaxed),
            pressure: self.pressure.level().name(),
            times_high: self.times_high.load(Ordering::Relaxed),
            high_seconds: self.high_ms.load(Ordering::Relaxed) as f64 / 1000.0,
            granted_bytes: grant.used(),
            grant_limit_bytes: grant.limit(),
            grant_bytes_max: grant.bytes_max(),
        }
    }

    /// Tells the governor's thread to exit.
    pub fn stop(&self) {
        *self.stopped.lock() = true;
        self.wake.notify_all();
    }

    /// Waits for the next measurement; returns whether to exit.
    fn wait(&self, interval: Duration) -> bool {
        let mut stopped = self.stopped.lock();
        self.wake.wait_while_for(&mut stopped, |stopped| !*stopped, interval);
        *stopped
    }
}

/// Adapts the memory grant to the process's memory use.
pub(crate) struct Governor {
    host: MemoryHost,
    state: Arc<MemoryState>,
    grant: Arc<Grant>,
    steps: GrantSteps,
    /// When a log line last reported that the pressure had become high.
    logged: Option<Instant>,
    /// Whether the last log line reported high pressure.
    is_logged_high: bool,
}

impl Governor {
    /// Creates a governor for a grant that never becomes smaller than `least_bytes`.
    pub fn new(
        host: MemoryHost,
        state: Arc<MemoryState>,
        grant: Arc<Grant>,
        least_bytes: u64,
    ) -> Governor {
        let steps = GrantSteps::new(grant.bytes_max(), least_bytes);
        Governor { host, state, grant, steps, logged: None, is_logged_high: false }
    }

    /// Runs the thread's loop.
    pub fn run(mut self) {
        let mut last = Instant::now();
        let mut interval = INTERVAL;
        while !self.state.wait(interval) {
            let now = Instant::now();
            if let Some(resident_bytes) = (self.host.resident_bytes)() {
                let before_bytes = self.state.resident_bytes.load(Ordering::Relaxed);
                interval = interval_after(before_bytes, resident_bytes, self.state.limit_bytes);
                self.look(resident_bytes, now, now - last);
            }
            last = now;
        }
    }

    /// Acts on a measurement of the resident memory.
    fn look(&mut self, resident_bytes: u64, now: Instant, elapsed: Duration) {
        let limit_bytes = self.state.limit_bytes;
        let before = self.state.pressure.level();
        let expected_bytes = resident_bytes + self.state.pressure.expected_bytes();
        let pressure = next_level(before, expected_bytes, limit_bytes);
        self.state.resident_bytes.store(resident_bytes, Ordering::Relaxed);
        self.state.pressure.set(pressure);
        let promised_bytes = (self.host.promised_bytes)();
        let full_bytes = limit_bytes / 100 * FULL_PERCENT;
        self.state.pressure.set_full(expected_bytes + promised_bytes >= full_bytes);
        self.state.pressure.allow_growth(growth_bytes(expected_bytes, limit_bytes));
        if pressure == Pressure::High {
            self.state.high_ms.fetch_add(elapsed.as_millis() as u64, Ordering::Relaxed);
        }
        let look = MemoryLook { resident_bytes, limit_bytes, pressure };
        self.note_change(before, look, now);
        if let Some(bytes) = self.steps.next(look, now) {
            self.grant.set_limit(bytes);
        }
        (self.host.on_look)(look);
    }

    /// Counts and logs that the pressure became high, or is no longer high.
    fn note_change(&mut self, before: Pressure, look: MemoryLook, now: Instant) {
        let is_high = look.pressure == Pressure::High;
        if is_high == (before == Pressure::High) {
            return;
        }
        if is_high {
            self.state.times_high.fetch_add(1, Ordering::Relaxed);
        }
        let is_due = self.logged.is_none_or(|logged| now - logged >= LOG_INTERVAL);
        // If a log line reported the start, another log line reports the end.
        if (is_high && is_due) || (!is_high && self.is_logged_high) {
            self.is_logged_high = is_high;
            self.logged = is_high.then_some(now).or(self.logged);
            log_change(look);
        }
    }
}

/// Returns the number of bytes by which the expected memory may grow until the next measurement.
fn growth_bytes(bytes: u64, limit_bytes: u64) -> u64 {
    let room = (limit_bytes / 100 * HIGH_PERCENT).saturating_sub(bytes);
    (room / GROWTH_PART).max(limit_bytes / GROWTH_LEAST_PART)
}

/// Returns the time until the next measurement, given the last two.
fn interval_after(before_bytes: u64, bytes: u64, limit_bytes: u64) -> Duration {
    let is_calm = bytes.abs_diff(before_bytes) <= limit_bytes / CALM_PART;
    if is_calm { CALM_INTERVAL } else { INTERVAL }
}

fn log_change(look: MemoryLook) {
    let mebibytes = |bytes: u64| bytes >> 20;
    let used = mebibytes(look.resident_bytes);
    let limit = mebibytes(look.limit_bytes);
    if look.pressure == Pressure::High {
        log::warn!(
            "memory: {used} MiB of limits.memory ({limit} MiB) are in use; until less than \
             {HIGH_ENDS_PERCENT}% are in use, sources read less, windows end early, and new \
             series are counted together"
        );
    } else {
        log::info!(
            "memory: {used} MiB of limits.memory ({limit} MiB) are in use, which is no longer high"
        );
    }
}

/// Returns the pressure level for `bytes` of memory that is resident, or is expected to be soon.
fn next_level(before: Pressure, bytes: u64, limit_bytes: u64) -> Pressure {
    let mark = |percent: u64| limit_bytes / 100 * percent;
    let was_high = before == Pressure::High;
    match bytes {
        bytes if bytes >= mark(HIGH_PERCENT) => Pressure::High,
        bytes if was_high && bytes >= mark(HIGH_ENDS_PERCENT) => Pressure::High,
        bytes if bytes < mark(LOW_PERCENT) => Pressure::Low,
        _ => Pressure::Normal,
    }
}

/// The limit of the grant. It shrinks in steps while the pressure is high, and grows again in steps
/// that do not make the pressure high.
struct GrantSteps {
    bytes_max: u64,
    least_bytes: u64,
    bytes: u64,
    stepped: Option<Instant>,
}

impl GrantSteps {
    fn new(bytes_max: u64, least_bytes: u64) -> GrantSteps {
        let least_bytes = least_bytes.min(bytes_max);
        GrantSteps { bytes_max, least_bytes, bytes: bytes_max, stepped: None }
    }

    /// Returns the new limit; `None` if the limit does not change.
    fn next(&mut self, look: MemoryLook, now: Instant) -> Option<u64> {
        if self.stepped.is_some_and(|stepped| now - stepped < STEP_INTERVAL) {
            return None;
        }
        let high = look.limit_bytes / 100 * HIGH_PERCENT;
        let room = high.saturating_sub(look.resident_bytes);
        let next = match look.pressure {
            Pressure::High => self.bytes - self.bytes / 4,
            _ => self.bytes + room.min(self.bytes_max / 4),
        };
        let next = next.clamp(self.least_bytes, self.bytes_max);
        if next == self.bytes {
            return None;
        }
        (self.bytes, self.stepped) = (next, Some(now));
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    const MIB: u64 = 1 << 20;

    fn look(resident_mib: u64, pressure: Pressure) -> MemoryLook {
        MemoryLook { resident_bytes: resident_mib * MIB, limit_bytes: 100 * MIB, pressure }
    }

    #[test]
    fn memory_that_changes_is_looked_at_more_often() {
        let interval = |before, bytes| interval_after(before * MIB, bytes * MIB, 100 * MIB);
        assert_eq!(interval(50, 51), CALM_INTERVAL);
        assert_eq!((interval(50, 52), interval(52, 50)), (INTERVAL, INTERVAL));
    }

    #[test]
    fn growth_is_half_of_the_room_but_never_nothing() {
        let growth = |bytes| growth_bytes(bytes, 3200);
        assert_eq!([0, 2000, 2400, 3200].map(growth), [1280, 280, 100, 100]);
    }

    #[test]
    fn the_level_follows_the_marks_with_hysteresis() {
        let level = |before, mib: u64| next_level(before, mib * MIB, 100 * MIB);
        assert_eq!(level(Pressure::Normal, 59), Pressure::Low);
        assert_eq!(level(Pressure::Low, 60), Pressure::Normal);
        assert_eq!(level(Pressure::Normal, 79), Pressure::Normal);
        assert_eq!(level(Pressure::Normal, 80), Pressure::High);
        assert_eq!(level(Pressure::High, 76), Pressure::High);
        assert_eq!(level(Pressure::High, 74), Pressure::Normal);
        assert_eq!(level(Pressure::High, 10), Pressure::Low);
        assert_eq!(level(Pressure::Low, 99), Pressure::High, "both marks at once");
    }

    #[test]
    fn the_grant_shrinks_to_its_least_and_grows_back() {
        let mut steps = GrantSteps::new(40 * MIB, 15 * MIB);
        let mut now = Instant::now();
        let mut next = |mib, pressure| {
            now += STEP_INTERVAL;
            steps.next(look(mib, pressure), now).map(|bytes| bytes / MIB)
        };
        assert_eq!(next(50, Pressure::Low), None, "it is whole");
        assert_eq!(next(90, Pressure::High), Some(30));
        assert_eq!(next(90, Pressure::High), Some(22));
        assert_eq!(next(90, Pressure::High), Some(16));
        assert_eq!(next(90, Pressure::High), Some(15));
        assert_eq!(next(99, Pressure::High), None, "the least");
        assert_eq!(next(79, Pressure::Normal), Some(16), "more would make it high");
        assert_eq!(next(71, Pressure::Normal), Some(25));
        assert_eq!(next(10, Pressure::Low), Some(35));
        assert_eq!(next(10, Pressure::Low), Some(40));
        assert_eq!(next(10, Pressure::Low), None);
    }

    #[test]
    fn steps_keep_their_distance() {
        let mut steps = GrantSteps::new(40 * MIB, 0);
        let now = Instant::now();
        assert!(steps.next(look(90, Pressure::High), now).is_some());
        assert!(steps.next(look(90, Pressure::High), now + STEP_INTERVAL / 2).is_none());
        assert!(steps.next(look(90, Pressure::High), now + STEP_INTERVAL).is_some());
    }

    #[test]
    fn a_look_sets_the_pressure_and_the_grant_and_is_reported() {
        let grant = Grant::new(40 * MIB);
        let state = MemoryState::new(100 * MIB);
        let looks = Arc::new(AtomicUsize::new(0));
        let seen = looks.clone();
        let host = MemoryHost {
            resident_bytes: Arc::new(|| None),
            promised_bytes: Arc::new(|| 20 * MIB),
            on_look: Arc::new(move |_| _ = seen.fetch_add(1, Ordering::Relaxed)),
        };
        let mut governor = Governor::new(host, state.clone(), grant.clone(), MIB);
        let begin = Instant::now();
        let second = Duration::from_secs(1);
        governor.look(85 * MIB, begin, second);
        governor.look(85 * MIB, begin + second, second);
        let high = state.snapshot(&grant);
        assert_eq!((high.pressure, high.times_high, high.high_seconds), ("high", 1, 2.0));
        assert_eq!(high.grant_limit_bytes, 40 * MIB / 16 * 9);
        assert_eq!((high.resident_bytes, high.limit_bytes), (85 * MIB, 100 * MIB));
        governor.look(20 * MIB, begin + 2 * second, second);
        assert_eq!((state.snapshot(&grant).pressure, state.pressure.may_grow()), ("low", true));
        governor.look(76 * MIB, begin + 2 * second, second);
        assert_eq!((state.snapshot(&grant).pressure, state.pressure.may_grow()), ("normal", false));
        assert!(!governor.is_logged_high);
        governor.look(90 * MIB, begin + 3 * second, second);
        assert!(!governor.is_logged_high, "within a minute");
        assert_eq!((state.snapshot(&grant).times_high, looks.load(Ordering::Relaxed)), (2, 5));
    }

    #[test]
    fn the_thread_ends_when_it_is_stopped() {
        let state = MemoryState::new(100 * MIB);
        let host = MemoryHost {
            resident_bytes: Arc::new(|| Some(90 * MIB)),
            promised_bytes: Arc::new(|| 0),
            on_look: Arc::new(|_| ()),
        };
        let governor = Governor::new(host, state.clone(), Grant::new(MIB), 0);
        let thread = std::thread::spawn(move || governor.run());
        while state.pressure.level() != Pressure::High {
            std::thread::yield_now();
        }
        state.stop();
        thread.join().unwrap();
    }
}
