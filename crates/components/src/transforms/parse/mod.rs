//! The `parse` transform parses lines into fields, and extracts their timestamps.

mod build;
mod config;

pub(crate) use build::of_config;
pub use config::Format;
pub use config::{
    EscapeName, FieldConfig, FormatConfig, FormattedType, Header, ParseConfig, Quotes, TimeConfig,
    TypeConfig, TypeName, TypedField,
};

use crate::transforms::on_error::{Failed, OnError};
use crate::util::message::{MESSAGE, note_message_field};
use millstream_framing::{TimeReader, Unread};
use millstream_model::{
    Batch, Cell, CellKind, Column, ComponentError, LINE, Map, Outputs, Selection, TIME_UNKNOWN,
};
use millstream_parsers::{Failure, Fields, Input, Parser};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of formats that are listed in the reason of a line that no format parses.
const REASONS_MAX: usize = 8;

/// Events that keep the parsed field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// All events.
    Always,
    /// Events that cannot be parsed; the default with a format.
    OnError,
    /// No event.
    Never,
}

/// The text to parse.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    /// The `message` field, or the line if there is no such field.
    Message,
    /// The line.
    Line,
    /// Another field.
    Field(Arc<str>),
}

impl Source {
    fn of(name: &str) -> Source {
        match name {
            MESSAGE => Source::Message,
            LINE => Source::Line,
            name => Source::Field(name.into()),
        }
    }

    /// Returns the text to parse in each row.
    fn column(&self, batch: &mut Batch) -> Column {
        match self {
            Source::Message if batch.has_message_field() => {
                note_message_field(batch, "transform parse");
                text_of(batch, &MESSAGE.into());
                batch.message_column().into_owned()
            }
            Source::Message | Source::Line => batch.message.clone(),
            Source::Field(name) => text_of(batch, name),
        }
    }
}

/// A field with a timestamp, and its format.
#[derive(Clone)]
struct TimeField {
    /// Name of the field; `None` for the line.
    field: Option<Arc<str>>,
    reader: TimeReader,
    keep: bool,
    /// Whether a missing field is an error.
    is_required: bool,
    /// Indexes of the formats whose lines have this timestamp; `None` for all lines.
    formats: Option<Arc<[usize]>>,
}

/// Placeholder for the format of rows that no format could parse.
const UNPARSED: usize = usize::MAX;

/// Index of the format that parsed each row of a batch, or [`UNPARSED`]. Empty if the timestamps do
/// not depend on the format.
#[derive(Default)]
struct ParsedBy(Vec<usize>);

impl ParsedBy {
    /// Begins a batch.
    fn begin(&mut self, rows: usize) {
        self.0.clear();
        self.0.resize(rows, UNPARSED);
    }

    /// Records that a format parsed the rows of `runs` that are not in `unparsed`.
    fn note(&mut self, format: usize, runs: &[(usize, usize)], unparsed: &[(usize, usize)]) {
        if self.0.is_empty() {
            return;
        }
        runs.iter().for_each(|(begin, end)| self.0[*begin..*end].fill(format));
        unparsed.iter().for_each(|(begin, end)| self.0[*begin..*end].fill(UNPARSED));
    }

    /// Returns whether one of these formats parsed a row.
    #[inline]
    fn is_one_of(&self, formats: &[usize], row: usize) -> bool {
        self.0.get(row).is_none_or(|by| formats.contains(by))
    }
}

/// A running `parse` transform.
struct Parse {
    parsers: Vec<Box<dyn Parser>>,
    /// Names of the formats.
    formats: Arc<[String]>,
    source: Source,
    keep: Keep,
    /// Fields with timestamps; each format may use a different one.
    times: Vec<TimeField>,
    /// The format that parsed each row of the current batch.
    parsed_by: ParsedBy,
    on_error: OnError,
}

impl Map for Parse {
    fn apply(&mut self, mut batch: Batch, out: &mut Outputs) -> Result<(), ComponentError> {
        let mut failed = Failed::default();
        let source =
            (!self.parsers.is_empty()).then(|| self.parse_field(&mut batch, &mut failed, out));
        if !self.times.is_empty() {
            self.read_times(&mut batch, &mut failed);
        }
        // Only now is it known which lines have failed.
        if let Some(source) = source {
            self.keep(&mut batch, &source, &mut failed);
        }
        failed.settle(batch, self.on_error, out);
        Ok(())
    }
}

// Fields.
impl Parse {
    /// Parses the lines and adds their fields; returns the parsed column.
    fn parse_field(&mut self, batch: &mut Batch, failed: &mut Failed, out: &Outputs) -> Column {
        let source = self.source.column(batch);
        let mut runs: Vec<(usize, usize)> = batch.runs(0, batch.rows()).collect();
        if self.source != Source::Line && !source.is_same(&batch.message) {
            runs = present(&source, runs, failed);
        }
        let mut fields = Fields::new(batch.rows(), source.own());
        let mut before = Vec::new();
        let is_asked = self.times.iter().any(|time| time.formats.is_some());
        self.parsed_by.begin(if is_asked { batch.rows() } else { 0 });
        for (index, parser) in self.parsers.iter_mut().enumerate() {
            let input = Input {
                block: &batch.block,
                own: source.own(),
                cells: source.cells(),
                runs: &runs,
                read_ns: batch.read_ns,
            };
            parser.set_header(batch.header.as_ref());
            // The next format parses these lines from the beginning, so their failures must not
            // stay in `fields`.
            before.push(fields.take_failures());
            parser.parse(&input, &mut fields);
            let unparsed = runs_of(fields.failures());
            self.parsed_by.note(index, &runs, &unparsed);
            runs = unparsed;
        }
        out.counters.noted("duplicate_key", fields.duplicates);
        self.fail(&before, &fields.take_failures(), failed);
        for flaw in fields.take_flaws() {
            failed.explain(|| format!("at byte {}", flaw.at));
            failed.add(flaw.row, flaw.reason);
        }
        fields.take_bad_types().into_iter().for_each(|row| failed.add(row, "bad_type"));
        fields.finish().into_iter().for_each(|column| batch.fields.merge(column, &batch.block));
        // Move fields that `time.field` names into columns, even past the limit on columns, so that
        // they are found by name.
        let named = self.times.iter().filter_map(|time| time.field.as_deref());
        batch.fields.lift(named, &batch.block);
        source
    }

    /// Records the lines that no format could parse.
    fn fail(&self, before: &[Vec<Failure>], last: &[Failure], failed: &mut Failed) {
        let before = if last.is_empty() { Vec::new() } else { by_row(before) };
        for failure in last {
            failed.explain(|| format!("at byte {}", failure.at));
            match before.is_empty() {
                true => failed.add(failure.row, failure.reason),
                false => {
                    let words = self.reasons(&before, failure);
                    failed.add_in_words(failure.row, failure.reason, words);
                }
            }
        }
    }

    /// Lists why each format failed: `json: not_json; logfmt: no_pairs`.
    fn reasons(&self, before: &[Failures], last: &Failure) -> String {
        let earlier =
            before.iter().map(|failures| failures.get(&last.row).copied().unwrap_or_default());
        let all = self.formats.iter().zip(earlier.chain([last.reason]));
        let shown = all.take(REASONS_MAX).map(|(format, reason)| format!("{format}: {reason}"));
        let words = shown.collect::<Vec<_>>().join("; ");
        let more = self.formats.len().saturating_sub(REASONS_MAX);
        if more > 0 { format!("{words}; and {more} more") } else { words }
    }

    /// Removes the parsed text from the rows that do not keep it.
    fn keep(&self, batch: &mut Batch, source: &Column, failed: &mut Failed) {
        let left = match self.keep {
            Keep::Always => return,
            Keep::Never => Selection::new_unset(batch.rows()),
            Keep::OnError => failed.selection(batch.rows()),
        };
        if !matches!(self.source, Source::Field(_)) {
            let before = batch.shown.take();
            batch.shown = Some(before.map_or(left.clone(), |before| &before & &left));
        }
        let name = match &self.source {
            Source::Line => return,
            Source::Message => MESSAGE,
            Source::Field(name) => name,
        };
        let Some(column) = batch.fields.get(name).cloned() else { return };
        let mut edit = column.edit();
        let gone = (0..batch.rows()).filter(|row| !left.value(*row));
        // The text stays if a parsed field with the same name has replaced it.
        let gone = gone.filter(|row| is_equal(batch, &column, source, *row));
        gone.for_each(|row| edit.set(row, Default::default()));
        batch.fields.set(edit.finish(column.name.clone()));
    }
}

/// Returns whether two columns of a batch have the same value in a row.
fn is_equal(batch: &Batch, one: &Column, other: &Column, row: usize) -> bool {
    let (cell, of_other) = (one.cells()[row], other.cells()[row]);
    cell.kind() == of_other.kind()
        && one.bytes(&batch.block, cell) == other.bytes(&batch.block, of_other)
}

/// The reasons of lines that a format could not parse, by row.
type Failures = HashMap<usize, &'static str>;

/// Returns the failure reasons of each format except the last, by row. The first entry of `before`
/// is skipped, because it precedes the first format.
fn by_row(before: &[Vec<Failure>]) -> Vec<Failures> {
    let by_row =
        |list: &Vec<Failure>| list.iter().map(|failure| (failure.row, failure.reason)).collect();
    before.iter().skip(1).map(by_row).collect()
}

/// Returns the field as text: unescaped, with numbers, objects and arrays unchanged.
fn text_of(batch: &mut Batch, name: &Arc<str>) -> Column {
    batch.fields.lift([&**name], &batch.block);
    let Some(column) = batch.fields.get(name) else {
        return Column::new(name.clone(), vec![Default::default(); batch.rows()], Vec::new());
    };
    if column.cells().iter().all(|cell| cell.kind() != CellKind::Escaped) {
        return column.clone();
    }
    let mut edit = column.edit();
    for row in 0..batch.rows() {
        if column.cells()[row].kind() == CellKind::Escaped
            && let Some(text) = batch.value(column, row).text()
        {
            edit.text(row, &text);
        }
    }
    let unescaped = edit.finish(name.clone());
    batch.fields.set(unescaped.clone());
    unescaped
}

/// Returns the rows of `runs` that have a value to parse. Records all other rows as failed.
fn present(column: &Column, runs: Vec<(usize, usize)>, failed: &mut Failed) -> Vec<(usize, usize)> {
    let is_text = |cell: &Cell| !matches!(cell.kind(), CellKind::Absent | CellKind::Null);
    if column.cells().iter().all(is_text) {
        return runs;
    }
    let mut there: Vec<(usize, usize)> = Vec::new();
    for row in runs.iter().flat_map(|(begin, end)| *begin..*end) {
        if is_text(&column.cells()[row]) {
            push_run(&mut there, row);
        } else {
            failed.add(row, "missing_field");
        }
    }
    there
}

fn push_run(runs: &mut Vec<(usize, usize)>, row: usize) {
    match runs.last_mut() {
        Some((_, end)) if *end == row => *end += 1,
        _ => runs.push((row, row + 1)),
    }
}

/// Returns the failed rows as ascending runs.
fn runs_of(failures: &[Failure]) -> Vec<(usize, usize)> {
    let mut rows: Vec<usize> = failures.iter().map(|failure| failure.row).collect();
    rows.sort_unstable();
    let mut runs = Vec::new();
    rows.into_iter().for_each(|row| push_run(&mut runs, row));
    runs
}

// Time.
impl Parse {
    /// Extracts the timestamps of the selected rows. A failed row keeps the timestamp from an
    /// earlier transform.
    fn read_times(&mut self, batch: &mut Batch, failed: &mut Failed) {
        let mut times = match &batch.time {
            Some(times) => times.to_vec(),
            None => vec![TIME_UNKNOWN; batch.rows()],
        };
        let mut read = 0;
        for time in &mut self.times {
            let parsed_by = &self.parsed_by;
            let (count, unread) = time.read(batch, &mut times, parsed_by, failed);
            read += count;
            time.leave_out(batch, &unread, parsed_by);
        }
        for segment in batch.segments.iter() {
            let rows = segment.first_row..segment.first_row + segment.rows;
            segment.origin.state.record_times(segment.ack.range(), &times[rows]);
        }
        // If no time was read, keep the batch without times, so that later components need not look
        // at each row.
        if read > 0 {
            batch.time = Some(times.into());
        }
    }
}

impl TimeField {
    /// Stores the times in `times`. Returns their number, and the rows whose time is unreadable.
    fn read(
        &mut self,
        batch: &Batch,
        times: &mut [i64],
        parsed_by: &ParsedBy,
        failed: &mut Failed,
    ) -> (usize, Vec<usize>) {
        let column = match &self.field {
            None => Some(batch.message.clone()),
            Some(name) => batch.fields.get(name).cloned(),
        };
        let unfit = failed.selection(batch.rows());
        let (mut read, mut unread) = (0, Vec::new());
        for row in batch.runs(0, batch.rows()).flat_map(|(begin, end)| begin..end) {
            if !self.is_of(row, parsed_by) {
                continue;
            }
            match self.time(batch, column.as_ref(), row) {
                Ok(ns) => {
                    times[row] = ns;
                    read += 1;
                }
                // The field is optional, or missing because the line could not be parsed.
                Err(None) if !self.is_required || unfit.value(row) => {}
                Err(why) => {
                    failed.explain(|| {
                        why.map_or("the field is missing".into(), |why| why.to_string())
                    });
                    failed.add(row, "bad_time");
                    unread.push(row);
                }
            }
        }
        (read, unread)
    }

    #[inline]
    fn time(
        &mut self,
        batch: &Batch,
        column: Option<&Column>,
        row: usize,
    ) -> Result<i64, Option<Unread>> {
        let column = column.ok_or(None)?;
        let cell = column.cells()[row];
        if !cell.is_present() {
            return Err(None);
        }
        self.reader.time(column.bytes(&batch.block, cell), batch.read_ns).map_err(Some)
    }

    /// Returns whether this timestamp applies to a row.
    #[inline]
    fn is_of(&self, row: usize, parsed_by: &ParsedBy) -> bool {
        self.formats.as_ref().is_none_or(|formats| parsed_by.is_one_of(formats, row))
    }

    /// Unless the field is kept, removes it from the rows to which this timestamp applies, except
    /// from the rows in `unread`.
    fn leave_out(&self, batch: &mut Batch, unread: &[usize], parsed_by: &ParsedBy) {
        let Some(name) = self.field.as_ref().filter(|_| !self.keep) else { return };
        if unread.is_empty() && parsed_by.0.is_empty() {
            batch.fields.remove(name);
            return;
        }
        let Some(column) = batch.fields.get(name) else { return };
        let mut edit = column.edit();
        let gone = (0..batch.rows()).filter(|row| self.is_of(*row, parsed_by));
        let gone = gone.filter(|row| unread.binary_search(row).is_err());
        gone.for_each(|row| edit.set(row, Default::default()));
        batch.fields.set(edit.finish(name.clone()));
    }
}

#[cfg(test)]
mod tests;
