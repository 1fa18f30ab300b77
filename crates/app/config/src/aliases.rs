//! Type and option names in other agents, with the names that Millstream uses.

use millstream_model::Kind;

/// By kind: type name of another agent, and the Millstream types that do the same or come closest.
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
    (
        Kind::Source,
        "syslog",
        &["in_syslog", "imudp", "imtcp", "imptcp", "imuxsock", "tcplog", "udplog"],
    ),
    (Kind::Source, "dogstatsd", &["statsd", "datadog_agent", "in_statsd"]),
    (
        Kind::Source,
        "host_metrics",
        &["hostmetrics", "node_exporter", "node_exporter_metrics", "system"],
    ),
    (Kind::Source, "journald", &["systemd", "in_systemd", "journal", "imjournal"]),
    (
        Kind::Transform,
        "parse",
        &[
            "grok",
            "json_parser",
            "regex_parser",
            "parser",
            "logfmt",
            "dissect",
            "decode_json_fields",
            "decode_cef",
        ],
    ),
    (
        Kind::Transform,
        "fields",
        &["remap", "mutate", "modify", "record_modifier", "record_transformer", "attributes"],
    ),
    (Kind::Transform, "aggregate", &["log_to_metric", "log_to_metrics", "logs_to_metrics"]),
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
    (
        Kind::Sink,
        "elasticsearch",
        &["es", "opensearch", "out_elasticsearch", "out_es", "omelasticsearch"],
    ),
    (Kind::Sink, "file", &["out_file", "fileexporter", "omfile"]),
    (
        Kind::Sink,
        "http",
        &["out_http", "omhttp", "webhook", "datadog_logs", "splunk_hec", "splunk_hec_logs"],
    ),
    (Kind::Sink, "kafka", &["out_kafka", "out_kafka2", "rdkafka", "kafka2", "omkafka"]),
    (Kind::Sink, "prometheus_exporter", &["prometheus", "prometheus_scrape"]),
    (Kind::Sink, "prometheus_remote_write", &["prometheusremotewrite", "remote_write"]),
    (Kind::Sink, "tcp", &["socket", "omfwd"]),
];

/// By kind: type names of other agents without a counterpart in Millstream.
const NOT_YET: &[(Kind, &[&str])] = &[
    (
        Kind::Source,
        &[
            "socket",
            "tcp",
            "udp",
            "unix",
            "http",
            "http_server",
            "in_http",
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
    (Kind::Transform, &["lua", "script", "wasm", "reduce", "kubernetes", "geoip"]),
    (
        Kind::Sink,
        &[
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

/// For some of the types in [`NOT_YET`]: advice on alternatives that do part of their work.
const INSTEAD: &[(Kind, &[&str], &str)] = &[
    (
        Kind::Transform,
        &["reduce"],
        "to join lines into one event, use `multiline` in the source that reads them; to drop \
         repeated events, use `dedupe`",
    ),
    (
        Kind::Transform,
        &["lua", "script", "wasm"],
        "use the `compute` step of `fields` for expressions, `filter` or `route` for conditions, \
         or the `jvm` transform for Groovy scripts",
    ),
];

/// Returns advice for a type without a counterpart, if another component or option does part of its
/// work.
pub fn instead(kind: Kind, given: &str) -> Option<&'static str> {
    let is_it =
        |(row_kind, names, _): &&(Kind, &[&str], &str)| *row_kind == kind && names.contains(&given);
    INSTEAD.iter().find(is_it).map(|(_, _, advice)| *advice)
}

/// Returns whether other agents have a type with this name that has no counterpart in Millstream.
pub fn is_not_yet(kind: Kind, given: &str) -> bool {
    NOT_YET.iter().any(|(row_kind, names)| *row_kind == kind && names.contains(&given))
}

/// Returns advice for a type name of another agent, if one of `types` comes close to it.
pub fn advice(kind: Kind, given: &str, types: &[&str]) -> Option<String> {
    let is_it = |(row_kind, name, names): &&(Kind, &str, &[&str])| {
        *row_kind == kind && types.contains(name) && names.contains(&given)
    };
    let (_, name, _) = NAMES.iter().find(is_it)?;
    Some(format!("use `{name}`, the closest match here"))
}

/// Millstream options with their names in other agents; `held.max` is a nested key.
const OPTIONS: &[(&str, &[&str])] = &[
    ("include", &["paths", "path", "Path", "file", "files"]),
    ("exclude", &["exclude_files", "exclude_path", "Exclude_Path"]),
    (
        "read_from",
        &[
            "start_at_beginning",
            "start_at",
            "read_from_head",
            "Read_from_Head",
            "ignore_checkpoints",
        ],
    ),
    ("path", &["journal_directory", "directory", "Path", "paths"]),
    ("since", &["since_now", "Read_From_Tail", "seek", "start_at"]),
    ("units", &["include_units"]),
    ("matches", &["include_matches", "Systemd_Filter"]),
    ("identifiers", &["syslog_identifiers"]),
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
    ("pin", &["ca_fingerprint", "ca_trusted_fingerprint", "fingerprint", "pinnedpubkey"]),
    ("proxy", &["proxy_url", "http_proxy", "https_proxy"]),
    ("timestamp", &["timestamp_format", "time_format", "json_date_format"]),
    ("listen", &["address", "addresses", "dogstatsd_socket", "dogstatsd_port", "socket"]),
    ("period", &["flush_interval", "flush_period_secs", "interval", "scrape_interval_secs"]),
    ("aggregates", &["histogram_aggregates"]),
    ("percentiles", &["histogram_percentiles"]),
    ("max", &["max_size", "max_bytes", "max_events"]),
    ("inputs", &["input", "from", "match"]),
];

/// Returns the key in `keys` that other agents call `given`, or the key that contains it, and
/// advice on what to write.
pub fn option<'a>(given: &str, keys: &[&'a str]) -> Option<(&'a str, String)> {
    let found = OPTIONS.iter().filter(|(_, names)| names.contains(&given)).find_map(|(path, _)| {
        let (outer, inner) =
            path.split_once('.').map_or((*path, None), |(outer, inner)| (outer, Some(inner)));
        let key = keys.iter().find(|key| **key == outer)?;
        Some((*key, inner))
    });
    let (key, inner) = found?;
    let text = inner
        .map_or_else(|| format!("use `{key}`"), |inner| format!("use `{key}: {{ {inner}: ... }}`"));
    Some((key, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Catalog;
    use crate::Registry;

    #[test]
    fn every_alias_maps_to_a_type_and_is_not_one() {
        for (kind, name, names) in NAMES {
            let types = Registry.types(*kind);
            assert!(types.contains(name), "{name}");
            for given in *names {
                let told = advice(*kind, given, &types).unwrap();
                assert!(
                    told.contains(&format!("`{name}`")) && !types.contains(given),
                    "{given}: {told}"
                );
            }
        }
        for (kind, names) in NOT_YET {
            let types = Registry.types(*kind);
            let is_there =
                |name: &&&str| types.contains(*name) || advice(*kind, name, &types).is_some();
            assert_eq!(names.iter().find(is_there), None);
        }
        for (kind, names, advice) in INSTEAD {
            assert!(names.iter().all(|name| is_not_yet(*kind, name)), "{names:?}: {advice}");
        }
        assert_eq!(
            option("paths", &["type", "include"]),
            Some(("include", "use `include`".into()))
        );
        assert_eq!(
            option("max_held", &["held"]),
            Some(("held", "use `held: { max: ... }`".into()))
        );
        assert_eq!(
            option("hosts", &["uri", "endpoints"]),
            Some(("endpoints", "use `endpoints`".into()))
        );
        assert_eq!(option("paths", &["type"]), None);
        assert_eq!(advice(Kind::Source, "tail", &["stdin"]), None);
        assert_eq!(advice(Kind::Sink, "tail", &["file"]), None);
    }

    /// Returns the output of `validate` for this configuration, without the file name, as if on
    /// line 1.
    fn faults(text: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.yaml");
        std::fs::write(&path, text).unwrap();
        let prefix = format!("{}:", path.display());
        let faults = crate::load(&[path], &Registry, &|_| None).expect_err(text);
        faults.into_iter().map(|fault| fault.to_string().replace(&prefix, "")).collect()
    }

    /// An unknown key of another agent is mapped to the key here, which is then not reported as
    /// missing.
    #[test]
    fn keys_of_other_agents_map_to_those_of_each_component() {
        let source = "sources: {s: {type: stdin}}";
        let sink = "sinks: {o: {type: blackhole, inputs: [s]}}";
        for (keys, given, advice) in [
            ("type: file, paths: [/a]", "paths", "use `include`"),
            ("type: file, path: [/a]", "path", "use `include`"),
            ("type: file, include: [/a], exclude_files: [b]", "exclude_files", "use `exclude`"),
            ("type: file, include: [/a], max_held: 1GiB", "max_held", "use `held: { max: ... }`"),
            (
                "type: file, include: [/a], start_at_beginning: true",
                "start_at_beginning",
                "use `read_from`",
            ),
            (
                "type: file, include: [/a], read_from_head: true",
                "read_from_head",
                "use `read_from`",
            ),
            (
                "type: file, include: [/a], harvester_limit: 9",
                "harvester_limit",
                "use `open_files_max`",
            ),
            ("type: dogstatsd, address: '127.0.0.1:0'", "address", "use `listen`"),
            ("type: journald, journal_directory: /a", "journal_directory", "use `path`"),
            ("type: journald, include_units: [a]", "include_units", "use `units`"),
            ("type: journald, since_now: true", "since_now", "use `since`"),
        ] {
            let found = faults(&format!("sources: {{s: {{{keys}}}}}\n{sink}\n"));
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].ends_with(&format!("unknown key `{given}`; {advice}")), "{found:?}");
        }
        for (section, keys, given, advice) in [
            ("transforms", "type: filter, condition: 'true'", "condition", "use `where`"),
            ("transforms", "type: throttle, threshold: 5", "threshold", "use `events`"),
            ("transforms", "type: sample, rate: 5", "rate", "use `one_in`"),
            (
                "sinks",
                "type: kafka, topic: t, bootstrap_servers: 'a:1'",
                "bootstrap_servers",
                "use `brokers`",
            ),
            ("sinks", "type: http, encoding: {codec: json}, url: 'http://a'", "url", "use `uri`"),
            (
                "sinks",
                "type: http, encoding: {codec: json}, uri: 'https://a', tls: {ca_fingerprint: a}",
                "ca_fingerprint",
                "use `pin`",
            ),
            (
                "sinks",
                "type: http, encoding: {codec: json}, uri: 'https://a', proxy_url: 'http://b'",
                "proxy_url",
                "use `proxy`",
            ),
        ] {
            let sink = if section == "transforms" { sink } else { "" };
            let found =
                faults(&format!("{source}\n{section}: {{x: {{inputs: [s], {keys}}}}}\n{sink}\n"));
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].ends_with(&format!("unknown key `{given}`; {advice}")), "{found:?}");
        }
    }

    /// The program and the page for users of other agents list the same transforms without a
    /// counterpart.
    #[test]
    fn transforms_agree_with_the_page_for_users_of_other_agents() {
        let page = include_str!("../../../../docs/coming-from.md");
        let types = Registry.types(Kind::Transform);
        for row in page.lines().filter(|line| line.contains("`log_to_metric`")) {
            let told = advice(Kind::Transform, "log_to_metric", &types).unwrap();
            assert!(told.contains("`aggregate`") && row.contains("[`aggregate`]"), "{told}: {row}");
        }
        let absent = NOT_YET.iter().filter(|(kind, _)| *kind == Kind::Transform);
        for name in absent.flat_map(|(_, names)| *names) {
            let is_mapped = page
                .lines()
                .any(|line| line.starts_with("| ") && line.contains(&format!("`{name}`")));
            assert!(!is_mapped || instead(Kind::Transform, name).is_some(), "{name}");
        }
    }

    /// Advice for common mistakes in types and values.
    #[test]
    fn common_value_mistakes_get_advice() {
        for (text, message) in [
            (
                "sources: {s: {type: stdin}}\nsinks: {o: {type: file, inputs: [s], path: /a, compression: true}}\n",
                "`compression`: expected text, found true; use `none`, `gzip` or `zstd`",
            ),
            (
                "sources: {s: {type: stdin}}\ntransforms: {t: {type: reduce, inputs: [s]}}\n\
                 sinks: {o: {type: blackhole, inputs: [t]}}\n",
                "there is no transform type \"reduce\" yet; to join lines into one event, use \
                 `multiline` in the source that reads them; to drop repeated events, use `dedupe`",
            ),
            (
                "sources: {s: {type: stdin}}\ntransforms: {t: {type: parse, inputs: [s], format: json, \
                 time: {field: t, format: '%F %T', timezone: CEST}}}\nsinks: {o: {type: blackhole, inputs: [t]}}\n",
                "an abbreviation does not identify a location; use, for example, Europe/Berlin, \
                 +02:00, UTC or local",
            ),
        ] {
            let found = faults(text);
            assert!(found.len() == 1 && found[0].ends_with(message), "{found:?}");
        }
    }
}
