//! Encoders of metrics, and the parts of binary forms. No I/O, no clock.
//!
//! A separate crate because it is pure and fuzzed alone.
//!
//! Encoders take a [`Metric`](metric::Metric), which borrows slices of its event without a copy.

#![forbid(unsafe_code)]

pub mod binary;
mod json;
pub mod metric;
pub mod msgpack;
pub mod prometheus;
