//! Checks an answer that untrusted code has written, and creates columns from it.
//!
//! All code here reads from slices, so no offset or length in an answer can lead outside the
//! buffer.

use crate::answer::{ChangedColumn, ColumnPlace, FailureReason, RowFailure};
use crate::content::{is_array, is_escaped, is_float, is_int, is_object, is_time};
use crate::error::CallError;
use crate::input::{Input, InputColumn};
use crate::layout;
use millstream_columns::{Cell, Kind};
use std::collections::HashSet;
use std::sync::Arc;

const WORD_BYTES: usize = 8;
const ROW_BYTES: usize = 4;
const UNCHANGED: u64 = layout::CELL_UNCHANGED as u64;
const TIMESTAMP: &str = "timestamp";

/// The kinds that a value in an answer may have, by number. `Kind::Members` is not allowed, because
/// members without a column stay unchanged.
const KINDS: [Option<Kind>; 16] = [
    Some(Kind::Absent),
    Some(Kind::Null),
    Some(Kind::False),
    Some(Kind::True),
    Some(Kind::Int),
    Some(Kind::Float),
    Some(Kind::Time),
    Some(Kind::Text),
    Some(Kind::Escaped),
    Some(Kind::Object),
    Some(Kind::Array),
    Some(Kind::Members),
    None,
    None,
    None,
    None,
];

type Checked<T> = Result<T, CallError>;

fn require(is_right: bool, fault: &'static str) -> Checked<()> {
    if is_right { Ok(()) } else { Err(CallError::Invalid(fault)) }
}

/// The contents of a valid answer.
#[derive(Debug)]
pub struct Parsed {
    /// Number of bytes at the start of the buffer that contain values.
    pub value_bytes: usize,
    /// Bytes to append to these values, because cells refer to them.
    pub kept: Vec<u8>,
    pub columns: Vec<ChangedColumn>,
    pub emitted: Vec<u32>,
    pub dropped: Vec<u32>,
    pub failed: Vec<RowFailure>,
}

/// Parses the answer at an offset in the buffer.
///
/// # Errors
/// Returns an error if a part of the answer violates the contract in `layout.rs`.
pub fn parse(buffer: &[u8], offset: i64, input: &Input<'_>, rules: usize) -> Checked<Parsed> {
    let memory = Memory(buffer);
    let answer = memory.words(offset, 1, layout::ANSWER_WORDS)?;
    let value_bytes = usize::try_from(word(answer, layout::ANSWER_VALUE_BYTES));
    let values = value_bytes.ok().and_then(|len| buffer.get(..len));
    let values = values.ok_or(CallError::Invalid("values end outside the buffer"))?;
    let list = |at| {
        let rows = memory.rows(word(answer, at), word(answer, at + 1))?;
        check_rows(&rows, input)?;
        Ok(rows)
    };
    let emitted = list(layout::ANSWER_EMITTED)?;
    let dropped = list(layout::ANSWER_DROPPED)?;
    require(dropped.is_sorted_by(|a, b| a < b), "a row is dropped twice")?;
    let failed = parse_failures(memory, answer, rules)?;
    check_failed(&failed, input, &emitted, &dropped)?;
    let mut columns = ColumnParser {
        memory,
        values,
        input,
        emitted: &emitted,
        failed: &failed,
        kept: Vec::new(),
        parsed: Vec::new(),
    };
    columns.parse(answer)?;
    let ColumnParser { kept, parsed: columns, .. } = columns;
    Ok(Parsed { value_bytes: values.len(), kept, columns, emitted, dropped, failed })
}

/// The buffer that contains an answer.
#[derive(Clone, Copy)]
struct Memory<'a>(&'a [u8]);

impl<'a> Memory<'a> {
    fn bytes(self, offset: i64, len: i64) -> Checked<&'a [u8]> {
        let range = usize::try_from(offset).ok().zip(usize::try_from(len).ok());
        let bytes = range.and_then(|(start, len)| self.0.get(start..start.checked_add(len)?));
        bytes.ok_or(CallError::Invalid("an offset is outside the buffer"))
    }

    /// Returns the bytes of `count` entries with `each` words per entry.
    fn words(self, offset: i64, count: i64, each: i64) -> Checked<&'a [u8]> {
        let len = count.checked_mul(each).and_then(|words| words.checked_mul(WORD_BYTES as i64));
        match (count, len) {
            (0, _) => Ok(&[]),
            (_, Some(len)) if offset % WORD_BYTES as i64 == 0 => self.bytes(offset, len),
            _ => Err(CallError::Invalid("words are not aligned")),
        }
    }

    /// Returns a list of row numbers.
    fn rows(self, offset: i64, count: i64) -> Checked<Vec<u32>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        require(offset % ROW_BYTES as i64 == 0, "row numbers are not aligned")?;
        let len = count.checked_mul(ROW_BYTES as i64).unwrap_or(-1);
        let (rows, _) = self.bytes(offset, len)?.as_chunks();
        Ok(rows.iter().map(|bytes| u32::from_ne_bytes(*bytes)).collect())
    }
}

/// Returns a word of an entry.
fn word(entry: &[u8], index: i64) -> i64 {
    let (words, _) = entry.as_chunks();
    words.get(index as usize).map_or(0, |bytes| i64::from_ne_bytes(*bytes))
}

fn entries(words: &[u8], each: i64) -> std::slice::ChunksExact<'_, u8> {
    words.chunks_exact(each as usize * WORD_BYTES)
}

/// Checks that rows are ascending and selected.
fn check_rows(rows: &[u32], input: &Input<'_>) -> Checked<()> {
    require(rows.is_sorted(), "row numbers are not ascending")?;
    let mut selected = input.selected.iter();
    let mut last = None;
    let mut is_selected = |row: &u32| {
        let is_known = last == Some(*row) || selected.any(|selected| selected == row);
        last = Some(*row);
        is_known
    };
    require(rows.iter().all(&mut is_selected), "a row was not selected")
}

fn parse_failures(memory: Memory<'_>, answer: &[u8], rules: usize) -> Checked<Vec<RowFailure>> {
    let (offset, count) =
        (word(answer, layout::ANSWER_FAILED), word(answer, layout::ANSWER_FAILED_LEN));
    let words = memory.words(offset, count, layout::FAILED_WORDS)?;
    let texts: i64 = entries(words, layout::FAILED_WORDS)
        .map(|entry| word(entry, layout::FAILED_MESSAGE_BYTES).max(0))
        .fold(0, i64::saturating_add);
    // Failures that share a message could otherwise need more memory than the buffer has.
    require(texts <= memory.0.len() as i64, "more messages than the buffer can hold")?;
    let mut message: Arc<str> = Arc::from("");
    let parse = |entry| parse_failure(memory, entry, rules, &mut message);
    entries(words, layout::FAILED_WORDS).map(parse).collect()
}

/// Parses a failure. `message` is the message of the previous failure, and is replaced by the
/// message of this failure.
fn parse_failure(
    memory: Memory<'_>,
    entry: &[u8],
    rules: usize,
    message: &mut Arc<str>,
) -> Checked<RowFailure> {
    let row = u32::try_from(word(entry, layout::FAILED_ROW));
    let row = row.map_err(|_| CallError::Invalid("a failed row does not exist"))?;
    let rule = usize::try_from(word(entry, layout::FAILED_RULE)).unwrap_or(usize::MAX);
    require(rule < rules, "a failure has an unknown rule")?;
    let len = word(entry, layout::FAILED_MESSAGE_BYTES);
    if len != 0 {
        let bytes = memory.bytes(word(entry, layout::FAILED_MESSAGE), len)?;
        *message = String::from_utf8_lossy(bytes).into();
    }
    let reason = reason(word(entry, layout::FAILED_REASON))?;
    Ok(RowFailure { row, reason, rule: rule as u32, message: Arc::clone(message) })
}

fn reason(number: i64) -> Checked<FailureReason> {
    Ok(match number {
        layout::REASON_EXCEPTION => FailureReason::Exception,
        layout::REASON_TIMEOUT => FailureReason::Timeout,
        layout::REASON_WRONG_TYPE => FailureReason::WrongType,
        layout::REASON_OUT_OF_MEMORY => FailureReason::OutOfMemory,
        layout::REASON_STACK_OVERFLOW => FailureReason::StackOverflow,
        layout::REASON_OUTPUT_FULL => FailureReason::OutputFull,
        _ => return Err(CallError::Invalid("a failure has an unknown reason")),
    })
}

/// Checks that failed rows were not changed, dropped or used for emitted events.
fn check_failed(
    failed: &[RowFailure],
    input: &Input<'_>,
    emitted: &[u32],
    dropped: &[u32],
) -> Checked<()> {
    let rows: Vec<u32> = failed.iter().map(|failure| failure.row).collect();
    check_rows(&rows, input)?;
    require(rows.is_sorted_by(|a, b| a < b), "a row failed twice")?;
    let is_untouched =
        |row: &u32| dropped.binary_search(row).is_err() && emitted.binary_search(row).is_err();
    require(rows.iter().all(is_untouched), "a failed row was dropped or emitted an event")
}

struct ColumnParser<'a> {
    memory: Memory<'a>,
    values: &'a [u8],
    input: &'a Input<'a>,
    emitted: &'a [u32],
    failed: &'a [RowFailure],
    kept: Vec<u8>,
    parsed: Vec<ChangedColumn>,
}

impl<'a> ColumnParser<'a> {
    fn parse(&mut self, answer: &[u8]) -> Checked<()> {
        let (offset, count) =
            (word(answer, layout::ANSWER_CHANGED), word(answer, layout::ANSWER_CHANGED_LEN));
        let words = self.memory.words(offset, count, layout::CHANGED_WORDS)?;
        // Columns that share their cells could otherwise need more memory than the buffer has.
        let cells_bytes = (self.input.rows + self.emitted.len()).saturating_mul(WORD_BYTES);
        let names = entries(words, layout::CHANGED_WORDS)
            .map(|entry| word(entry, layout::CHANGED_NAME_BYTES).max(0))
            .fold(0, i64::saturating_add) as usize;
        let bytes = (count as usize).saturating_mul(cells_bytes.max(1)).saturating_add(names);
        require(bytes <= self.memory.0.len(), "more columns than the buffer can hold")?;
        let mut places = HashSet::new();
        for entry in entries(words, layout::CHANGED_WORDS) {
            let place = self.place(entry)?;
            require(places.insert(place.clone()), "a column twice")?;
            let cells =
                self.memory.bytes(word(entry, layout::CHANGED_CELLS), cells_bytes as i64)?;
            require(word(entry, layout::CHANGED_CELLS) % 8 == 0, "cells are not aligned")?;
            let (cells, _) = cells.as_chunks();
            self.check_unchanged(cells)?;
            let column = match place {
                ColumnPlace::Existing(index) => self.existing(index, cells)?,
                ColumnPlace::New(name) => self.new_column(name, cells)?,
            };
            self.parsed.push(column);
        }
        Ok(())
    }

    fn place(&self, entry: &[u8]) -> Checked<ColumnPlace> {
        let column = word(entry, layout::CHANGED_COLUMN);
        if column != -1 {
            let index = usize::try_from(column).unwrap_or(usize::MAX);
            require(index < self.input.columns.len(), "a changed column does not exist")?;
            return Ok(ColumnPlace::Existing(index));
        }
        let (offset, len) =
            (word(entry, layout::CHANGED_NAME), word(entry, layout::CHANGED_NAME_BYTES));
        let name = str::from_utf8(self.memory.bytes(offset, len)?);
        let name = name.map_err(|_| CallError::Invalid("the name of a column is not UTF-8"))?;
        let exists = name != TIMESTAMP && self.input.columns.iter().any(|old| old.name == name);
        require(!name.is_empty() && !exists, "a new column has a duplicate name or no name")?;
        Ok(ColumnPlace::New(name.into()))
    }

    /// Checks that rows that were not selected, or that have failed, are unchanged.
    fn check_unchanged(&self, cells: &[[u8; WORD_BYTES]]) -> Checked<()> {
        let is_unchanged = |cell: &[u8; WORD_BYTES]| u64::from_ne_bytes(*cell) == UNCHANGED;
        if self.input.selected.len() < self.input.rows {
            let mut begin = 0;
            for end in self.input.selected.iter().map(|row| *row as usize).chain([self.input.rows])
            {
                let gap = &cells[begin..end];
                require(gap.iter().all(is_unchanged), "a row was changed that was not selected")?;
                begin = end + 1;
            }
        }
        let mut failed = self.failed.iter().map(|failure| &cells[failure.row as usize]);
        require(failed.all(is_unchanged), "a failed row was changed")
    }

    fn existing(&mut self, index: usize, cells: &[[u8; WORD_BYTES]]) -> Checked<ChangedColumn> {
        let old = &self.input.columns[index];
        let (rows, events) = cells.split_at(self.input.rows);
        let check = Check { values: self.values, block: self.input.block };
        let mut keep = Keep::new(self.values.len(), old, &mut self.kept);
        let mut merged = Vec::with_capacity(cells.len());
        for (raw, old) in rows.iter().zip(old.cells) {
            merged.push(match u64::from_ne_bytes(*raw) {
                UNCHANGED => keep.keep(*old)?,
                raw => check.cell(raw, *old)?,
            });
        }
        let is_message = index == 0;
        for (raw, parent) in events.iter().zip(self.emitted) {
            merged.push(match u64::from_ne_bytes(*raw) {
                UNCHANGED if is_message => keep.keep(old.cells[*parent as usize])?,
                UNCHANGED => Cell::ABSENT,
                raw => check.cell(raw, Cell::ABSENT)?,
            });
        }
        Ok(ChangedColumn {
            place: ColumnPlace::Existing(index),
            cells: merged,
            removed: Vec::new(),
        })
    }

    fn new_column(&self, name: Arc<str>, cells: &[[u8; WORD_BYTES]]) -> Checked<ChangedColumn> {
        let check = Check { values: self.values, block: self.input.block };
        let mut removed = Vec::new();
        let mut checked = Vec::with_capacity(cells.len());
        for (row, raw) in cells.iter().enumerate() {
            let cell = match u64::from_ne_bytes(*raw) {
                UNCHANGED => Cell::ABSENT,
                raw => check.cell(raw, Cell::ABSENT)?,
            };
            if u64::from_ne_bytes(*raw) >> layout::CELL_KIND_SHIFT == 0 && row < self.input.rows {
                removed.push(row as u32);
            }
            checked.push(cell);
        }
        let is_time = |cell: &Cell| matches!(cell.kind(), Kind::Time | Kind::Absent);
        require(&*name != TIMESTAMP || checked.iter().all(is_time), "a timestamp is not a time")?;
        Ok(ChangedColumn { place: ColumnPlace::New(name), cells: checked, removed })
    }
}

/// The data against which cells are checked.
struct Check<'a> {
    values: &'a [u8],
    block: &'a [u8],
}

impl Check<'_> {
    /// Checks a changed cell. `old` is the corresponding cell of the input, whose contents are
    /// valid.
    #[inline(always)]
    fn cell(&self, raw: u64, old: Cell) -> Checked<Cell> {
        let (start, len) = (
            (raw & layout::CELL_START_MASK as u64) as usize,
            (raw >> layout::CELL_LENGTH_SHIFT) as usize & layout::CELL_LENGTH_MASK as usize,
        );
        let kind = KINDS[(raw >> layout::CELL_KIND_SHIFT) as usize];
        let kind = kind.ok_or(CallError::Invalid("a cell has an unknown kind"))?;
        let is_own = raw & layout::CELL_OWN as u64 != 0;
        let buffer = if is_own { self.values } else { self.block };
        let bytes = buffer.get(start..start + len);
        let bytes = bytes.ok_or(CallError::Invalid("a value is out of bounds"))?;
        let new = if is_own { Cell::own } else { Cell::new };
        let cell = new(kind, start, len);
        let is_right = kind == Kind::Text || fits(kind, bytes) || (!is_own && cell == old);
        require(is_right, "a value does not have the form of its kind")?;
        Ok(if kind == Kind::Absent { Cell::ABSENT } else { cell })
    }
}

/// Returns whether a value has the form that its kind requires.
fn fits(kind: Kind, bytes: &[u8]) -> bool {
    match kind {
        Kind::Absent | Kind::Null | Kind::False | Kind::True => bytes.is_empty(),
        Kind::Int => is_int(bytes),
        Kind::Float => is_float(bytes),
        Kind::Time => is_time(bytes),
        Kind::Text => true,
        Kind::Escaped => is_escaped(bytes),
        Kind::Object => is_object(bytes),
        Kind::Array => is_array(bytes),
        Kind::Members => false,
    }
}

/// Copies a column's unchanged values into the buffer that contains the changed values.
struct Keep<'a> {
    /// Offset of `kept` in this buffer.
    base: usize,
    own: &'a [u8],
    kept: &'a mut Vec<u8>,
    /// The last value that was copied, with its new cell, because equal cells in consecutive rows
    /// share it.
    last: (Cell, Cell),
}

impl<'a> Keep<'a> {
    fn new(base: usize, column: &'a InputColumn<'_>, kept: &'a mut Vec<u8>) -> Keep<'a> {
        Keep { base, own: column.own, kept, last: (Cell::ABSENT, Cell::ABSENT) }
    }

    /// Returns a cell that refers to the same value in the new buffer.
    #[inline(always)]
    fn keep(&mut self, old: Cell) -> Checked<Cell> {
        if !old.is_own() {
            return Ok(old);
        }
        if old != self.last.0 {
            let start = self.base + self.kept.len();
            let bytes = self.own.get(old.start()..old.start() + old.len());
            let bytes = bytes.ok_or(CallError::Input("a cell is out of bounds"))?;
            if start + bytes.len() > layout::OUT_BYTES_MAX as usize {
                return Err(CallError::Memory);
            }
            self.kept.extend_from_slice(bytes);
            self.last = (old, Cell::own(old.kind(), start, bytes.len()));
        }
        Ok(self.last.1)
    }
}

#[cfg(test)]
mod tests;
