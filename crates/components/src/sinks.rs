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

use crate::row::{Row, row};

/// The sinks.
pub static ROWS: &[Row] = &[
    row!(Sink, blackhole::BlackholeConfig, "blackhole", "sinks/blackhole"),
    row!(Sink, console::ConsoleConfig, "console", "sinks/console"),
    row!(Sink, elasticsearch::ElasticsearchConfig, "elasticsearch", "sinks/elasticsearch"),
    row!(Sink, file::FileConfig, "file", "sinks/file"),
    row!(Sink, http::HttpConfig, "http", "sinks/http"),
    row!(Sink, kafka::KafkaConfig, "kafka", "sinks/kafka"),
    row!(
        Sink,
        prometheus_exporter::PrometheusExporterConfig,
        "prometheus_exporter",
        "sinks/prometheus_exporter"
    ),
    row!(
        Sink,
        prometheus_remote_write::PrometheusRemoteWriteConfig,
        "prometheus_remote_write",
        "sinks/prometheus_remote_write"
    ),
    row!(Sink, tcp::TcpConfig, "tcp", "sinks/tcp"),
];
