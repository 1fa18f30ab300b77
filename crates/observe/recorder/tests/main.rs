//! All tests of what the crate exports, in one binary.
//!
//! Some change what a process has only once. `scripts/test` runs each test in a separate process;
//! `cargo test` runs them all in one, where these can fail.

mod allocations;
mod docs;
mod jdk;
mod loom;
mod recording;
mod throughput;
