//! Source `metricserver`: points of clients that send the metric server's msgpack.
//!
//! [`crate::metrics`] processes them.

mod config;

pub use config::MetricServerConfig;
