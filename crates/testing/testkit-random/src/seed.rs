//! The seed of a random test.

use crate::report::Report;
use crate::size::{TestSize, soak};
use fastrand::Rng;
use std::ops::{Deref, DerefMut, Range};
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};

/// The environment variable with the seed.
const VARIABLE: &str = "SEED";

/// The seed of a random test. If the test panics, the seed is printed. When the value is dropped,
/// its line is added to the summary of `make soak`, so the value must live as long as the test.
#[must_use = "the seed is printed if it lives when the test fails"]
#[derive(Debug)]
pub struct Seed {
    /// The seed that replays the running case.
    value: AtomicU64,
    report: Report,
}

impl Seed {
    /// Returns the seed in `SEED`, otherwise a new one.
    #[track_caller]
    pub fn of_test() -> Seed {
        Seed::of_test_at(Location::caller())
    }

    /// Returns the seed like `of_test`, for the test at a source location.
    pub(crate) fn of_test_at(at: &Location<'_>) -> Seed {
        // Short numbers are easier to type.
        Seed::with(crate::number(VARIABLE).unwrap_or_else(|| fastrand::u32(..).into()), at)
    }

    /// Returns the seed in `SEED`, otherwise `gate`; for a test that must be the same in every run
    /// of the gate.
    #[track_caller]
    pub fn of_test_or(gate: u64) -> Seed {
        Seed::with(crate::number(VARIABLE).unwrap_or(gate), Location::caller())
    }

    pub(crate) fn with(value: u64, at: &Location<'_>) -> Seed {
        Seed { value: AtomicU64::new(value), report: Report::at(at) }
    }

    /// Returns the seed as a number.
    pub fn value(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }

    /// Returns random numbers from this seed. They keep the seed alive.
    pub fn random(self) -> Random {
        Random { random: Rng::with_seed(self.value()), seed: self }
    }

    /// Returns a seed for each case. If a case fails, its seed is printed. With that seed in
    /// `SEED`, the failed case runs first, regardless of the number of cases.
    pub fn cases(self, count: TestSize) -> impl Iterator<Item = u64> {
        let first = self.value();
        (0..count.get()).map(move |case| {
            let seed = first.wrapping_add(case);
            self.set_value(seed);
            self.count(1);
            seed
        })
    }

    /// Changes the printed seed. A test that runs several cases at once calls this before it fails,
    /// with the seed of the failed case.
    pub fn set_value(&self, seed: u64) {
        self.value.store(seed, Ordering::Relaxed);
    }

    /// Adds to the number of cases in the summary, for a test with one seed for all cases.
    pub fn count(&self, cases: u64) {
        self.report.count(cases);
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", advice(self.value(), soak()));
        }
        self.report.seed = Some(self.value());
    }
}

/// Returns instructions for repeating a failure.
fn advice(seed: u64, soak: Option<u64>) -> String {
    let soak = soak.map_or(String::new(), |times| format!(" SOAK={times}"));
    format!("{VARIABLE}={seed}{soak} replays this test")
}

/// Random numbers of a test, with their seed.
#[derive(Debug)]
pub struct Random {
    random: Rng,
    seed: Seed,
}

impl Random {
    /// Returns the seed of the random numbers.
    pub fn seed(&self) -> &Seed {
        &self.seed
    }

    /// Returns the indexes of the cases, which share these random numbers.
    pub fn rounds(&self, count: TestSize) -> Range<u64> {
        let count = count.get();
        self.seed.count(count);
        0..count
    }
}

impl Deref for Random {
    type Target = Rng;

    fn deref(&self) -> &Rng {
        &self.random
    }
}

impl DerefMut for Random {
    fn deref_mut(&mut self) -> &mut Rng {
        &mut self.random
    }
}

#[cfg(test)]
mod tests {
    use super::{Seed, advice};
    use crate::TestSize;
    use fastrand::Rng;
    use std::panic::Location;

    const CASES: TestSize = TestSize { gate: 3, long: 3 };

    fn seed(value: u64) -> Seed {
        Seed::with(value, Location::caller())
    }

    #[test]
    fn the_advice_names_what_the_run_was_given() {
        assert_eq!(advice(17, None), "SEED=17 replays this test");
        assert_eq!(advice(17, Some(2)), "SEED=17 SOAK=2 replays this test");
    }

    #[test]
    fn a_seed_begins_one_sequence() {
        let mut random = seed(17).random();
        let mut same = Rng::with_seed(17);
        let drawn: Vec<u64> = (0..10).map(|_| random.u64(..)).collect();
        assert!(drawn.iter().all(|number| *number == same.u64(..)));
        assert_eq!(random.seed().value(), 17);
    }

    #[test]
    fn each_case_has_a_seed_that_makes_it_the_first() {
        let seeds: Vec<u64> = seed(u64::MAX).cases(CASES).take(3).collect();
        assert_eq!(seeds, [u64::MAX, 0, 1]);
        assert_eq!(seed(seeds[1]).cases(CASES).next(), Some(0));
    }

    /// The seed that a panic prints is the seed of the running case.
    #[test]
    fn the_current_case_is_the_value() {
        let first = seed(5);
        let mut cases = first.cases(CASES);
        assert_eq!((cases.next(), cases.next()), (Some(5), Some(6)));
    }
}
