//! All tests of the crate's public interface, in one binary.
//!
//! Some tests change state that a process has only once. `scripts/test` runs each test in a
//! separate process. `cargo test` runs all tests in one process, in which these can fail.

mod backpressure;
mod buffer;
mod closing;
mod common;
mod cpu;
mod disk_buffer;
mod offload;
mod recording;
mod sources;
