//! Test harness for parsers: parses lines, checks every cell, and formats the fields as text.

use crate::{Failure, Fields, Input, Parser, Reason, is_number};
use fastrand::Rng;
use millstream_columns::{Cell, Column, Kind, push_json_string};
use millstream_testkit_random::{Seed, TestSize};
use std::fmt::Write;

/// Read time of the lines: 2026-03-01T00:00:00Z.
const READ_NS: i64 = 1_772_323_200_000_000_000;

/// Name, kind and bytes of a field.
pub type ParsedField = (String, Kind, Vec<u8>);

/// The fields of a line in column order, or the reason why the line does not match and the byte
/// offset of the mismatch.
pub type Line = Result<Vec<ParsedField>, (Reason, usize)>;

/// The result for a batch of lines.
#[derive(Debug)]
pub struct Parsed {
    pub lines: Vec<Line>,
    pub bad_types: usize,
    pub duplicates: u64,
    pub flaws: Vec<Failure>,
}

impl Parsed {
    /// Returns each line as [`show_short`] formats it.
    pub fn shown_short(&self) -> Vec<String> {
        self.lines.iter().map(show_short).collect()
    }
}

/// Where the bytes of the lines are stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// Consecutively in the block, as in a file.
    Block,
    /// In a column's buffer. Each line is between bytes that a parser must not read.
    Own,
}

/// Parses lines in both layouts, which must produce the same result.
///
/// # Panics
/// Panics if the results differ, if a cell is outside both its line and the buffer, if a number is
/// invalid, or if a line that does not match has a field.
pub fn parse(parser: &mut dyn Parser, lines: &[&[u8]]) -> Parsed {
    let parsed = parse_in(parser, lines, Layout::Block);
    let own = parse_in(&mut *parser.clone_boxed(), lines, Layout::Own);
    for ((in_block, in_own), line) in parsed.lines.iter().zip(&own.lines).zip(lines) {
        assert_eq!(sorted(in_block), sorted(in_own), "{}", String::from_utf8_lossy(line));
    }
    assert_eq!((parsed.bad_types, parsed.duplicates), (own.bad_types, own.duplicates));
    assert_eq!(parsed.flaws, own.flaws);
    parsed
}

/// Parses one line.
pub fn parse_line(parser: &mut dyn Parser, line: impl AsRef<[u8]>) -> Line {
    parse(parser, &[line.as_ref()]).lines.remove(0)
}

/// Parses one line and formats the result like [`show_short`].
pub fn parse_short(parser: &mut dyn Parser, line: impl AsRef<[u8]>) -> String {
    show_short(&parse_line(parser, line))
}

/// Returns the fields of a line sorted by name, because their original order depends on previous
/// lines.
pub fn sorted(line: &Line) -> Line {
    let mut fields = line.clone()?;
    fields.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(fields)
}

fn parse_in(parser: &mut dyn Parser, lines: &[&[u8]], layout: Layout) -> Parsed {
    let (bytes, cells) = lay_out(lines, layout);
    let (block, own) = match layout {
        Layout::Block => (&bytes[..], &b""[..]),
        Layout::Own => (&b""[..], &bytes[..]),
    };
    let runs = [(0, lines.len())];
    let input = Input { block, own, cells: &cells, runs: &runs, read_ns: READ_NS };
    let mut fields = Fields::new(lines.len(), own);
    parser.parse(&input, &mut fields);
    let failures = fields.take_failures();
    let flaws = fields.take_flaws();
    let (bad_types, duplicates) = (fields.bad_types().len(), fields.duplicates);
    let buffer = own.len()..fields.own().len();
    let columns = fields.finish();
    let mut parsed: Vec<Line> = (0..lines.len())
        .map(|row| Ok(fields_of(&columns, row, cells[row], &buffer, block)))
        .collect();
    for failure in failures {
        assert!(failure.at <= lines[failure.row].len(), "{failure:?} is beyond its line");
        assert_eq!(parsed[failure.row], Ok(Vec::new()), "{failure:?}, but the line has fields");
        parsed[failure.row] = Err((failure.reason, failure.at));
    }
    for flaw in &flaws {
        assert!(flaw.at <= lines[flaw.row].len(), "{flaw:?} is beyond its line");
        assert!(parsed[flaw.row].is_ok(), "{flaw:?}, but the line does not match");
    }
    Parsed { lines: parsed, bad_types, duplicates, flaws }
}

fn lay_out(lines: &[&[u8]], layout: Layout) -> (Vec<u8>, Vec<Cell>) {
    let (before, after): (&[u8], &[u8]) = match layout {
        Layout::Block => (b"", b"\n"),
        Layout::Own => (b"\"},", b"\"}\n"),
    };
    let (mut bytes, mut cells) = (Vec::new(), Vec::new());
    for line in lines {
        bytes.extend_from_slice(before);
        let cell = match layout {
            Layout::Block => Cell::new(Kind::Text, bytes.len(), line.len()),
            Layout::Own => Cell::own(Kind::Text, bytes.len(), line.len()),
        };
        cells.push(cell);
        bytes.extend_from_slice(line);
        bytes.extend_from_slice(after);
    }
    (bytes, cells)
}

/// Returns the fields that are present in a row. `buffer` is the part of the column's buffer that
/// the parser wrote.
fn fields_of(
    columns: &[Column],
    row: usize,
    line: Cell,
    buffer: &std::ops::Range<usize>,
    block: &[u8],
) -> Vec<ParsedField> {
    let mut fields = Vec::new();
    for column in columns {
        let cell = column.cells()[row];
        if !cell.is_present() {
            continue;
        }
        let end = cell.start() + cell.len();
        let is_written = cell.is_own() && cell.start() >= buffer.start && end <= buffer.end;
        assert!(is_written || is_in_line(cell, line), "{}: {cell:?} not in {line:?}", column.name);
        let bytes = column.bytes(block, cell).to_vec();
        if matches!(cell.kind(), Kind::Int | Kind::Float) {
            assert_eq!(is_number(&bytes), Some(cell.kind()), "{bytes:?}");
        }
        fields.push((column.name.to_string(), cell.kind(), bytes));
    }
    fields
}

/// Returns whether a cell is inside its line. A constant can have any position.
fn is_in_line(cell: Cell, line: Cell) -> bool {
    let is_constant = matches!(cell.kind(), Kind::Null | Kind::True | Kind::False);
    let is_within =
        cell.start() >= line.start() && cell.start() + cell.len() <= line.start() + line.len();
    is_constant || cell.is_own() == line.is_own() && is_within
}

/// Formats a line as `name=value name=value`, or as `!reason@offset`. Strings are quoted. Where the
/// kind is not obvious from the value, the kind precedes the value.
pub fn show(line: &Line) -> String {
    show_as(line, |kind, value| match kind {
        Kind::Text => Some(format!("'{value}'")),
        Kind::Null | Kind::True | Kind::False => Some(format!("{kind:?}")),
        Kind::Int | Kind::Float | Kind::Object | Kind::Array => Some(value),
        _ => Some(format!("{kind:?}'{value}'")),
    })
}

/// Formats a line like [`show`], but without quotes and nulls, and with the prefix `#` for numbers,
/// `@` for times, and `?` for booleans.
pub fn show_short(line: &Line) -> String {
    show_as(line, |kind, value| match kind {
        Kind::Null => None,
        Kind::Int | Kind::Float => Some(format!("#{value}")),
        Kind::Time => Some(format!("@{value}")),
        Kind::True => Some("?true".to_owned()),
        Kind::False => Some("?false".to_owned()),
        _ => Some(value),
    })
}

fn show_as(line: &Line, show_value: fn(Kind, String) -> Option<String>) -> String {
    let fields = match line {
        Ok(fields) => fields,
        Err((reason, at)) => return format!("!{reason}@{at}"),
    };
    let mut shown = String::new();
    for (name, kind, bytes) in fields {
        let value = String::from_utf8_lossy(bytes).into_owned();
        let Some(value) = show_value(*kind, value) else { continue };
        let space = if shown.is_empty() { "" } else { " " };
        let _ = write!(shown, "{space}{name}={value}");
    }
    shown
}

/// Returns the fields as a JSON object. Copies each value the way an encoder does.
pub fn json(fields: &[ParsedField]) -> Vec<u8> {
    let mut out = b"{".to_vec();
    for (name, kind, bytes) in fields {
        if out.len() > 1 {
            out.push(b',');
        }
        if *kind == Kind::Members {
            out.extend_from_slice(bytes);
            continue;
        }
        push_json_string(name.as_bytes(), &mut out);
        out.push(b':');
        match kind {
            Kind::Text | Kind::Time => push_json_string(bytes, &mut out),
            Kind::Escaped => out.extend([b"\"", &bytes[..], b"\""].concat()),
            Kind::Null => out.extend_from_slice(b"null"),
            Kind::True => out.extend_from_slice(b"true"),
            Kind::False => out.extend_from_slice(b"false"),
            _ => out.extend_from_slice(bytes),
        }
    }
    out.push(b'}');
    out
}

/// Number of mutated batches per parser.
const BATCHES: TestSize = TestSize { gate: 300, long: 30_000 };

/// Mutates a line at up to four offsets: replaces, deletes, duplicates or inserts bytes, or
/// truncates the line. `tokens` are strings that are significant in the format.
pub fn mutate(line: &mut Vec<u8>, tokens: &[&[u8]], random: &mut Rng) {
    for _ in 0..random.usize(..5) {
        let at = random.usize(..=line.len());
        let end = (at + 1 + random.usize(..12)).min(line.len());
        match random.usize(..6) {
            0 => drop(line.drain(at..end)),
            1 => line.extend_from_within(at..end),
            2 => line.insert(at, random.u8(..)),
            3 => line.truncate(at),
            4 => drop(line.splice(at..end, token(tokens, random))),
            _ => drop(line.splice(at..at, token(tokens, random))),
        }
    }
}

fn token(tokens: &[&[u8]], random: &mut Rng) -> Vec<u8> {
    tokens[random.usize(..tokens.len())].to_vec()
}

/// Returns a mutation of one of `lines`, without newlines.
pub fn mutated(lines: &[&str], tokens: &[&str], random: &mut Rng) -> Vec<u8> {
    let mut line = lines[random.usize(..lines.len())].as_bytes().to_vec();
    let tokens: Vec<&[u8]> = tokens.iter().map(|token| token.as_bytes()).collect();
    mutate(&mut line, &tokens, random);
    line.retain(|byte| *byte != b'\n');
    line
}

/// Parses batches of mutated lines. Checks that the result of a line does not depend on neighboring
/// lines.
pub fn check_mutated(parser: &mut dyn Parser, lines: &[&str], tokens: &[&str]) {
    for seed in Seed::of_test_or(0).cases(BATCHES) {
        let mut random = Rng::with_seed(seed);
        let batch: Vec<Vec<u8>> =
            (0..1 + random.usize(..100)).map(|_| mutated(lines, tokens, &mut random)).collect();
        let batch: Vec<&[u8]> = batch.iter().map(|line| &line[..]).collect();
        let parsed = parse(parser, &batch);
        let row = random.usize(..batch.len());
        let alone = parse_line(parser, batch[row]);
        let in_batch = &parsed.lines[row];
        assert_eq!(sorted(&alone), sorted(in_batch), "row {row}: {:?}", batch[row]);
        parse(parser, &[&batch[0].repeat(20)]);
    }
}
