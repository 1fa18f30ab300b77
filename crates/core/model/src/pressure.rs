//! How close the process is to its memory limit, as components see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// A level of memory pressure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// Below the low water mark.
    Low,
    /// Between the marks.
    #[default]
    Normal,
    /// Above the high water mark, and until the memory is well below it again.
    High,
}

impl Pressure {
    /// Every level, the lowest first.
    pub const ALL: [Pressure; 3] = [Pressure::Low, Pressure::Normal, Pressure::High];

    /// Returns its name in metrics and in the API.
    pub fn name(self) -> &'static str {
        match self {
            Pressure::Low => "low",
            Pressure::Normal => "normal",
            Pressure::High => "high",
        }
    }
}

/// The memory pressure of the process. The governor sets it; components that keep state read it
/// before they keep more.
#[derive(Debug)]
pub struct MemoryPressure {
    level: AtomicU8,
    is_full: AtomicBool,
    expected_bytes: AtomicU64,
    /// The expected bytes up to which components may grow until the governor looks again.
    growth_until_bytes: AtomicU64,
}

impl Default for MemoryPressure {
    fn default() -> Self {
        MemoryPressure::new()
    }
}

impl MemoryPressure {
    /// Creates a normal pressure.
    pub const fn new() -> MemoryPressure {
        let level = AtomicU8::new(Pressure::Normal as u8);
        let (is_full, expected_bytes) = (AtomicBool::new(false), AtomicU64::new(0));
        let growth_until_bytes = AtomicU64::new(u64::MAX);
        MemoryPressure { level, is_full, expected_bytes, growth_until_bytes }
    }

    /// Returns the level.
    pub fn level(&self) -> Pressure {
        Pressure::ALL[usize::from(self.level.load(Ordering::Relaxed))]
    }

    /// Whether components keep nothing new that they can do without.
    pub fn is_high(&self) -> bool {
        self.level() == Pressure::High
    }

    /// Whether components may keep more of what they do not give back early, such as series. Besides
    /// low pressure that needs place for what a runtime may still take, and room for what grew since
    /// the governor looked.
    pub fn may_grow(&self) -> bool {
        !self.is_high()
            && !self.is_full.load(Ordering::Relaxed)
            && self.expected_bytes() < self.growth_until_bytes.load(Ordering::Relaxed)
    }

    /// Allows the expected bytes to grow by so many until the next call. A burst of new series fills
    /// a small limit between two looks of the governor.
    pub fn allow_growth(&self, bytes: u64) {
        self.growth_until_bytes.store(self.expected_bytes() + bytes, Ordering::Relaxed);
    }

    /// Sets whether what runtimes may still take needs all that is left.
    pub fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Relaxed);
    }

    /// Returns the bytes that components will need for what they keep already.
    pub fn expected_bytes(&self) -> u64 {
        self.expected_bytes.load(Ordering::Relaxed)
    }

    /// Sets the level.
    pub fn set(&self, level: Pressure) {
        self.level.store(level as u8, Ordering::Relaxed);
    }
}

/// Memory that a component will need for what it keeps already, such as the aggregates of series
/// that have had no period. It counts as used, so that the pressure is high in time.
#[derive(Debug)]
pub struct ExpectedMemory {
    pressure: Arc<MemoryPressure>,
    bytes: u64,
}

impl ExpectedMemory {
    /// Expects nothing.
    pub fn new(pressure: Arc<MemoryPressure>) -> ExpectedMemory {
        ExpectedMemory { pressure, bytes: 0 }
    }

    /// Returns the pressure of the process.
    pub fn pressure(&self) -> &MemoryPressure {
        &self.pressure
    }

    /// Changes the number of bytes.
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
