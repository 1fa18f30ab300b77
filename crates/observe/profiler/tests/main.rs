//! All tests of the crate's public items, in one binary.
//!
//! Some tests change state that a process can change only once. `scripts/test` runs each test in a
//! separate process; `cargo test` runs all tests in one process, where these tests can fail.

mod allocations;
mod alternate_stack;
mod foreign_handler;
mod generated_code;
mod no_timers;
mod sampling;
mod support;
