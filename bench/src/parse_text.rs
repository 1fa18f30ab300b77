//! Measures the parsing of JSON lines and patterns, and compares it with the SIMD parsers and the
//! regex crate alone on the same lines.

use crate::measure::{Samples, progress, thread_cpu_seconds};
use crate::report::{Report, Table};
use crate::texts::weblog;
use fastrand::Rng;
use millstream_columns::{Cell, Kind};
use millstream_parsers::{
    Fields, Grok, GrokConfig, Input, Json, JsonConfig, Parser, Regex, RegexConfig, Type,
};
use std::fmt::Write;
use std::hint::black_box;
use std::io;

/// Size of a parsed block in bytes.
const BLOCK_BYTES: usize = 512 << 10;
/// Bytes of one sample.
const SAMPLE_BYTES: usize = 64 << 20;
/// Minimum speed relative to a SIMD parser alone and to the regex crate alone.
const RATIO: f64 = 0.8;
/// Regular expression for access lines.
const ACCESS: &str = r#"^(?<client>\S+) \S+ (?<user>\S+) \[(?<time>[^\]]*)\] "(?<method>[A-Z]+) (?<path>[^ "]*) (?<protocol>[^"]*)" (?<status>\d+) (?<bytes>\d+|-) "(?<referer>[^"]*)" "(?<agent>[^"]*)" (?<took>[0-9.]+)$"#;

/// A block with the positions of its lines.
struct Block {
    text: Vec<u8>,
    lines: Vec<Cell>,
}

impl Block {
    fn new(line: impl Fn(&mut String, &mut Rng)) -> Block {
        let (mut text, mut random, mut lines) = (String::new(), Rng::with_seed(7), Vec::new());
        while text.len() < BLOCK_BYTES {
            let start = text.len();
            line(&mut text, &mut random);
            lines.push(Cell::new(Kind::Text, start, text.len() - start));
            text.push('\n');
        }
        Block { text: text.into_bytes(), lines }
    }

    /// Creates a block from the lines of `text`.
    fn of(text: Vec<u8>) -> Block {
        let (mut ends, mut start) = (Vec::new(), 0);
        millstream_scan::newlines(&text, &mut ends);
        let lines = ends.iter().map(|end| {
            let line = Cell::new(Kind::Text, start, *end as usize - start);
            start = *end as usize + 1;
            line
        });
        Block { lines: lines.collect(), text }
    }

    fn input<'a>(&'a self, runs: &'a [(usize, usize)]) -> Input<'a> {
        Input { block: &self.text, own: &[], cells: &self.lines, runs, read_ns: 0 }
    }

    /// Returns the fields that `parser` finds.
    fn parse(&self, parser: &mut dyn Parser) -> Fields {
        let mut fields = Fields::new(self.lines.len(), &[]);
        parser.parse(&self.input(&[(0, self.lines.len())]), &mut fields);
        fields
    }

    fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.lines.iter().map(|line| &self.text[line.start()..line.start() + line.len()])
    }

    /// Measures the CPU seconds of `pass` over the text. Each pass gets a fresh copy of the text.
    fn seconds(&self, mut pass: impl FnMut(&mut [u8])) -> f64 {
        let (passes, mut copy, mut seconds) =
            (SAMPLE_BYTES / self.text.len(), self.text.clone(), 0.0);
        for _ in 0..passes {
            copy.copy_from_slice(&self.text);
            let start = thread_cpu_seconds();
            pass(black_box(&mut copy));
            seconds += thread_cpu_seconds() - start;
        }
        seconds / passes as f64
    }
}

/// Measures and reports all parsers.
pub fn run(repetitions: usize, report: &mut Report) -> io::Result<()> {
    let columns = ["lines", "GB/s", "ns per line", "limit", "GB/s of limit", "ratio", "target"];
    let mut table = Table::new("parse_text", "Lines parsed: GB per CPU second", &columns);
    for (name, block) in
        [("flat", Block::new(flat)), ("nested", Block::new(nested)), ("long", Block::new(long))]
    {
        json(name, &block, repetitions, &mut table);
    }
    regex(repetitions, &mut table);
    table.note(format!(
        "Bars: JSON at least {RATIO} of the SIMD parser alone, regular expressions at least {RATIO} of the crate alone."
    ));
    report.add(table)
}

/// A measurement that is compared with a limit.
struct Pair<'a> {
    name: String,
    block: &'a Block,
    limit: &'a str,
    target: f64,
}

impl Pair<'_> {
    fn row(&self, ours: &Samples, theirs: &Samples) -> Vec<String> {
        let (ours, theirs) = (ours.median(), theirs.median());
        let speed = |seconds: f64| format!("{:.2}", self.block.text.len() as f64 / seconds / 1e9);
        let target = match self.target {
            0.0 => "",
            target if theirs / ours >= target => "holds",
            _ => "MISSED",
        };
        vec![
            self.name.clone(),
            speed(ours),
            format!("{:.1}", ours * 1e9 / self.block.lines.len() as f64),
            self.limit.into(),
            speed(theirs),
            format!("{:.2}", theirs / ours),
            target.into(),
        ]
    }
}

fn json(name: &str, block: &Block, repetitions: usize, table: &mut Table) {
    let [mut ours, mut flattened, mut simd, mut sonic] = [(); 4].map(|()| Samples::default());
    let mut plain = Json::new(&JsonConfig::default()).expect("the defaults");
    let mut flatten =
        Json::new(&JsonConfig { flatten: true, ..JsonConfig::default() }).expect("valid");
    for _ in 0..repetitions {
        progress(&format!("parse_text: json, {name}"));
        ours.push(block.seconds(|_| _ = black_box(block.parse(&mut plain))));
        flattened.push(block.seconds(|_| _ = black_box(block.parse(&mut flatten))));
        simd.push(block.seconds(|text| simd_json_tapes(text, &block.lines)));
        sonic.push(block.seconds(|_| block.lines().for_each(sonic_members)));
    }
    for (how, ours) in [("", &ours), (", flatten", &flattened)] {
        for (limit, theirs) in [("simd-json, tape", &simd), ("sonic-rs, members", &sonic)] {
            let pair = Pair { name: format!("json {name}{how}"), block, limit, target: RATIO };
            table.row(pair.row(ours, theirs));
        }
    }
}

/// Measures access lines with a regular expression that converts two numbers, and with grok's
/// pattern for such lines.
fn regex(repetitions: usize, table: &mut Table) {
    let block = Block::of(weblog(BLOCK_BYTES));
    let mut access = access();
    let grok = GrokConfig {
        pattern: "^%{COMBINEDAPACHELOG} %{NUMBER:took}$".into(),
        ..GrokConfig::default()
    };
    let mut grok = Grok::new(&grok).expect("a standard pattern");
    let alone = ::regex::bytes::Regex::new(ACCESS).expect("valid");
    let mut locations = alone.capture_locations();
    let [mut ours, mut patterns, mut theirs] = [(); 3].map(|()| Samples::default());
    for _ in 0..repetitions {
        progress("parse_text: regex");
        ours.push(block.seconds(|_| _ = black_box(block.parse(&mut access))));
        patterns.push(block.seconds(|_| _ = black_box(block.parse(&mut grok))));
        theirs.push(block.seconds(|_| {
            for line in block.lines() {
                black_box(alone.captures_read(&mut locations, line));
            }
        }));
    }
    let limit = "captures_read of regex";
    let pair = |name: &str, target| Pair { name: name.into(), block: &block, limit, target };
    table.row(pair("regex access", RATIO).row(&ours, &theirs));
    table.row(pair("grok access", 0.0).row(&patterns, &theirs));
}

fn access() -> Regex {
    let types = vec![("status".into(), Type::Int), ("bytes".into(), Type::Int)];
    Regex::new(&RegexConfig { pattern: ACCESS.into(), types }).expect("valid")
}

/// Parses the lines with simd-json, which writes into its input.
fn simd_json_tapes(text: &mut [u8], lines: &[Cell]) {
    let mut buffers = simd_json::Buffers::new(1024);
    let mut tape = simd_json::Tape::null().reset();
    for line in lines {
        let line = &mut text[line.start()..line.start() + line.len()];
        let mut filled = tape.reset();
        simd_json::fill_tape(line, &mut buffers, &mut filled).expect("valid JSON");
        black_box(&filled);
        tape = filled.reset();
    }
}

fn sonic_members(line: &[u8]) {
    for member in sonic_rs::to_object_iter(line) {
        black_box(member.expect("valid JSON"));
    }
}

/// Writes an entry of a web service with about 15 members and 300 bytes.
fn flat(line: &mut String, random: &mut Rng) {
    let (time, id) = (random.u64(..86_400_000), random.u64(..));
    let status = [200, 200, 200, 201, 304, 404, 500][random.u64(..7) as usize];
    let path =
        ["/api/v1/orders", "/login", "/static/js/app.min.js", "/search"][random.u64(..4) as usize];
    let _ = write!(
        line,
        r#"{{"time":"2026-11-21T{:02}:{:02}:{:02}.{:03}Z","level":"info","logger":"http.access","host":"web-{:02}","pid":{},"method":"GET","path":"{path}","status":{status},"bytes":{},"duration":{}.{:03},"client":"10.{}.{}.{}","user":null,"cached":{},"trace":"{id:016x}","msg":"request done"}}"#,
        time / 3_600_000,
        time / 60_000 % 60,
        time / 1000 % 60,
        time % 1000,
        random.u64(..40),
        1000 + random.u64(..30_000),
        random.u64(..100_000),
        random.u64(..4),
        random.u64(..1000),
        random.u64(..256),
        random.u64(..256),
        random.u64(..256),
        random.u64(..3) == 0,
    );
}

/// Writes the entry of [`flat`] with the metadata of a cluster, in objects and an array.
fn nested(line: &mut String, random: &mut Rng) {
    flat(line, random);
    line.pop();
    let _ = write!(
        line,
        r#","kubernetes":{{"namespace":"shop","pod":{{"name":"orders-{:05x}","uid":"{:016x}","labels":{{"app":"orders","tier":"backend"}}}},"node":"node-{}"}},"tags":["prod","eu-west",{}]}}"#,
        random.u64(..1 << 20),
        random.u64(..),
        random.u64(..30),
        random.u64(..100),
    );
}

/// Writes an entry with few members, and a message of 2 kB with some escapes.
fn long(line: &mut String, random: &mut Rng) {
    line.push_str(r#"{"time":"2026-11-21T20:29:46Z","level":"error","message":""#);
    for word in 0..250 + random.u64(..60) {
        let _ = write!(
            line,
            "{:07x}{}",
            random.u64(..1 << 28),
            if word % 40 == 39 { "\\n" } else { " " }
        );
    }
    line.push_str("\"}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_parsed() {
        for (block, names) in
            [(Block::new(flat), 15), (Block::new(nested), 17), (Block::new(long), 3)]
        {
            let mut fields =
                block.parse(&mut Json::new(&JsonConfig::default()).expect("the defaults"));
            assert_eq!((fields.len(), fields.failures().len()), (names, 0));
            assert!(
                fields.list().iter().all(|field| field.cells.iter().all(|cell| cell.is_present()))
            );
        }
    }

    #[test]
    fn every_access_line_matches() {
        let block = Block::of(weblog(1 << 16));
        let mut fields = block.parse(&mut access());
        assert_eq!((fields.len(), fields.failures().len(), fields.bad_types().len()), (11, 0, 0));
        assert!(fields.list().iter().all(|field| field.cells.iter().any(|cell| cell.is_present())));
    }
}
