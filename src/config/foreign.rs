//! Names under which other agents have what is here under another one.

use millstream_model::Kind;

/// For each kind, names elsewhere and the type here that does the same or comes nearest.
const NAMES: &[(Kind, &str, &[&str])] = &[
    (Kind::Source, "file", &["tail", "in_tail", "filelog", "filestream", "logfile", "imfile", "log_file"]),
    (Kind::Source, "generate", &["demo_logs", "dummy", "in_dummy"]),
    (Kind::Source, "dogstatsd", &["statsd", "datadog_agent", "in_statsd"]),
    (Kind::Source, "host_metrics", &["hostmetrics", "node_exporter", "node_exporter_metrics", "system"]),
    (Kind::Transform, "parse", &["grok", "json_parser", "regex_parser", "parser", "logfmt"]),
    (
        Kind::Transform,
        "fields",
        &["remap", "mutate", "modify", "record_modifier", "record_transformer", "attributes"],
    ),
    (Kind::Transform, "filter", &["grep"]),
    (
        Kind::Transform,
        "route",
        &["rewrite_tag_filter", "rewrite_tag", "exclusive_route", "swimlanes", "routing"],
    ),
    (Kind::Transform, "sample", &["sampler", "probabilistic_sampler"]),
    (Kind::Sink, "blackhole", &["null", "nop", "devnull"]),
    (Kind::Sink, "console", &["stdout", "debug", "print"]),
    (Kind::Sink, "file", &["out_file", "fileexporter", "omfile"]),
    (Kind::Sink, "http", &["out_http", "omhttp", "webhook"]),
    (Kind::Sink, "kafka", &["out_kafka", "out_kafka2", "rdkafka", "kafka2", "omkafka"]),
    (Kind::Sink, "prometheus_exporter", &["prometheus", "prometheus_scrape"]),
    (Kind::Sink, "prometheus_remote_write", &["prometheusremotewrite", "remote_write"]),
    (Kind::Sink, "tcp", &["socket", "omfwd"]),
];

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
        assert_eq!(advice(Kind::Source, "tail", &["stdin"]), None);
        assert_eq!(advice(Kind::Sink, "tail", &["file"]), None);
    }
}
