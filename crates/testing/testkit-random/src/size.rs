//! The size of a random test.

/// The environment variable that selects and multiplies the long version.
const VARIABLE: &str = "SOAK";

/// Number of cases, calls or seconds of a random test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestSize {
    /// Size in the gate, `make test`.
    pub gate: u64,
    /// Size in the long version, `make soak`. `SOAK=n` multiplies it by n.
    pub long: u64,
}

impl TestSize {
    /// Returns the size of this run: the gate's size, or n times the long size with `SOAK=n`.
    pub fn get(self) -> u64 {
        self.of(soak())
    }

    /// Returns the size like `get`, as a `usize` for items that are kept in memory.
    pub fn count(self) -> usize {
        usize::try_from(self.get()).expect("a size that fits the memory")
    }

    /// Returns the gate's size or the long size, without the factor of `SOAK=n`; for the size of
    /// one case, when the number of cases is already multiplied.
    pub fn per_case(self) -> u64 {
        self.of(soak().map(|_| 1))
    }

    fn of(self, soak: Option<u64>) -> u64 {
        soak.map_or(self.gate, |times| self.long.saturating_mul(times))
    }
}

/// Returns the n of `SOAK=n`, by which long sizes are multiplied; `None` for the gate's sizes.
///
/// # Panics
///
/// Panics if the variable is not a number of at least 1.
pub(crate) fn soak() -> Option<u64> {
    let times = crate::number(VARIABLE);
    assert!(times != Some(0), "{VARIABLE}=0: leave it unset for the sizes of the gate");
    times
}

#[cfg(test)]
mod tests {
    use super::TestSize;

    #[test]
    fn soak_multiplies_the_long_size() {
        let size = TestSize { gate: 3, long: 50 };
        assert_eq!((size.of(None), size.of(Some(1)), size.of(Some(4))), (3, 50, 200));
    }
}
