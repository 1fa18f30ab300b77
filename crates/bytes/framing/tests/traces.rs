//! Traces from many languages and servers, framed by the rules that `docs/multiline.md` recommends.
//!
//! The first line of each file in `traces` names a source in the page's `programs.yaml`, whose rule
//! applies. The lines of a log follow, which contain ordinary lines and traces. A line `%%`
//! separates two events. The events of a file may be in any order.

use millstream_framing::{
    Close, EventBuffer, Framer, Input, Multiline, Preset, Rules, Spec, Start, TimeSpec,
};
use millstream_testkit_random::{Seed, TestSize};
use regex::bytes::{Captures, Regex};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

/// Number of random orders of each file's events. Each order is split at different places.
const ORDERS: TestSize = TestSize { gate: 20, long: 1000 };

/// Maximum number of places at which the input is split.
const CUTS_MAX: usize = 12;

/// A file in `traces`.
struct Trace {
    name: String,
    /// The source whose rule applies.
    source: String,
    events: Vec<String>,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn traces() -> Vec<Trace> {
    let files = fs::read_dir(folder().join("tests/traces")).unwrap();
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(trace).collect()
}

fn trace(path: &PathBuf) -> Trace {
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    let text = fs::read_to_string(path).unwrap();
    let (head, lines) = text.split_once('\n').unwrap();
    let source = head.strip_prefix("rule: ").unwrap_or_else(|| panic!("{name} names no rule"));
    let events = lines.split("%%\n").map(|event| event.strip_suffix('\n').unwrap().to_owned());
    Trace { source: source.to_owned(), events: events.collect(), name }
}

/// Returns the rules on the page, by source name.
fn documented_rules() -> BTreeMap<String, Arc<Rules>> {
    let page = fs::read_to_string(folder().join("../../../docs/multiline.md")).unwrap();
    let (_, yaml) = page.split_once("```yaml file=programs.yaml\n").unwrap();
    let (yaml, _) = yaml.split_once("```").unwrap();
    let source = Regex::new(r"(?m)^  (\w+): \{.* multiline: \{ (.*) \} \}$").unwrap();
    let rules = source.captures_iter(yaml.as_bytes()).map(|found| {
        let name = group(&found, 1).unwrap();
        let multiline = Some(multiline(group(&found, 2).unwrap()));
        let rules = Rules::new(&Spec { multiline, ..Spec::default() });
        let rules = rules.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        (name.to_owned(), Arc::new(rules))
    });
    rules.collect()
}

fn group<'a>(found: &Captures<'a>, number: usize) -> Option<&'a str> {
    found.get(number).map(|group| str::from_utf8(group.as_bytes()).unwrap())
}

/// Parses the rule in a YAML mapping such as `start: regex, pattern: '^a'`.
fn multiline(yaml: &str) -> Multiline {
    let entry = Regex::new(r#"(\w+): (?:'([^']*)'|"([^"]*)"|(\w+))"#).unwrap();
    let mut options: BTreeMap<&str, String> = entry
        .captures_iter(yaml.as_bytes())
        .map(|found| {
            let value = (2..=4).find_map(|number| group(&found, number)).unwrap();
            (group(&found, 1).unwrap(), value.to_owned())
        })
        .collect();
    let preset = options.remove("preset").map(|name| match name.as_str() {
        "java" => Preset::Java,
        "python" => Preset::Python,
        "go" => Preset::Go,
        "json" => Preset::Json,
        other => panic!("no preset {other}"),
    });
    let start = options.remove("start").map(|name| match name.as_str() {
        "timestamp" => Start::Timestamp,
        "regex" => Start::Regex,
        other => panic!("no start {other}"),
    });
    let time = options.remove("format").map(|format| TimeSpec {
        formats: vec![format],
        after: options.remove("after"),
        ..TimeSpec::default()
    });
    let pattern = options.remove("pattern");
    let more = options.remove("continue");
    assert!(options.is_empty(), "options that this test does not know: {options:?}");
    Multiline { preset, start, time, pattern, more, ..Multiline::default() }
}

/// Frames bytes. Returns the text of the events and the number of bytes consumed.
fn frame(rules: &Arc<Rules>, raw: &[u8], close: Close) -> (Vec<String>, usize) {
    let mut found = EventBuffer::default();
    let input = Input { raw, close, rows_max: usize::MAX, reference_ns: 0 };
    let framed = Framer::new(rules.clone()).frame(input, &mut [], &mut found);
    let text = |start: u32, end: u32| &raw[start as usize..end as usize];
    let texts = found.events.iter().map(|event| text(event.start, event.end));
    (texts.map(|text| String::from_utf8_lossy(text).into_owned()).collect(), framed.used)
}

/// Frames a file as it grows to each of the lengths, and then the whole file.
fn frame_growing(rules: &Arc<Rules>, file: &[u8], mut lengths: Vec<usize>) -> Vec<String> {
    lengths.sort_unstable();
    let growing = lengths.into_iter().map(|length| (length, Close::No));
    let mut position = 0;
    let mut all = Vec::new();
    for (length, close) in growing.chain([(file.len(), Close::All)]) {
        let (texts, used) = frame(rules, &file[position..length], close);
        all.extend(texts);
        position += used;
    }
    all
}

/// Asserts that a file that consists of these events is framed into the same events.
fn assert_framed(trace: &Trace, rules: &Arc<Rules>, events: &[&str], cuts: Vec<usize>) {
    let file: String = events.iter().map(|event| format!("{event}\n")).collect();
    let cuts = cuts.into_iter().map(|cut| cut % (file.len() + 1)).collect();
    for got in
        [frame(rules, file.as_bytes(), Close::All).0, frame_growing(rules, file.as_bytes(), cuts)]
    {
        assert!(got == events, "{}: {events:#?} became {got:#?}", trace.name);
    }
}

#[test]
fn the_documented_rules_join_the_lines_of_each_trace() {
    let rules = documented_rules();
    for trace in traces() {
        let rules = &rules[&trace.source];
        let events: Vec<&str> = trace.events.iter().map(String::as_str).collect();
        assert_framed(&trace, rules, &events, Vec::new());
        let joined: Vec<&str> = events.into_iter().filter(|event| event.contains('\n')).collect();
        assert!(!joined.is_empty(), "{} has no event of several lines", trace.name);
        let twice: Vec<&str> = joined.iter().flat_map(|event| [*event, *event]).collect();
        assert_framed(&trace, rules, &twice, Vec::new());
    }
}

#[test]
fn traces_in_any_order_are_joined_wherever_the_input_is_cut() {
    let rules = documented_rules();
    let traces = traces();
    for seed in Seed::of_test().cases(ORDERS) {
        let mut random = fastrand::Rng::with_seed(seed);
        for trace in &traces {
            let mut events: Vec<&str> = trace.events.iter().map(String::as_str).collect();
            random.shuffle(&mut events);
            let cuts = (0..random.usize(..CUTS_MAX)).map(|_| random.usize(..)).collect();
            assert_framed(trace, &rules[&trace.source], &events, cuts);
        }
    }
}

#[test]
fn every_documented_rule_has_a_trace() {
    let documented: BTreeSet<String> = documented_rules().into_keys().collect();
    let tested: BTreeSet<String> = traces().into_iter().map(|trace| trace.source).collect();
    assert_eq!(tested, documented);
}
