//! Components that take data in.

pub mod dogstatsd;
pub mod file;
pub mod generate;
pub mod internal_metrics;
pub mod metricserver;
pub mod stdin;
