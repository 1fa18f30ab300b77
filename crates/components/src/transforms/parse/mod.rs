//! Transform `parse`: takes lines apart into fields, and finds the time they say.

mod config;
mod form;

pub use config::{
    EscapeName, FieldConfig, FormConfig, FormattedType, ParseConfig, TimeConfig, TypeConfig,
    TypeName, TypedField,
};
pub use form::Format;
pub(crate) use form::of_config;

use crate::on_error::{Failed, OnError};
use millstream_framing::{TimeReader, Unread};
use millstream_model::{
    Batch, CellKind, Column, ComponentError, Map, Outputs, Selection, TIME_UNKNOWN,
};
use millstream_parsers::{Failure, Fields, Input, Parser};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::Arc;

/// Formats whose reasons are told of a line that none of them has.
const REASONS_MAX: usize = 8;

/// Whether what was taken apart is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// In every event.
    Always,
    /// Where it does not fit: the default where there is a format.
    OnError,
    /// In none.
    Never,
}

/// Where the time is.
#[derive(Clone)]
struct TimeField {
    /// The field that has it; the message if `None`.
    field: Option<Arc<str>>,
    reader: TimeReader,
    keep: bool,
    /// Whether it is an error if the field is not there.
    is_required: bool,
}

/// The transform.
struct Parse {
    parsers: Vec<Box<dyn Parser>>,
    /// What they are called.
    formats: Arc<[String]>,
    /// The field that is taken apart; the message if `None`.
    field: Option<Arc<str>>,
    keep: Keep,
    /// Where the time is: each format may have it in another field.
    times: Vec<TimeField>,
    on_error: OnError,
}

impl Map for Parse {
    fn apply(&mut self, mut batch: Batch, out: &mut Outputs) -> Result<(), ComponentError> {
        let mut failed = Failed::default();
        let source =
            (!self.parsers.is_empty()).then(|| self.take_apart(&mut batch, &mut failed, out));
        if !self.times.is_empty() {
            self.read_times(&mut batch, &mut failed);
        }
        // Only now is it known which lines do not fit.
        if let Some(source) = source {
            self.keep(&mut batch, &source, &mut failed);
        }
        failed.settle(batch, self.on_error, out);
        Ok(())
    }
}

// Fields.
impl Parse {
    /// Adds the fields that are found; what was taken apart.
    fn take_apart(&mut self, batch: &mut Batch, failed: &mut Failed, out: &Outputs) -> Column {
        let source = match &self.field {
            None => batch.message.clone(),
            Some(name) => text_of(batch, name),
        };
        let mut runs: Vec<(usize, usize)> = batch.runs(0, batch.rows()).collect();
        if self.field.is_some() {
            runs = present(&source, &runs, failed);
        }
        let mut fields = Fields::new(batch.rows(), source.own());
        let mut before = Vec::new();
        for parser in &mut self.parsers {
            let input = Input {
                block: &batch.block,
                own: source.own(),
                cells: source.cells(),
                runs: &runs,
                read_ns: batch.read_ns,
            };
            // What did not fit the format before is tried again as a whole.
            before.push(fields.take_failures());
            parser.parse(&input, &mut fields);
            runs = runs_of(fields.failures());
        }
        out.counters.noted("duplicate_key", fields.duplicates);
        self.fail(&before, &fields.take_failures(), failed);
        fields.take_bad_types().into_iter().for_each(|row| failed.add(row, "bad_type"));
        fields.finish().into_iter().for_each(|column| batch.fields.merge(column, &batch.block));
        // What the configuration names is found, however many other names there are.
        let named = self.times.iter().filter_map(|time| time.field.as_deref());
        batch.fields.lift(named, &batch.block);
        source
    }

    /// Notes the lines that do not fit the last format, nor those before.
    fn fail(&self, before: &[Vec<Failure>], last: &[Failure], failed: &mut Failed) {
        let before = if last.is_empty() { Vec::new() } else { by_row(before) };
        for failure in last {
            failed.explain(|| format!("from byte {} on", failure.at));
            match before.is_empty() {
                true => failed.add(failure.row, failure.reason),
                false => {
                    let words = self.reasons(&before, failure);
                    failed.add_in_words(failure.row, failure.reason, words);
                }
            }
        }
    }

    /// Why no format has a line: `json: not_json; logfmt: no_pairs`.
    fn reasons(&self, before: &[Failures], last: &Failure) -> String {
        let earlier =
            before.iter().map(|failures| failures.get(&last.row).copied().unwrap_or_default());
        let all = self.formats.iter().zip(earlier.chain([last.reason]));
        let shown = all.take(REASONS_MAX).map(|(format, reason)| format!("{format}: {reason}"));
        let words = shown.collect::<Vec<_>>().join("; ");
        let more = self.formats.len().saturating_sub(REASONS_MAX);
        if more > 0 { format!("{words}; and {more} more") } else { words }
    }

    /// Leaves out the text that was taken apart, where it is not wanted any more.
    fn keep(&self, batch: &mut Batch, source: &Column, failed: &mut Failed) {
        let left = match self.keep {
            Keep::Always => return,
            Keep::Never => Selection::new_unset(batch.rows()),
            Keep::OnError => failed.selection(batch.rows()),
        };
        match &self.field {
            None => {
                let before = batch.shown.take();
                batch.shown = Some(before.map_or(left.clone(), |before| &before & &left));
            }
            // A field that was found under the same name has taken its place.
            Some(name) if batch.fields.get(name).is_some_and(|column| column.is_same(source)) => {
                let mut column = source.edit();
                let gone = (0..batch.rows()).filter(|row| !left.value(*row));
                gone.for_each(|row| column.set(row, Default::default()));
                batch.fields.set(column.finish(name.clone()));
            }
            Some(_) => {}
        }
    }
}

/// The reasons of lines that do not fit a format, by row.
type Failures = HashMap<usize, &'static str>;

/// Those of each format but the last. What was taken before the first is none of them.
fn by_row(before: &[Vec<Failure>]) -> Vec<Failures> {
    let of =
        |list: &Vec<Failure>| list.iter().map(|failure| (failure.row, failure.reason)).collect();
    before.iter().skip(1).map(of).collect()
}

/// The field as text: without escapes, and numbers, objects and arrays as they are written.
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

/// The rows of `runs` in which there is something to take apart.
fn present(column: &Column, runs: &[(usize, usize)], failed: &mut Failed) -> Vec<(usize, usize)> {
    let mut there: Vec<(usize, usize)> = Vec::new();
    for row in runs.iter().flat_map(|(begin, end)| *begin..*end) {
        if matches!(column.cells()[row].kind(), CellKind::Absent | CellKind::Null) {
            failed.add(row, "missing_field");
        } else {
            push_run(&mut there, row);
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

/// The rows that do not fit, in rising order, as runs.
fn runs_of(failures: &[Failure]) -> Vec<(usize, usize)> {
    let mut rows: Vec<usize> = failures.iter().map(|failure| failure.row).collect();
    rows.sort_unstable();
    let mut runs = Vec::new();
    rows.into_iter().for_each(|row| push_run(&mut runs, row));
    runs
}

// Time.
impl Parse {
    /// Finds the times of the selected rows. A row that fails keeps what an earlier transform
    /// found.
    fn read_times(&mut self, batch: &mut Batch, failed: &mut Failed) {
        let mut times = match &batch.time {
            Some(times) => times.to_vec(),
            None => vec![TIME_UNKNOWN; batch.rows()],
        };
        let mut read = 0;
        for time in &mut self.times {
            let (count, unread) = time.read(batch, &mut times, failed);
            read += count;
            time.leave_out(batch, &unread);
        }
        for segment in batch.segments.iter() {
            let rows = segment.first_row..segment.first_row + segment.rows;
            segment.origin.state.record_times(segment.ack.range(), &times[rows]);
        }
        // Without one time, rows need not be looked at one by one behind here.
        if read > 0 {
            batch.time = Some(times.into());
        }
    }
}

impl TimeField {
    /// Puts what is read into `times`; how many times there are, and the rows whose time cannot be
    /// read.
    fn read(
        &mut self,
        batch: &Batch,
        times: &mut [i64],
        failed: &mut Failed,
    ) -> (usize, Vec<usize>) {
        let column = match &self.field {
            None => Some(batch.message.clone()),
            Some(name) => batch.fields.get(name).cloned(),
        };
        let unfit = failed.selection(batch.rows());
        let (mut read, mut unread) = (0, Vec::new());
        for row in batch.runs(0, batch.rows()).flat_map(|(begin, end)| begin..end) {
            match self.time(batch, column.as_ref(), row) {
                Ok(ns) => {
                    times[row] = ns;
                    read += 1;
                }
                // It was not asked for, or cannot be there: the line does not fit.
                Err(None) if !self.is_required || unfit.value(row) => {}
                Err(why) => {
                    failed.explain(|| {
                        why.map_or("the field is not there".into(), |why| why.to_string())
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

    /// Takes the field out, but from the rows that are `unread`.
    fn leave_out(&self, batch: &mut Batch, unread: &[usize]) {
        let Some(name) = self.field.as_ref().filter(|_| !self.keep) else { return };
        if unread.is_empty() {
            batch.fields.remove(name);
            return;
        }
        let Some(column) = batch.fields.get(name) else { return };
        let mut edit = column.edit();
        let gone = (0..batch.rows()).filter(|row| unread.binary_search(row).is_err());
        gone.for_each(|row| edit.set(row, Default::default()));
        batch.fields.set(edit.finish(name.clone()));
    }
}

#[cfg(test)]
mod tests;
