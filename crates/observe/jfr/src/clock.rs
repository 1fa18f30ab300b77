//! Ticks, which are the unit of all times in a chunk.

use std::num::NonZeroU64;

/// The relation between ticks and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Number of ticks per second.
    pub ticks_per_second: NonZeroU64,
    /// A point in time in ticks.
    pub start_ticks: u64,
    /// The same point in time, in nanoseconds since 1970.
    pub start_unix_ns: u64,
}

impl Clock {
    /// Converts a number of ticks to nanoseconds, capped at 292 years, because readers interpret
    /// the numbers in a header as signed.
    pub fn ns(&self, ticks: u64) -> u64 {
        let ns = u128::from(ticks) * 1_000_000_000 / u128::from(self.ticks_per_second.get());
        i64::try_from(ns).unwrap_or(i64::MAX).cast_unsigned()
    }

    /// Converts a point in time to nanoseconds since 1970. Times before the clock's start yield the
    /// start.
    pub fn unix_ns(&self, ticks: u64) -> u64 {
        self.start_unix_ns.saturating_add(self.ns(ticks.saturating_sub(self.start_ticks)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_nanoseconds_without_overflow() {
        let ticks_per_second = NonZeroU64::new(1_000_000_000).unwrap();
        let mut clock = Clock { ticks_per_second, start_ticks: 1000, start_unix_ns: 5_000_000 };
        assert_eq!(clock.ns(7), 7);
        assert_eq!(clock.unix_ns(1007), 5_000_007);
        assert_eq!(clock.unix_ns(1), 5_000_000);
        clock.ticks_per_second = NonZeroU64::new(3_000_000_000).unwrap();
        assert_eq!(clock.ns(u64::MAX), 6_148_914_691_236_517_205);
        clock.ticks_per_second = NonZeroU64::MIN;
        assert_eq!(clock.ns(2), 2_000_000_000);
        assert_eq!(clock.ns(u64::MAX), i64::MAX as u64);
    }
}
