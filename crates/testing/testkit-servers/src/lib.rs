//! Servers for tests and benchmarks: Kafka, OpenSearch, Elasticsearch, Prometheus, Redis and
//! Toxiproxy as separate processes; HTTP and framed TCP servers and an HTTP proxy in the test
//! process; and certificates for all of them.
//!
//! A separate crate because it cuts a dependency: only tests that start a server build the clients.

#![forbid(unsafe_code)]

pub mod causes;
pub mod certificates;
pub mod frames;
pub mod http;
pub mod kafka;
pub mod ports;
pub mod prometheus;
pub mod proxy;
pub mod redis;
pub mod search;
pub mod shared;
pub mod toxiproxy;
pub mod unpack;
mod wire;
