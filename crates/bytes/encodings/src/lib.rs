//! Encoders of metrics. No I/O, no clock.
//!
//! A separate crate because it is pure and fuzzed alone.
//!
//! A [`Metric`](metric::Metric) is what an encoder takes: slices of the event it came from, nothing
//! copied.

#![forbid(unsafe_code)]

mod json;
pub mod metric;
pub mod msgpack;
pub mod prometheus;
