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

/// Options, and their names in other agents; `held.max` names a key within another.
const OPTIONS: &[(&str, &[&str])] = &[
    ("include", &["paths", "path", "Path", "file", "files"]),
    ("exclude", &["exclude_files", "exclude_path", "Exclude_Path"]),
    (
        "read_from",
        &["start_at_beginning", "start_at", "read_from_head", "Read_from_Head", "ignore_checkpoints"],
    ),
    ("ignore_older", &["ignore_older_secs"]),
    ("open_files_max", &["harvester_limit", "max_open_files", "open_files_limit"]),
    ("max_line", &["max_line_bytes", "max_line_size", "max_bytes", "max_message_size"]),
    ("held.max", &["max_held"]),
    ("keep_lines", &["include_lines"]),
    ("drop_lines", &["exclude_lines", "exclude_at_match"]),
    ("attributes", &["fields", "labels", "add_field", "tags"]),
    ("where", &["condition", "query", "expression"]),
    ("events", &["threshold", "rate", "max_events"]),
    ("window", &["window_secs"]),
    ("key", &["key_field"]),
    ("one_in", &["rate", "sampling_percentage"]),
    ("routes", &["route", "rules", "outputs"]),
    ("brokers", &["bootstrap_servers", "hosts", "broker_list"]),
    ("options", &["librdkafka_options", "rdkafka_options"]),
    ("uri", &["url", "endpoint", "host"]),
    ("endpoints", &["urls", "hosts"]),
    ("bytes", &["max_bytes", "max_size", "bulk_max_bytes"]),
    ("timeout", &["timeout_secs", "flush_interval"]),
    ("listen", &["address", "addresses", "dogstatsd_socket", "dogstatsd_port", "socket"]),
    ("period", &["flush_interval", "flush_period_secs", "interval", "scrape_interval_secs"]),
    ("aggregates", &["histogram_aggregates"]),
    ("percentiles", &["histogram_percentiles"]),
    ("max", &["max_size", "max_bytes", "max_events"]),
    ("inputs", &["input", "from", "match"]),
];

/// The one of `keys` that other agents call `given`, or that holds what they call so: the key, and what to
/// write.
pub fn option<'a>(given: &str, keys: &[&'a str]) -> Option<(&'a str, String)> {
    let found = OPTIONS.iter().filter(|(_, names)| names.contains(&given)).find_map(|(path, _)| {
        let (outer, inner) =
            path.split_once('.').map_or((*path, None), |(outer, inner)| (outer, Some(inner)));
        let key = keys.iter().find(|key| **key == outer)?;
        Some((*key, inner))
    });
    let (key, inner) = found?;
    let text =
        inner.map_or_else(|| format!("write `{key}`"), |inner| format!("write `{key}: {{ {inner}: ... }}`"));
    Some((key, text))
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
        assert_eq!(option("paths", &["type", "include"]), Some(("include", "write `include`".into())));
        assert_eq!(option("max_held", &["held"]), Some(("held", "write `held: { max: ... }`".into())));
        assert_eq!(option("hosts", &["uri", "endpoints"]), Some(("endpoints", "write `endpoints`".into())));
        assert_eq!(option("paths", &["type"]), None);
        assert_eq!(advice(Kind::Source, "tail", &["stdin"]), None);
        assert_eq!(advice(Kind::Sink, "tail", &["file"]), None);
    }
}
