//! Tests of the public interface of the crate, in one binary.
//!
//! Some tests change state that exists once per process. `scripts/test` runs each test in a
//! separate process; `cargo test` runs them all in one process, in which these tests can fail.

mod harness;
mod kafka_source;
mod recording;
