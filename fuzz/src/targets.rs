//! The fuzz targets, and their invariants.

mod access;
mod bulk_answer;
mod config;
mod delimited;
mod detect;
mod encodings;
mod events;
mod expressions;
mod files;
mod framing;
mod groups;
mod jfr;
mod journal;
mod json;
mod metrics;
mod parsers;
mod patterns;
mod points;
mod profiles;
mod recorder;
mod requests;
mod rules;
mod scan;
mod spool;
mod streams;
mod timestamps;
mod windows;

/// Code that accepts any bytes, with the invariants that it must keep.
pub struct Target {
    /// Name of the target and of its corpus folder.
    pub name: &'static str,
    /// Panics if an invariant is violated.
    pub run: fn(&[u8]),
    /// Words for mutations, in addition to random bytes.
    pub words: &'static [&'static [u8]],
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "access", run: access::formats, words: access::FORMAT_WORDS },
    Target { name: "bulk_answer", run: bulk_answer::bulk_answer, words: bulk_answer::WORDS },
    Target { name: "cef", run: events::cef, words: events::CEF_WORDS },
    Target { name: "config", run: config::config, words: config::WORDS },
    Target { name: "cri", run: parsers::cri, words: parsers::CONTAINER_WORDS },
    Target { name: "delimited", run: delimited::delimited, words: delimited::WORDS },
    Target { name: "detect", run: detect::detect, words: detect::WORDS },
    Target { name: "docker", run: json::docker, words: json::DOCKER_WORDS },
    Target { name: "dogstatsd", run: points::dogstatsd, words: points::LINE_WORDS },
    Target { name: "encodings", run: encodings::encodings, words: encodings::WORDS },
    Target { name: "expressions", run: expressions::expressions, words: expressions::WORDS },
    Target { name: "files", run: files::files, words: files::WORDS },
    Target { name: "framing", run: framing::framing, words: framing::WORDS },
    Target { name: "grok", run: patterns::grok, words: patterns::WORDS },
    Target { name: "groups", run: groups::groups, words: groups::WORDS },
    Target { name: "jfr", run: jfr::jfr, words: jfr::WORDS },
    Target { name: "journal", run: journal::journal, words: journal::WORDS },
    Target { name: "json", run: json::json, words: json::WORDS },
    Target { name: "key_value", run: delimited::key_value, words: delimited::PAIR_WORDS },
    Target { name: "leef", run: events::leef, words: events::LEEF_WORDS },
    Target { name: "metric_tags", run: metrics::metric_tags, words: metrics::TAG_WORDS },
    Target { name: "metrics_msgpack", run: metrics::metrics_msgpack, words: metrics::BLOCK_WORDS },
    Target { name: "metricserver", run: points::metric_server, words: points::PACK_WORDS },
    Target { name: "nginx", run: access::nginx, words: access::LINE_WORDS },
    Target { name: "profiles", run: profiles::profiles, words: profiles::WORDS },
    Target { name: "recorder", run: recorder::recorder, words: recorder::WORDS },
    Target { name: "regex", run: patterns::regex, words: patterns::WORDS },
    Target { name: "requests", run: requests::requests, words: requests::WORDS },
    Target { name: "rules", run: rules::rules, words: rules::WORDS },
    Target { name: "scan", run: scan::scan, words: scan::WORDS },
    Target { name: "spool", run: spool::spool, words: spool::WORDS },
    Target { name: "syslog", run: parsers::syslog, words: parsers::SYSLOG_WORDS },
    Target { name: "syslog_framing", run: streams::syslog_framing, words: streams::WORDS },
    Target { name: "timestamps", run: timestamps::timestamps, words: timestamps::WORDS },
    Target { name: "windows", run: windows::windows, words: windows::WORDS },
];
