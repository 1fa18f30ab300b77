//! Components that read data.

pub mod dogstatsd;
pub mod file;
pub mod generate;
pub mod host_metrics;
pub mod internal_logs;
pub mod internal_metrics;
pub mod jfr;
pub mod jvm;
pub mod kafka;
pub mod metricserver;
pub mod points;
pub mod stdin;
