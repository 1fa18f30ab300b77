//! The `metricserver` source receives points in the metric server's msgpack protocol.
//!
//! [`crate::sources::points`] processes them.

mod config;

pub use config::MetricServerConfig;
