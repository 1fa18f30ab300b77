//! Metric encoders, and building blocks of binary formats. No I/O and no clock.
//!
//! A separate crate because it is pure and fuzzed alone.
//!
//! Encoders take a [`Metric`](metric::Metric), which borrows slices of its event instead of copying
//! them.

#![forbid(unsafe_code)]

pub mod binary;
mod json;
pub mod metric;
pub mod msgpack;
pub mod prometheus;
