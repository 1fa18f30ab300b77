//! Measures parsers of lines and compares them with the `regex` crate on the same lines, or with a
//! newline scan of text whose lines are as long as the fields.

use crate::measure::{Samples, progress, thread_cpu_seconds};
use crate::report::{Report, Table};
use crate::texts;
use millstream_columns::{Cell, Kind};
use millstream_parsers::{
    Access, AccessConfig, Delimited, DelimitedConfig, Fields, Input, KeyValue, KeyValueConfig,
    Parser,
};
use regex::bytes::Regex;
use std::hint::black_box;
use std::io;

/// Bytes of text of a case. The text fits into the L2 cache, like a block that was just read, and
/// has too many lines for the branch predictor to learn.
const TEXT_BYTES: usize = 512 << 10;
/// Bytes per parsed block, as the file source reads it.
const BLOCK_BYTES: usize = 256 << 10;
/// Minimum CPU seconds of one sample.
const SAMPLE_SECONDS: f64 = 0.1;

/// Log format of the example in the docs, with 11 fields.
const NGINX: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \
     \"$http_referer\" \"$http_user_agent\" $request_time";
const NGINX_REGEX: &str = r#"(?-u)^([^ ]*) - ([^ ]*) \[([^\]]*)\] "([A-Z]+) ([^" ]*) ([^" ]*)" ([0-9]+) ([0-9]+) "([^"]*)" "([^"]*)" ([0-9.]+)$"#;

/// A parser with its text, its reference and the target ratio.
struct Case {
    name: &'static str,
    parser: Box<dyn Parser>,
    text: Vec<u8>,
    against: Against,
    /// Minimum speed relative to `against`.
    target: f64,
}

enum Against {
    /// The captures of this pattern on each line.
    Regex(&'static str),
    /// A newline scan of this text.
    Newlines(Vec<u8>),
}

fn cases() -> Vec<Case> {
    let nginx = || -> Box<dyn Parser> {
        let config = AccessConfig { format: NGINX.into(), ..AccessConfig::default() };
        Box::new(Access::new(&config).expect("a format"))
    };
    let lines = texts::weblog(TEXT_BYTES);
    let case = |name, parser, text: &Vec<u8>, against, target| Case {
        name,
        parser,
        text: text.clone(),
        against,
        target,
    };
    let (csv, pairs) = (joined(",", false), joined(" ", true));
    // Replaces the end of each field with a newline.
    let ends = |text: &[u8], end: u8| {
        text.iter().map(|byte| if *byte == end { b'\n' } else { *byte }).collect()
    };
    let (csv_ends, pair_ends) =
        (Against::Newlines(ends(&csv, b',')), Against::Newlines(ends(&pairs, b' ')));
    vec![
        case("nginx, 11 fields", nginx(), &lines, Against::Regex(NGINX_REGEX), 7.0),
        case("nginx, 11 fields", nginx(), &lines, Against::Newlines(lines.clone()), 0.0),
        case("delimited, 10 fields", delimited(), &csv, csv_ends, 0.5),
        case("key_value, 10 fields", key_value(), &pairs, pair_ends, 0.5),
    ]
}

const FIELDS: usize = 10;

fn delimited() -> Box<dyn Parser> {
    let fields = (0..FIELDS).map(|field| (format!("field{field}").into(), None)).collect();
    Box::new(
        Delimited::new(DelimitedConfig { fields, ..DelimitedConfig::default() }).expect("a format"),
    )
}

fn key_value() -> Box<dyn Parser> {
    Box::new(KeyValue::new(KeyValueConfig::default()).expect("a format"))
}

/// Returns lines of [`FIELDS`] values of 4 to 19 bytes, each after its key if `keys` is set.
fn joined(delimiter: &str, keys: bool) -> Vec<u8> {
    let (mut out, mut line) = (Vec::with_capacity(TEXT_BYTES + 1000), 0_usize);
    while out.len() < TEXT_BYTES {
        let value = |field: usize| {
            let hash = (line * FIELDS + field).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let prefix = if keys { format!("key{field}=") } else { String::new() };
            format!("{prefix}{}", &format!("{hash:020}")[..4 + hash % 16])
        };
        out.extend_from_slice(
            (0..FIELDS).map(value).collect::<Vec<_>>().join(delimiter).as_bytes(),
        );
        out.push(b'\n');
        line += 1;
    }
    out
}

/// Measures and reports all cases.
pub fn run(repetitions: usize, report: &mut Report) -> io::Result<()> {
    let columns = ["parser", "GB/s", "ns per line", "beside", "GB/s of that", "ratio", "target"];
    let mut table = Table::new("parse", "Lines to fields, in memory", &columns);
    for mut case in cases() {
        progress(&format!("parse: {}", case.name));
        table.row(row(&mut case, repetitions));
    }
    report.add(table)
}

fn row(case: &mut Case, repetitions: usize) -> Vec<String> {
    let text = case.text.clone();
    let blocks = blocks(&text);
    let lines: usize = blocks.iter().map(|(_, cells)| cells.len()).sum();
    let beside = match case.against {
        Against::Regex(_) => "regex captures",
        Against::Newlines(_) => "scan::newlines",
    };
    let (ours, other) = both(case, &blocks, repetitions);
    let speed = |seconds: f64| format!("{:.2}", text.len() as f64 / seconds / 1e9);
    let verdict = match other / ours >= case.target {
        _ if case.target == 0.0 => String::new(),
        true => format!("{} holds", case.target),
        false => format!("{} MISSED", case.target),
    };
    let (line_ns, ratio) =
        (format!("{:.1}", ours * 1e9 / lines as f64), format!("{:.2}", other / ours));
    vec![case.name.into(), speed(ours), line_ns, beside.into(), speed(other), ratio, verdict]
}

/// Returns the seconds of the parser and of its reference for the same number of bytes, with
/// interleaved samples.
fn both(case: &mut Case, blocks: &[(&[u8], Vec<Cell>)], repetitions: usize) -> (f64, f64) {
    let (mut ours, mut other) = (Samples::default(), Samples::default());
    let regex = match case.against {
        Against::Regex(pattern) => Some(Regex::new(pattern).expect("a pattern")),
        Against::Newlines(_) => None,
    };
    for _ in 0..repetitions {
        ours.push(seconds(|| {
            blocks.iter().for_each(|(block, cells)| parse(&mut *case.parser, block, cells))
        }));
        other.push(match &case.against {
            Against::Regex(_) => seconds(|| regex.iter().for_each(|regex| capture(regex, blocks))),
            Against::Newlines(text) => {
                seconds(|| find_newlines(text)) * case.text.len() as f64 / text.len() as f64
            }
        });
    }
    (ours.median(), other.median())
}

/// Returns the text in blocks of whole lines, with a cell for each line.
fn blocks(text: &[u8]) -> Vec<(&[u8], Vec<Cell>)> {
    let (mut rest, mut blocks) = (text, Vec::new());
    while let Some(last) = millstream_scan::last_newline(&rest[..rest.len().min(BLOCK_BYTES)]) {
        let (block, behind) = rest.split_at(last + 1);
        let mut ends = Vec::new();
        millstream_scan::newlines(block, &mut ends);
        let mut start = 0;
        let cell = |end: &u32| {
            let cell = Cell::new(Kind::Text, start, *end as usize - start);
            start = *end as usize + 1;
            cell
        };
        blocks.push((block, ends.iter().map(cell).collect()));
        rest = behind;
    }
    blocks
}

/// Parses a block into columns.
fn parse(parser: &mut dyn Parser, block: &[u8], cells: &[Cell]) {
    let runs = [(0, cells.len())];
    let input = Input { block: black_box(block), own: b"", cells, runs: &runs, read_ns: 0 };
    let mut fields = Fields::new(cells.len(), b"");
    parser.parse(&input, &mut fields);
    assert!(fields.failures().is_empty(), "{:?}", fields.failures());
    black_box(fields.finish());
}

fn capture(regex: &Regex, blocks: &[(&[u8], Vec<Cell>)]) {
    let mut found = regex.capture_locations();
    for (block, cells) in blocks {
        for cell in cells {
            let line = &block[cell.start()..cell.start() + cell.len()];
            assert!(regex.captures_read(&mut found, black_box(line)).is_some());
            black_box(&found);
        }
    }
}

fn find_newlines(text: &[u8]) {
    let mut found = Vec::new();
    for block in text.chunks(BLOCK_BYTES) {
        found.clear();
        millstream_scan::newlines(black_box(block), &mut found);
        black_box(&found);
    }
}

/// Returns the CPU seconds of one pass, measured for at least [`SAMPLE_SECONDS`].
fn seconds(mut pass: impl FnMut()) -> f64 {
    let (start, mut passes) = (thread_cpu_seconds(), 0);
    loop {
        pass();
        passes += 1;
        let seconds = thread_cpu_seconds() - start;
        if seconds >= SAMPLE_SECONDS {
            return seconds / f64::from(passes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_parsed_and_captured() {
        for mut case in cases() {
            let blocks = blocks(&case.text);
            let whole: usize = blocks.iter().map(|(block, _)| block.len()).sum();
            assert_eq!(whole, case.text.len());
            parse(&mut *case.parser, blocks[0].0, &blocks[0].1);
            if let Against::Regex(pattern) = case.against {
                capture(&Regex::new(pattern).unwrap(), &blocks[..1]);
            }
        }
    }
}
