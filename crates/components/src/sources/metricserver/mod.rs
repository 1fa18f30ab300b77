//! Source `metricserver`: receives points in the metric server's msgpack protocol.
//!
//! [`crate::metrics`] processes them.

mod config;

pub use config::MetricServerConfig;
