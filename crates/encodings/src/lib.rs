//! Metrics as bytes for others. Pure: no I/O and no clock, so that any bytes can be tried on it
//! alone.
//!
//! A [`Metric`](metric::Metric) is what an encoder takes: slices of the event it came from, nothing
//! copied.

mod json;
pub mod metric;
pub mod msgpack;
pub mod prometheus;
