//! Seeds and sizes of random tests, with the same meaning in every test of the repository. For
//! tests only.
//!
//! - `SEED=n` is the seed of every random test of the run. Without `SEED`, a test uses the seed of
//!   the gate or a new one. A failing test prints `SEED=n replays this test`.
//! - `SOAK=n` makes every random test n times as long as its long version. Without `SOAK`, a test
//!   has the size of the gate, `make test`.
//! - `SOAK_REPORT=FILE` names a file to which every property appends a line when it finishes, for
//!   the summary of `make soak`.
//!
//! ```
//! use millstream_testkit_random::{Seed, TestSize};
//!
//! const CASES: TestSize = TestSize { gate: 100, long: 10_000 };
//!
//! // Many cases, each with a seed. The printed seed belongs to the failed case, and replays
//! // that case first.
//! for seed in Seed::of_test().cases(CASES) {
//!     let mut random = fastrand::Rng::with_seed(seed);
//!     assert!(random.u32(..10) < 10);
//! }
//!
//! // One sequence of random numbers. The printed seed replays the whole sequence.
//! let mut random = Seed::of_test().random();
//! for _ in random.rounds(CASES) {
//!     assert!(random.u32(..10) < 10);
//! }
//! ```
//!
//! A separate crate because it cuts a dependency: pure crates take and print seeds without
//! `testkit`, which needs the model and a runtime.

#![forbid(unsafe_code)]

#[cfg(feature = "proptest")]
mod property;
mod report;
mod seed;
mod size;

#[cfg(feature = "proptest")]
pub use property::property;
pub use report::Report;
pub use seed::{Random, Seed};
pub use size::TestSize;

/// Returns the number in an environment variable, if it is set.
///
/// # Panics
///
/// Panics if the value is not a number, because running the test with a different seed would be
/// worse.
fn number(variable: &str) -> Option<u64> {
    let text = std::env::var_os(variable)?;
    let number = text.to_str().and_then(|text| text.parse().ok());
    Some(number.unwrap_or_else(|| panic!("{variable} is {}, not a number", text.display())))
}
