//! What the tests of all parsers use.

use crate::{Fields, Input, Parser};
use fastrand::Rng;
use millstream_columns::{Cell, Column, Kind};
use std::fmt::Write;

/// What was found in some lines.
pub struct Parsed {
    /// Each line as `name=value name=value`, or `! reason at`. Values have a mark before them: `#`
    /// a number, `@` a time, `?` a boolean, `{` an object.
    pub lines: Vec<String>,
    pub bad_types: u64,
    pub duplicates: u64,
}

/// When the lines were read: 2026-03-01T00:00:00Z.
pub const READ_NS: i64 = 1_772_323_200_000_000_000;

/// Parses lines as they lie in a block, one after the other.
pub fn parse(parser: &mut dyn Parser, lines: &[&[u8]]) -> Parsed {
    let block = lines.join(&b"\n"[..]);
    let mut at = 0;
    let cells: Vec<Cell> = lines
        .iter()
        .map(|line| {
            at += line.len() + 1;
            Cell::new(Kind::Text, at - line.len() - 1, line.len())
        })
        .collect();
    let runs = [(0, cells.len())];
    let input = Input { block: &block, own: b"", cells: &cells, runs: &runs, read_ns: READ_NS };
    let mut fields = Fields::new(cells.len(), b"");
    parser.parse(&input, &mut fields);
    let (failures, bad_types, duplicates) =
        (fields.take_failures(), fields.bad_types().len() as u64, fields.duplicates);
    let own_bytes = fields.own().len();
    let columns = fields.finish();
    columns.iter().for_each(|column| check(column, &cells, &block, own_bytes));
    let line = |row: usize| match failures.iter().find(|failure| failure.row == row) {
        Some(failure) => {
            assert!(
                columns.iter().all(|column| !column.cells()[row].is_present()),
                "fields of a misfit"
            );
            format!("! {} {}", failure.reason, failure.at)
        }
        None => show(&columns, &block, row),
    };
    Parsed { lines: (0..lines.len()).map(line).collect(), bad_types, duplicates }
}

/// Every cell lies within its line, or in the buffer, and is what it says.
fn check(column: &Column, lines: &[Cell], block: &[u8], own_bytes: usize) {
    for (cell, line) in column.cells().iter().zip(lines).filter(|(cell, _)| cell.is_present()) {
        let end = cell.start() + cell.len();
        match cell.is_own() {
            true => assert!(end <= own_bytes, "{}: beyond the buffer", column.name),
            false => assert!(
                cell.is_empty()
                    || (cell.start() >= line.start() && end <= line.start() + line.len()),
                "{}: outside its line",
                column.name
            ),
        }
        let text = column.bytes(block, *cell);
        if matches!(cell.kind(), Kind::Int | Kind::Float) {
            assert_eq!(crate::is_number(text), Some(cell.kind()), "{text:?}");
        }
    }
}

fn show(columns: &[Column], block: &[u8], row: usize) -> String {
    let mut out = String::new();
    for column in columns {
        let cell = column.cells()[row];
        let mark = match cell.kind() {
            // What is not of its type is told by its number.
            Kind::Absent | Kind::Null => continue,
            Kind::Int | Kind::Float => "#",
            Kind::Time => "@",
            Kind::True => "?true",
            Kind::False => "?false",
            _ => "",
        };
        let text = String::from_utf8_lossy(column.bytes(block, cell)).into_owned();
        let space = if out.is_empty() { "" } else { " " };
        write!(out, "{space}{}={mark}{text}", column.name).unwrap();
    }
    out
}

/// The fields of one line.
pub fn one(parser: &mut dyn Parser, line: &str) -> String {
    parse(parser, &[line.as_bytes()]).lines.remove(0)
}

/// Changes lines at random in some places, and parses what comes of it. `PARSER_CASES` is how
/// often, for long runs. What is found in each line must not depend on the lines around it.
pub fn mutate(parser: &mut dyn Parser, lines: &[&str], pieces: &[&str]) {
    let cases: u64 = std::env::var("PARSER_CASES").map_or(300, |text| text.parse().unwrap());
    for seed in 0..cases {
        let mut random = Rng::with_seed(seed);
        let count = random.u64(..100) as usize;
        let changed: Vec<Vec<u8>> =
            (0..count).map(|_| mutant(lines, pieces, &mut random)).collect();
        let changed: Vec<&[u8]> = changed.iter().map(|line| &line[..]).collect();
        let parsed = parse(parser, &changed);
        if let Some(line) = changed.first() {
            let row = random.u64(..count as u64) as usize;
            let (alone, among) =
                (parse(parser, &[changed[row]]).lines.remove(0), &parsed.lines[row]);
            let sorted = |text: &str| {
                let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
                words.sort();
                words
            };
            assert_eq!(
                sorted(&alone),
                sorted(among),
                "seed {seed}, line {row}: {:?}",
                changed[row]
            );
            parse(parser, &[&line.repeat(20)]);
        }
    }
}

/// One of the lines with some changes; it has no line end.
pub fn mutant(lines: &[&str], pieces: &[&str], random: &mut Rng) -> Vec<u8> {
    let mut line = lines[random.u64(..lines.len() as u64) as usize].as_bytes().to_vec();
    for _ in 0..random.u64(..4) {
        let at = random.u64(..line.len() as u64 + 1) as usize;
        let end = (at + random.u64(..12) as usize).min(line.len());
        match random.u64(..4) {
            0 => _ = line.drain(at..end),
            1 => line.insert(at, random.u64(..256) as u8),
            2 => line.truncate(at),
            _ => {
                let piece = pieces[random.u64(..pieces.len() as u64) as usize];
                line.splice(at..end, piece.bytes());
            }
        }
    }
    line.retain(|byte| *byte != b'\n');
    line
}
