//! Servers for tests and benchmarks: Kafka, Prometheus and Toxiproxy as processes of their own, HTTP
//! and framed TCP servers within the process, and certificates for them.
//!
//! A separate crate because it cuts a dependency: only tests that start a server build its
//! clients.

#![forbid(unsafe_code)]

pub mod certificates;
pub mod frames;
pub mod http;
pub mod kafka;
pub mod prometheus;
pub mod toxiproxy;
pub mod unpack;
mod wire;
