//! Components that emit data.

pub mod blackhole;
pub mod console;
pub mod elasticsearch;
pub mod file;
pub mod http;
pub mod http_delivery;
pub mod kafka;
mod prometheus;
pub mod prometheus_exporter;
pub mod prometheus_remote_write;
pub mod tcp;
