//! Memory pressure: how close the process is to its memory limit, as a level.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// A memory pressure level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Pressure {
    /// Below the low water mark.
    Low,
    /// Between the marks.
    #[default]
    Normal,
    /// Above the high water mark, and afterward until memory use is well below the mark.
    High,
}

impl Pressure {
    /// Every level, the lowest first.
    pub const ALL: [Pressure; 3] = [Pressure::Low, Pressure::Normal, Pressure::High];

    /// Returns the name in metrics and in the API.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The memory pressure of the process. The governor sets the pressure; components that keep state
/// check the pressure before they keep more.
#[derive(Debug)]
pub struct MemoryPressure {
    level: AtomicU8,
    is_full: AtomicBool,
    expected_bytes: AtomicU64,
    /// Limit on the expected bytes until the governor's next check.
    growth_until_bytes: AtomicU64,
}

impl Default for MemoryPressure {
    fn default() -> Self {
        MemoryPressure::new()
    }
}

impl MemoryPressure {
    /// Creates a memory pressure at the level `Normal`.
    pub const fn new() -> MemoryPressure {
        let level = AtomicU8::new(Pressure::Normal as u8);
        let (is_full, expected_bytes) = (AtomicBool::new(false), AtomicU64::new(0));
        let growth_until_bytes = AtomicU64::new(u64::MAX);
        MemoryPressure { level, is_full, expected_bytes, growth_until_bytes }
    }

    /// Returns the level that the governor set last.
    pub fn level(&self) -> Pressure {
        Pressure::ALL[usize::from(self.level.load(Ordering::Relaxed))]
    }

    /// Returns whether components must not keep new data that they can do without.
    pub fn is_high(&self) -> bool {
        self.level() == Pressure::High
    }

    /// Returns whether components may keep more long-lived data, such as series. This is the case
    /// if the pressure is not high, the runtimes have room for their maximum, and the expected
    /// bytes are below the limit set at the governor's last check.
    pub fn may_grow(&self) -> bool {
        !self.is_high()
            && !self.is_full.load(Ordering::Relaxed)
            && self.expected_bytes() < self.growth_until_bytes.load(Ordering::Relaxed)
    }

    /// Allows the expected bytes to grow by `bytes` until the next call. Without this limit, a
    /// burst of new series would fill a small memory limit between two of the governor's checks.
    pub fn allow_growth(&self, bytes: u64) {
        self.growth_until_bytes.store(self.expected_bytes() + bytes, Ordering::Relaxed);
    }

    /// Sets whether the remaining memory is reserved for runtimes.
    pub fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Relaxed);
    }

    /// Returns the bytes that components are expected to need for the data they already keep.
    pub fn expected_bytes(&self) -> u64 {
        self.expected_bytes.load(Ordering::Relaxed)
    }

    /// Sets the level.
    pub fn set(&self, level: Pressure) {
        self.level.store(level as u8, Ordering::Relaxed);
    }
}

/// Memory that a component will need for the data it already keeps, such as aggregates for series
/// that are in their first period. The expected memory is treated as used, so that the pressure
/// becomes high in time.
#[derive(Debug)]
pub struct ExpectedMemory {
    pressure: Arc<MemoryPressure>,
    bytes: u64,
}

impl ExpectedMemory {
    /// Creates an expectation of 0 bytes.
    pub fn new(pressure: Arc<MemoryPressure>) -> ExpectedMemory {
        ExpectedMemory { pressure, bytes: 0 }
    }

    /// Returns the pressure of the process.
    pub fn pressure(&self) -> &MemoryPressure {
        &self.pressure
    }

    /// Sets the number of expected bytes.
    pub fn set(&mut self, bytes: u64) {
        if bytes >= self.bytes {
            self.pressure.expected_bytes.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else {
            self.pressure.expected_bytes.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }
}

impl Drop for ExpectedMemory {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_expected_is_summed_until_it_is_dropped() {
        let pressure = Arc::new(MemoryPressure::default());
        let [mut first, mut second] = [(); 2].map(|()| ExpectedMemory::new(pressure.clone()));
        first.set(10);
        second.set(5);
        first.set(7);
        assert_eq!(pressure.expected_bytes(), 12);
        drop(first);
        assert_eq!(pressure.expected_bytes(), 5);
    }

    #[test]
    fn growth_ends_where_it_is_allowed_to() {
        let pressure = Arc::new(MemoryPressure::default());
        let mut expected = ExpectedMemory::new(pressure.clone());
        expected.set(10);
        pressure.allow_growth(5);
        expected.set(14);
        assert!(pressure.may_grow());
        expected.set(15);
        assert!(!pressure.may_grow());
        pressure.allow_growth(1);
        assert!(pressure.may_grow());
    }

    #[test]
    fn the_level_is_normal_until_it_is_set() {
        let pressure = MemoryPressure::default();
        assert_eq!(pressure.level(), Pressure::Normal);
        for level in Pressure::ALL {
            pressure.set(level);
            assert_eq!((pressure.level(), pressure.is_high()), (level, level == Pressure::High));
            assert_eq!(pressure.may_grow(), level != Pressure::High);
            pressure.set_full(true);
            assert!(!pressure.may_grow());
            pressure.set_full(false);
        }
    }
}
