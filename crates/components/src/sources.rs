//! Components that read data.

pub mod dogstatsd;
pub mod file;
pub mod generate;
pub mod host_metrics;
pub mod internal_logs;
pub mod internal_metrics;
pub mod jfr;
pub mod journald;
pub mod jvm;
pub mod kafka;
pub mod metricserver;
pub mod points;
pub mod stdin;
pub mod syslog;

use crate::row::{Row, row};

/// The sources.
pub static ROWS: &[Row] = &[
    row!(Source, dogstatsd::DogStatsdConfig, "dogstatsd", "sources/dogstatsd"),
    row!(Source, file::FileConfig, "file", "sources/file"),
    row!(Source, generate::GenerateConfig, "generate", "sources/generate"),
    row!(Source, host_metrics::HostMetricsConfig, "host_metrics", "sources/host_metrics"),
    row!(Source, internal_logs::InternalLogsConfig, "internal_logs", "sources/internal_logs"),
    row!(
        Source,
        internal_metrics::InternalMetricsConfig,
        "internal_metrics",
        "sources/internal_metrics"
    ),
    row!(Source, jfr::JfrConfig, "jfr", "sources/jfr"),
    row!(Source, journald::JournaldConfig, "journald", "sources/journald"),
    row!(Source, jvm::JvmSourceConfig, "jvm", "sources/jvm"),
    row!(Source, kafka::KafkaConfig, "kafka", "sources/kafka"),
    row!(Source, metricserver::MetricServerConfig, "metricserver", "sources/metricserver"),
    row!(Source, stdin::StdinConfig, "stdin", "sources/stdin"),
    row!(Source, syslog::SyslogConfig, "syslog", "sources/syslog"),
];
