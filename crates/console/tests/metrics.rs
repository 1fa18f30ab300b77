//! The text of `/metrics`, read by a strict parser, and its page in the documentation.

use crate::common::{FILES, VERSION, snapshot};
use millstream_console::{
    AgentSnapshot, ConfigState, Diagnosis, ProcessStats, Sections, prometheus,
};
use std::collections::{BTreeMap, BTreeSet};

/// Labels as tests write them.
type Labels = &'static [(&'static str, &'static str)];

/// A family: its type, and its samples by labels.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    samples: BTreeMap<Vec<(String, String)>, f64>,
}

/// Parses the text. Panics at anything that the format forbids or a careful writer would not write:
/// samples outside their family, duplicate families or samples, counters without `_total`.
fn parse(text: &str) -> BTreeMap<String, Family> {
    assert!(text.ends_with('\n'));
    let mut families = BTreeMap::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let (name, help) = line.strip_prefix("# HELP ").expect(line).split_once(' ').expect(line);
        assert!(help.len() > 5 && help.ends_with('.'), "{line}");
        let kind = lines
            .next()
            .and_then(|line| line.strip_prefix(&format!("# TYPE {name} ")))
            .expect(line);
        assert!(["counter", "gauge", "histogram"].contains(&kind), "{name}: {kind}");
        assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
        let mut family = Family { kind: kind.to_owned(), ..Family::default() };
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            let rest = line.strip_prefix(name).expect(line);
            let (labels, value) = if kind == "histogram" { part(rest) } else { sample(rest) };
            assert!(family.samples.insert(labels, value).is_none(), "twice: {line}");
        }
        assert!(families.insert(name.to_owned(), family).is_none(), "{name} twice");
    }
    families
}

/// Parses a sample of a histogram. The suffix of its name becomes a label.
fn part(line: &str) -> (Vec<(String, String)>, f64) {
    let (name, rest) = line.strip_prefix('_').expect(line).split_once('{').expect(line);
    assert!(["bucket", "sum", "count"].contains(&name), "{line}");
    let (mut labels, value) = sample(&format!("{{{rest}"));
    assert_eq!(labels.iter().any(|(label, _)| label == "le"), name == "bucket", "{line}");
    labels.push(("part".to_owned(), name.to_owned()));
    labels.sort();
    (labels, value)
}

/// Parses the labels, sorted, and the value of a sample without its name.
fn sample(line: &str) -> (Vec<(String, String)>, f64) {
    let mut labels = Vec::new();
    let mut rest = line;
    let mut before = '{';
    while let Some(label) = rest.strip_prefix(before) {
        let (name, value) = label.split_once("=\"").expect(line);
        assert!(
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'),
            "{line}"
        );
        let (value, behind) = quoted(value);
        labels.push((name.to_owned(), value));
        (rest, before) = (behind, ',');
    }
    if before == ',' {
        rest = rest.strip_prefix('}').expect(line);
    }
    labels.sort();
    let value = rest.strip_prefix(' ').expect(line);
    assert!(value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'), "{line}");
    (labels, value.parse().expect(line))
}

/// Splits off a label value: returns the unescaped text up to the closing quote, and the text after
/// the quote.
fn quoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.push(match characters.next().unwrap().1 {
                'n' => '\n',
                same @ ('\\' | '"') => same,
                other => panic!("escaped {other:?}"),
            }),
            other => value.push(other),
        }
    }
    panic!("no closing quote: {text}");
}

fn rendered() -> BTreeMap<String, Family> {
    parse(&prometheus(
        &snapshot(),
        &Diagnosis::default(),
        &ProcessStats::read(),
        VERSION,
        &ConfigState::new(0x1234_5678_9abc_def0),
    ))
}

fn labels(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut labels: Vec<_> =
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    labels.sort();
    labels
}

fn of_app(more: &[(&str, &str)]) -> Vec<(String, String)> {
    let own = [("component_id", "app"), ("component_type", "file"), ("component_kind", "source")];
    labels(&[&own, more].concat())
}

#[test]
fn counters_equal_the_snapshot() {
    let families = rendered();
    let expected: [(&str, Labels, f64); 14] = [
        ("received_events_total", &[], 1_000.0),
        ("received_bytes_total", &[], 178_000.0),
        ("sent_events_total", &[], 990.0),
        ("sent_bytes_total", &[], 170_000.0),
        ("dropped_events_total", &[("reason", "filtered")], 9.0),
        ("dropped_events_total", &[("reason", "panic")], 1.0),
        ("errors_total", &[("error_type", "io")], 3.0),
        ("noted_events_total", &[("note", "truncated")], 2.0),
        ("wait_seconds_total", &[("for", "room")], 0.5),
        ("wait_seconds_total", &[("for", "retry")], 3.0),
        ("utilization_ratio", &[], 1.25),
        ("lag", &[("sink", "out")], 4096.0),
        ("oldest", &[("sink", "copy")], 0.75),
        ("lag_seconds", &[("sink", "out")], 4.0),
    ];
    for (name, more, value) in expected {
        let name = match name {
            "lag" => "millstream_source_lag_bytes".to_owned(),
            "lag_seconds" => "millstream_source_lag_seconds".to_owned(),
            "oldest" => "millstream_oldest_unsettled_seconds".to_owned(),
            of_component => format!("millstream_component_{of_component}"),
        };
        assert_eq!(families[&name].samples.get(&of_app(more)), Some(&value), "{name} {more:?}");
    }
}

#[test]
fn sources_export_the_totals_of_their_files() {
    let families = rendered();
    let expected = [
        ("disorder_events_total", 5.0),
        ("slice_errors_total", 6.0),
        ("rotations_total", 7.0),
        ("truncations_total", 8.0),
        ("files", FILES as f64),
        ("unreadable", 1.0),
        ("log_delay_seconds", 2.5),
    ];
    for (name, value) in expected {
        let samples = &families[&format!("millstream_source_{name}")].samples;
        assert_eq!(samples, &BTreeMap::from([(of_app(&[]), value)]), "{name}");
    }
}

/// Only the files with the most lag have series, however many files there are.
#[test]
fn the_hundred_files_with_most_lag_have_metrics() {
    let families = rendered();
    for (name, base) in [("lag_bytes", 0), ("size_bytes", 1000)] {
        let samples = &families[&format!("millstream_file_{name}")].samples;
        let mut values: Vec<u64> = samples.values().map(|value| *value as u64 - base).collect();
        values.sort_unstable();
        assert!(values.into_iter().eq(FILES - 100..FILES), "{name}");
    }
    let last = of_app(&[("file", "/var/log/a \"b\".log.1"), ("file_id", "0000000000000077")]);
    assert_eq!(families["millstream_file_lag_bytes"].samples[&last], 119.0);
    assert_eq!(families["millstream_file_log_delay_seconds"].samples[&last], 2.5);
}

#[test]
fn every_component_is_exported_under_its_id() {
    let families = rendered();
    let received = &families["millstream_component_received_events_total"];
    let ids: BTreeSet<&str> = received
        .samples
        .keys()
        .flatten()
        .filter(|(name, _)| name == "component_id")
        .map(|(_, id)| &**id)
        .collect();
    assert_eq!(ids, BTreeSet::from(["app", "back\\slash\"quote\\nline", "copy", "out"]));
    let buffers: Vec<f64> = families["millstream_buffer_bytes"].samples.values().copied().collect();
    assert_eq!(buffers, [0.0, 512.0]);
    assert_eq!(families["millstream_source_lag_bytes"].samples.len(), 2);
}

#[test]
fn disk_buffers_are_exported() {
    let families = rendered();
    let figures = ["bytes", "bytes_max", "entries", "events", "oldest_seconds", "full_in_seconds"];
    let figure = |name: &str| {
        let samples = &families[&format!("millstream_disk_buffer_{name}")].samples;
        let of_out =
            [("component_id", "out"), ("component_kind", "sink"), ("component_type", "file")];
        assert_eq!(samples.len(), 1, "only one sink has a disk buffer");
        samples[&labels(&of_out)]
    };
    assert_eq!(figures.map(figure), [2048.0, f64::from(1 << 30), 3.0, 40.0, 1.5, 600.0]);
    assert_eq!(families["millstream_disk_buffer_damaged_entries_total"].kind, "counter");
}

#[test]
fn uncommitted_checkpoints_are_exported() {
    let families = rendered();
    assert_eq!(families["millstream_checkpoint_age_seconds"].samples[&Vec::new()], 12.5);
    let errors = &families["millstream_checkpoint_errors_total"];
    assert_eq!(errors.kind, "counter");
    assert_eq!(errors.samples[&labels(&[("operation", "commit")])], 12.0);
    assert_eq!(errors.samples[&labels(&[("operation", "keep")])], 0.0);
}

#[test]
fn agent_and_process_metrics_are_exported() {
    let families = rendered();
    let single = |name: &str| families[name].samples[&Vec::new()];
    assert_eq!(single("millstream_memory_granted_bytes"), 1_048_576.0);
    assert_eq!(single("millstream_memory_grant_limit_bytes"), f64::from(1 << 27));
    assert_eq!(single("millstream_memory_limit_bytes"), f64::from(1 << 29));
    assert_eq!(single("millstream_memory_resident_bytes"), f64::from(1 << 27));
    assert_eq!(single("millstream_memory_high_total"), 3.0);
    assert_eq!(single("millstream_memory_high_seconds_total"), 1.5);
    assert_eq!(single("millstream_config_hash"), 0x1234_5678_9abc_u64 as f64);
    assert_eq!(single("millstream_config_reload_success"), 1.0);
    let config = ConfigState::new(1);
    config.refuse();
    let refused = parse(&prometheus(
        &snapshot(),
        &Diagnosis::default(),
        &ProcessStats::default(),
        VERSION,
        &config,
    ));
    assert_eq!(refused["millstream_config_reload_success"].samples[&Vec::new()], 0.0);
    assert_eq!(families["millstream_build_info"].samples[&labels(&[("version", VERSION)])], 1.0);
    assert_eq!(families["millstream_process_cpu_seconds_total"].kind, "counter");
    for name in
        ["cpu_seconds_total", "resident_memory_bytes", "open_fds", "start_time_seconds", "threads"]
    {
        assert!(single(&format!("millstream_process_{name}")) > 0.0, "{name}");
    }
}

#[test]
fn figures_of_a_jvm_are_exported_if_there_is_one() {
    let families = rendered();
    let single = |name: &str| families[&*format!("millstream_jvm_{name}")].samples[&Vec::new()];
    let heap = ["heap_used_bytes", "heap_committed_bytes", "heap_max_bytes"].map(single);
    assert_eq!(heap, [10.0, 20.0, 30.0]);
    let rest = ["non_heap_used_bytes", "metaspace_used_bytes", "threads", "classes"].map(single);
    assert_eq!(rest, [40.0, 30.0, 6.0, 7.0]);
    let collections = ["collections_total", "collection_seconds_total"].map(single);
    assert_eq!(collections, [5.0, 0.5]);
    let requested = ["requested_collections_total", "ignored_collections_total"].map(single);
    assert_eq!(requested, [2.0, 1.0]);
    let process = |name: &str, process: &str| {
        families[&*format!("millstream_jvm_{name}")]
            .samples
            .get(&labels(&[("process", process)]))
            .copied()
    };
    assert_eq!([process("classes", "team"), process("classes", "other")], [Some(9.0), None]);
    assert_eq!(
        [process("process_up", "team"), process("process_up", "other")],
        [Some(1.0), Some(0.0)]
    );
    assert_eq!(process("process_restarts_total", "other"), Some(3.0));
    let sections = Sections { jvm: None, jvm_processes: Vec::new(), ..snapshot().sections };
    let without = AgentSnapshot { sections, ..snapshot() };
    let config = ConfigState::new(1);
    let text =
        prometheus(&without, &Diagnosis::default(), &ProcessStats::default(), VERSION, &config);
    assert!(!text.contains("millstream_jvm"), "{text}");
}

#[test]
fn unknown_values_are_omitted() {
    let known = parse(&prometheus(
        &snapshot(),
        &Diagnosis::default(),
        &ProcessStats::default(),
        VERSION,
        &ConfigState::new(0),
    ));
    assert!(!known.keys().any(|name| name.starts_with("millstream_process_")));
}

#[test]
fn a_histogram_has_cumulative_buckets_a_sum_and_a_count() {
    let families = rendered();
    let family = &families["millstream_component_emit_delay_seconds"];
    let sample = |more: &[(&str, &str)]| family.samples[&of_app(more)];
    let bucket = |bound: &str| sample(&[("part", "bucket"), ("le", bound)]);
    let buckets = ["0.01", "0.05", "0.25", "0.5", "60", "+Inf"].map(bucket);
    assert_eq!(buckets, [0.0, 1.0, 1.0, 2.0, 2.0, 3.0]);
    assert_eq!((sample(&[("part", "sum")]), sample(&[("part", "count")])), (90.32, 3.0));
}

/// A row of the page of metrics.
struct Documented {
    kind: String,
    /// The cell with the labels in addition to the labels of components.
    labels: String,
}

/// Returns the rows of `docs/reference/metrics.md` by metric.
fn documented() -> BTreeMap<String, Documented> {
    let page = include_str!("../../../docs/reference/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `millstream_"));
    rows.map(|row| {
        let (name, rest) = row.split_once('`').unwrap();
        let mut cells = rest.split('|').skip(1).map(|cell| cell.trim().to_owned());
        let kind = cells.next().unwrap();
        let labels = cells.next().unwrap();
        (format!("millstream_{name}"), Documented { kind, labels })
    })
    .collect()
}

/// Returns the metrics of a process with a limit of its file descriptors.
fn all_families() -> BTreeMap<String, Family> {
    let full = ProcessStats { max_fds: Some(1024), ..ProcessStats::read() };
    parse(&prometheus(&snapshot(), &Diagnosis::default(), &full, VERSION, &ConfigState::new(0)))
}

#[test]
fn the_documentation_lists_exactly_these_metrics() {
    let documented: BTreeMap<String, String> =
        documented().into_iter().map(|(name, row)| (name, row.kind)).collect();
    let written: BTreeMap<String, String> =
        all_families().into_iter().map(|(name, family)| (name, family.kind)).collect();
    assert_eq!(documented, written);
}

/// The labels of components are documented above the table, and the label `part` exists only in
/// this parser.
#[test]
fn the_documentation_names_each_label_of_a_metric() {
    let documented = documented();
    for (name, family) in all_families() {
        let labels = family.samples.keys().flatten().map(|(label, _)| label.as_str());
        let more = labels.filter(|label| !label.starts_with("component_") && *label != "part");
        for label in more.collect::<BTreeSet<_>>() {
            let row = &documented[&name];
            assert!(row.labels.contains(&format!("`{label}`")), "{name}: no label {label}");
        }
    }
}
