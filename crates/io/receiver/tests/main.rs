//! Tests of the public interface of the crate, in one binary.
//!
//! Some tests change state that exists once per process. `scripts/test` runs each test in a
//! separate process; `cargo test` runs them all in one process, in which these tests can fail.

mod datagrams;
mod errors;
mod exhausted;
mod pauses;
mod recording;
mod streams;
mod support;
mod syslog;
mod takeover;
