//! Measures the conversion of bytes to events by multi-line rules, encodings and container formats,
//! compared with the minimum of work.

use crate::measure::{Samples, progress, thread_cpu_seconds};
use crate::report::{Report, Table};
use crate::texts::{cri, docker, gbk, traces, utf16, weblog};
use encoding_rs::Encoding;
use millstream_framing::{
    Close, Container, EventBuffer, Framer, HEAD_BYTES, Input, Multiline, Preset, Rules, Spec,
    Start, TimeSpec,
};
use std::hint::black_box;
use std::io;

const TEXT_BYTES: usize = 64 << 20;
const BLOCK_BYTES: usize = 256 << 10;
/// Maximum number of events per call, more than a block can contain.
const ROWS_MAX: usize = 1 << 16;
/// Minimum speed of a decoder, relative to the decoding alone.
const TARGET_RATIO: f64 = 0.7;
/// Maximum time of a multi-line rule per line in ns, in addition to the scan. For comparison: the
/// agent needs 40 ns for a single line.
const TARGET_LINE_NS: f64 = 26.0;

/// A specification with its text and the reference.
struct Case {
    name: &'static str,
    spec: Spec,
    text: fn(usize) -> Vec<u8>,
    limit: Limit,
}

/// The minimum of work that a case is compared with.
#[derive(Clone, Copy)]
enum Limit {
    Newlines,
    Decode(&'static str),
    Copy,
}

fn cases() -> Vec<Case> {
    let time = TimeSpec { formats: vec!["%Y-%m-%d %H:%M:%S%.f".into()], ..TimeSpec::default() };
    let timestamp =
        Multiline { start: Some(Start::Timestamp), time: Some(time), ..Multiline::default() };
    let pattern = Some(r"^\d{4}-\d\d-\d\d ".into());
    let regex = Multiline { start: Some(Start::Regex), pattern, ..Multiline::default() };
    let java = Multiline { preset: Some(Preset::Java), ..Multiline::default() };
    let rule = |rule| Spec { multiline: Some(rule), ..Spec::default() };
    let encoding = |name: &str| Spec { encoding: Some(name.into()), ..Spec::default() };
    let container = |container| Spec { container, ..Spec::default() };
    let case = |name, spec, text, limit| Case { name, spec, text, limit };
    vec![
        case("start: timestamp", rule(timestamp), seldom_traces, Limit::Newlines),
        case("start: regex", rule(regex), seldom_traces, Limit::Newlines),
        case("preset: java", rule(java), seldom_traces, Limit::Newlines),
        case("gbk", encoding("gbk"), gbk, Limit::Decode("gbk")),
        case("utf-16le", encoding("utf-16le"), utf16, Limit::Decode("utf-16le")),
        case("windows-1252", encoding("windows-1252"), weblog, Limit::Decode("windows-1252")),
        case("cri", container(Container::Cri), cri, Limit::Copy),
        case("docker", container(Container::Docker), docker, Limit::Copy),
    ]
}

/// Measures and reports all cases.
pub fn run(repetitions: usize, report: &mut Report) -> io::Result<()> {
    let columns =
        ["input", "GB/s", "limit", "GB/s of limit", "ratio", "ns per line", "events", "target"];
    let mut table =
        Table::new("framing", "From bytes to events: GB of raw bytes per CPU second", &columns);
    for case in cases() {
        progress(&format!("framing: {}", case.name));
        table.row(row(&case, repetitions));
    }
    table.note(format!(
        "Bars: decoders at least {TARGET_RATIO} of decoding alone; a multi-line rule at most {TARGET_LINE_NS} ns for a line \
         more than the scan."
    ));
    report.add(table)
}

fn row(case: &Case, repetitions: usize) -> Vec<String> {
    let text = (case.text)(TEXT_BYTES);
    let lines = millstream_scan::count_newlines(&text) as f64;
    let mut out = vec![0; BLOCK_BYTES * 3 + 16];
    let (mut ours, mut least, mut events) = (Samples::default(), Samples::default(), 0);
    for _ in 0..repetitions {
        least.push(seconds(|| alone(case.limit, &text, &mut out)));
        ours.push(seconds(|| events = frame(&case.spec, &text, &mut out)));
    }
    let (ours, least) = (ours.median(), least.median());
    let (name, holds) = match case.limit {
        Limit::Newlines => ("scan::newlines", Some((ours - least) * 1e9 / lines <= TARGET_LINE_NS)),
        Limit::Decode(_) => ("encoding_rs", Some(least / ours >= TARGET_RATIO)),
        Limit::Copy => ("copy", None),
    };
    let speed = |seconds: f64| format!("{:.2}", text.len() as f64 / seconds / 1e9);
    let ratio = format!("{:.2}", least / ours);
    let line_ns = format!("{:.1}", ours * 1e9 / lines);
    let target = holds.map_or("", |holds| if holds { "holds" } else { "MISSED" });
    vec![
        case.name.into(),
        speed(ours),
        name.into(),
        speed(least),
        ratio,
        line_ns,
        events.to_string(),
        target.into(),
    ]
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = thread_cpu_seconds();
    work();
    thread_cpu_seconds() - start
}

/// Frames the text as the file source does: block by block, each from the start of the last open
/// event. Returns the number of events.
fn frame(spec: &Spec, text: &[u8], out: &mut [u8]) -> usize {
    let rules = Rules::new(spec).unwrap_or_else(|(key, message)| panic!("{key}: {message}"));
    let mut framer = Framer::new(rules.into());
    framer.detect(&text[..HEAD_BYTES], false);
    let (mut found, mut position, mut events) = (EventBuffer::default(), 0, 0);
    while position < text.len() {
        let end = text.len().min(position + BLOCK_BYTES);
        let close = if end == text.len() { Close::All } else { Close::No };
        let input = Input {
            raw: black_box(&text[position..end]),
            close,
            rows_max: ROWS_MAX,
            reference_ns: 0,
        };
        let framed = framer.frame(input, out, &mut found);
        assert!(framed.used > 0, "no progress at {position}");
        events += black_box(&found).events.len();
        position += framed.used;
    }
    events
}

/// Does only the minimum of work, without the framer.
fn alone(limit: Limit, text: &[u8], out: &mut [u8]) {
    let mut positions = Vec::new();
    for block in text.chunks(BLOCK_BYTES) {
        let block = black_box(block);
        match limit {
            Limit::Newlines => {
                positions.clear();
                millstream_scan::newlines(block, &mut positions);
                black_box(&positions);
            }
            Limit::Decode(name) => {
                let encoding = Encoding::for_label(name.as_bytes()).expect("an encoding");
                let mut decoder = encoding.new_decoder_without_bom_handling();
                let _ = black_box(decoder.decode_to_utf8(block, out, true));
            }
            Limit::Copy => out[..block.len()].copy_from_slice(block),
        }
        black_box(&mut *out);
    }
}

/// Returns lines of an application; every 20th line has a stack trace.
fn seldom_traces(bytes: usize) -> Vec<u8> {
    traces(bytes, 20, 12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cases_give_the_events_their_texts_have() {
        let counts: Vec<usize> = cases()
            .iter()
            .map(|case| {
                frame(&case.spec, &(case.text)(1 << 20), &mut vec![0; BLOCK_BYTES * 3 + 16])
            })
            .collect();
        let lines = |text: Vec<u8>| millstream_scan::count_newlines(&text);
        let entries = seldom_traces(1 << 20).windows(5).filter(|window| window == b" INFO").count();
        assert_eq!((counts[0], counts[1]), (entries, entries));
        // An exception belongs to the previous entry.
        assert_eq!(counts[2], entries);
        assert_eq!((counts[3], counts[5]), (lines(gbk(1 << 20)), lines(weblog(1 << 20))));
        assert_eq!(counts[7], lines(docker(1 << 20)));
    }
}
