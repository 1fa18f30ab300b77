//! Source `metricserver`: points of clients that speak the metric server's msgpack.
//!
//! What it does with them is in [`crate::metrics`].

mod config;

pub use config::MetricServerConfig;
