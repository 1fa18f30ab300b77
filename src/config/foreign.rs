//! Names under which other agents have what is here under another one.

use millstream_model::Kind;

/// For each kind, names elsewhere and the type here that does the same or comes nearest.
const NAMES: &[(Kind, &str, &[&str])] = &[
    (
        Kind::Source,
        "file",
        &[
            "tail",
            "in_tail",
            "filelog",
            "filestream",
            "logfile",
            "imfile",
            "log_file",
            "log",
            "filebeat",
            "kubernetes_logs",
            "container",
        ],
    ),
    (Kind::Source, "generate", &["demo_logs", "dummy", "in_dummy"]),
    (Kind::Source, "dogstatsd", &["statsd", "datadog_agent", "in_statsd"]),
    (Kind::Source, "host_metrics", &["hostmetrics", "node_exporter", "node_exporter_metrics", "system"]),
    (
        Kind::Transform,
        "parse",
        &["grok", "json_parser", "regex_parser", "parser", "logfmt", "dissect", "decode_json_fields"],
    ),
    (
        Kind::Transform,
        "fields",
        &["remap", "mutate", "modify", "record_modifier", "record_transformer", "attributes"],
    ),
    (Kind::Transform, "filter", &["grep", "drop_event"]),
    (Kind::Transform, "redact", &["redaction", "mask_sequences"]),
    (Kind::Transform, "throttle", &["rate_limit"]),
    (
        Kind::Transform,
        "route",
        &["rewrite_tag_filter", "rewrite_tag", "exclusive_route", "swimlanes", "routing"],
    ),
    (Kind::Transform, "sample", &["sampler", "probabilistic_sampler"]),
    (Kind::Sink, "blackhole", &["null", "nop", "devnull"]),
    (Kind::Sink, "console", &["stdout", "debug", "print"]),
    (Kind::Sink, "file", &["out_file", "fileexporter", "omfile"]),
    (Kind::Sink, "http", &["out_http", "omhttp", "webhook", "datadog_logs", "splunk_hec", "splunk_hec_logs"]),
    (Kind::Sink, "kafka", &["out_kafka", "out_kafka2", "rdkafka", "kafka2", "omkafka"]),
    (Kind::Sink, "prometheus_exporter", &["prometheus", "prometheus_scrape"]),
    (Kind::Sink, "prometheus_remote_write", &["prometheusremotewrite", "remote_write"]),
    (Kind::Sink, "tcp", &["socket", "omfwd"]),
];

/// For each kind, names elsewhere of what nothing here does yet.
const NOT_YET: &[(Kind, &[&str])] = &[
    (
        Kind::Source,
        &[
            "socket",
            "tcp",
            "udp",
            "unix",
            "syslog",
            "in_syslog",
            "journald",
            "systemd",
            "in_systemd",
            "http",
            "http_server",
            "in_http",
            "kafka",
            "prometheus_scrape",
            "prometheus",
            "otlp",
            "opentelemetry",
            "beats",
            "lumberjack",
            "fluent",
            "forward",
            "in_forward",
            "docker_logs",
            "exec",
            "in_exec",
            "winlog",
            "elasticsearch",
        ],
    ),
    (
        Kind::Transform,
        &[
            "lua",
            "script",
            "wasm",
            "log_to_metric",
            "logs_to_metrics",
            "aggregate",
            "reduce",
            "kubernetes",
            "geoip",
        ],
    ),
    (
        Kind::Sink,
        &[
            "elasticsearch",
            "es",
            "opensearch",
            "loki",
            "clickhouse",
            "s3",
            "aws_s3",
            "otlp",
            "opentelemetry",
            "otlphttp",
            "datadog_metrics",
            "influxdb",
            "logstash",
            "forward",
            "out_forward",
            "syslog",
            "redis",
            "nats",
            "amqp",
            "gcs",
            "aws_cloudwatch_logs",
            "statsd",
        ],
    ),
];

/// Whether a type is what other agents have under that name, and nothing here does it yet.
pub fn is_not_yet(kind: Kind, given: &str) -> bool {
    NOT_YET.iter().any(|(of, names)| *of == kind && names.contains(&given))
}

/// Advice for a type that other agents call so, if one of `types` is near to it.
pub fn advice(kind: Kind, given: &str, types: &[&str]) -> Option<String> {
    let is_it = |(of, name, names): &&(Kind, &str, &[&str])| {
        *of == kind && types.contains(name) && names.contains(&given)
    };
    let (_, name, _) = NAMES.iter().find(is_it)?;
    Some(format!("write `{name}`, which is the nearest to it here"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Catalog;
    use crate::wiring::Registry;

    #[test]
    fn every_name_leads_to_a_type_and_is_none() {
        for (kind, name, names) in NAMES {
            let types = Registry.types(*kind);
            assert!(types.contains(name), "{name}");
            for given in *names {
                let told = advice(*kind, given, &types).unwrap();
                assert!(told.contains(&format!("`{name}`")) && !types.contains(given), "{given}: {told}");
            }
        }
        for (kind, names) in NOT_YET {
            let types = Registry.types(*kind);
            let is_there = |name: &&&str| types.contains(*name) || advice(*kind, name, &types).is_some();
            assert_eq!(names.iter().find(is_there), None);
        }
        assert_eq!(advice(Kind::Source, "tail", &["stdin"]), None);
        assert_eq!(advice(Kind::Sink, "tail", &["file"]), None);
    }
}
