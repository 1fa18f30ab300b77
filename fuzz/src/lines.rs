//! Runs a parser on lines, in every position that the lines can have in a batch.

use crate::cells::{Found, found, json};
use millstream_columns::{COLUMNS_MAX, Cell, Kind};
use millstream_parsers::{Fields, Input, Parser, Reason};
use std::collections::BTreeMap;

/// The fields of a line by name; or, if the line does not match, the reason and the position of the
/// mismatch.
pub type Row = Result<BTreeMap<String, Found>, (Reason, usize)>;

/// Maximum number of rows in a batch.
const ROWS_MAX: usize = 200;

/// Maximum number of lines that are also parsed alone.
const ALONE_MAX: usize = 6;

/// Read time of the lines: 2026-03-01T00:00:00Z.
const READ_NS: i64 = 1_772_323_200_000_000_000;

/// Bytes before and after each line in its block, which reveal a parser that reads beyond the line.
const BEFORE: &[u8] = b"\"},{\" 1=";
const BEHIND: &[u8] = b"\"}]1 =x\n";

/// The positions of a batch's lines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the block, all selected.
    Block,
    /// In the buffer of a column.
    Own,
    /// In the block, with only every second line selected.
    Chosen,
}

/// The rows of a batch, and counts over the whole batch.
struct Batch {
    rows: Vec<Row>,
    counts: (usize, u64),
    /// Number of fields, including those that end up without a value.
    fields: usize,
}

/// Splits an input into lines.
pub fn lines(input: &[u8]) -> Vec<&[u8]> {
    input.split(|byte| *byte == b'\n').take(ROWS_MAX).collect()
}

/// Splits an input into its first line and the remaining lines.
pub fn head_and_lines(input: &[u8]) -> (&[u8], Vec<&[u8]>) {
    let all = lines(input);
    (all[0], all[1..].to_vec())
}

/// Parses lines in every position, and returns their rows.
///
/// # Panics
/// Panics if the fields of a line depend on its position or on neighboring lines, are outside of
/// the line, or cannot be written as JSON.
pub fn take(parser: &mut dyn Parser, lines: &[&[u8]]) -> Vec<Row> {
    let all = take_from(parser, lines, Place::Block);
    let own = take_from(&mut *parser.clone_boxed(), lines, Place::Own);
    assert_eq!(all.rows, own.rows, "in the block, and in an own buffer");
    assert_eq!(all.counts, own.counts, "in the block, and in an own buffer");
    // At the maximum number of fields, earlier lines determine which fields have columns.
    if all.fields < COLUMNS_MAX {
        let chosen = take_from(parser, lines, Place::Chosen);
        for (row, (found, expected)) in chosen.rows.iter().zip(&all.rows).enumerate() {
            match row % 2 {
                0 => assert_eq!(found, expected, "row {row} with others left out"),
                _ => assert_eq!(found, &Ok(BTreeMap::new()), "row {row} was not chosen"),
            }
        }
        for row in (0..lines.len()).step_by(lines.len().div_ceil(ALONE_MAX).max(1)) {
            let alone = take_from(parser, &lines[row..=row], Place::Block).rows;
            assert_eq!(alone[0], all.rows[row], "row {row} alone: {}", lossy(lines[row]));
        }
    }
    for fields in all.rows.iter().flatten() {
        json(fields.iter().map(|(name, found)| (&**name, found)));
    }
    all.rows
}

fn take_from(parser: &mut dyn Parser, lines: &[&[u8]], place: Place) -> Batch {
    let (text, cells) = lay_out(lines, place);
    let (block, own) =
        if place == Place::Own { (&b""[..], &text[..]) } else { (&text[..], &b""[..]) };
    let every_second: Vec<(usize, usize)> =
        (0..lines.len()).step_by(2).map(|row| (row, row + 1)).collect();
    let all = [(0, lines.len())];
    let runs = if place == Place::Chosen { &every_second[..] } else { &all[..] };
    let input = Input { block, own, cells: &cells, runs, read_ns: READ_NS };
    let mut fields = Fields::new(lines.len(), own);
    parser.parse(&input, &mut fields);
    let failures = fields.take_failures();
    let counts = (fields.bad_types().len(), fields.duplicates);
    let mut rows = vec![Ok(BTreeMap::new()); lines.len()];
    let (len, columns) = (fields.len(), fields.finish());
    for column in &columns {
        for (row, cell) in column.cells().iter().enumerate().filter(|(_, cell)| cell.is_present()) {
            let is_made = cell.is_own() && cell.start() >= own.len();
            assert!(
                is_made || lies_in(*cell, cells[row]),
                "{}: {cell:?} not in {:?}",
                column.name,
                cells[row]
            );
            let fields: &mut BTreeMap<_, _> = rows[row].as_mut().expect("no failure yet");
            let before = fields.insert(column.name.to_string(), found(column, *cell, block));
            assert_eq!(before, None, "the field {} is there twice", column.name);
        }
    }
    for failure in failures {
        assert!(failure.at <= lines[failure.row].len(), "{failure:?} is past the end of its line");
        assert_eq!(
            rows[failure.row],
            Ok(BTreeMap::new()),
            "{failure:?}, and yet something was found"
        );
        rows[failure.row] = Err((failure.reason, failure.at));
    }
    Batch { rows, counts, fields: len }
}

fn lay_out(lines: &[&[u8]], place: Place) -> (Vec<u8>, Vec<Cell>) {
    let cell = if place == Place::Own { Cell::own } else { Cell::new };
    let (mut text, mut cells) = (Vec::new(), Vec::new());
    for line in lines {
        text.extend_from_slice(BEFORE);
        cells.push(cell(Kind::Text, text.len(), line.len()));
        text.extend_from_slice(line);
        text.extend_from_slice(BEHIND);
    }
    (text, cells)
}

/// Returns whether a cell has no bytes, or all of its bytes are in the line `within`.
fn lies_in(cell: Cell, within: Cell) -> bool {
    let is_constant = matches!(cell.kind(), Kind::Null | Kind::True | Kind::False);
    let end = within.start() + within.len();
    let is_inside = cell.start() >= within.start() && cell.start() + cell.len() <= end;
    is_constant || cell.is_own() == within.is_own() && is_inside
}

/// Returns an input as text for a message.
pub fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
