//! The `fields` transform renames, drops, sets and changes fields, step by step.
//!
//! Steps work on columns where possible: rename, drop and copy cost nothing per row. Unchanged
//! values stay in the block.

mod build;
mod config;
mod constant;
mod dots;
mod pieces;
mod severity;
mod table;
mod text;
mod typed;
mod url;

pub use config::{
    Algorithm, CastType, Constant, FieldsConfig, HashConfig, JoinConfig, LookupConfig, Numbers,
    Query, SetConfig, SeverityConfig, SplitConfig, StepConfig, SubstringConfig, UrlConfig,
};

use crate::transforms::on_error::{Failed, OnError};
use crate::util::message::{MESSAGE, note_message_field};
use millstream_model::{
    Batch, Cell, CellKind, Column, ColumnBuilder, ComponentError, Counters, LINE, Map, Outputs,
    Selection,
};
use std::sync::Arc;

/// A step of the transform.
trait Step: Send + Sync {
    /// Changes the selected rows.
    fn apply(&self, batch: &mut Batch, noted: &mut Noted);
}

/// Failures and counters of a batch.
#[derive(Default)]
struct Noted {
    failed: Failed,
    /// Number of URL parameters beyond the limits.
    left_out: u64,
    counters: Arc<Counters>,
}

/// A running `fields` transform.
struct Fields {
    steps: Arc<[Box<dyn Step>]>,
    /// Names of all fields that the steps use.
    names: Arc<[String]>,
    on_error: OnError,
}

impl Map for Fields {
    fn apply(&mut self, mut batch: Batch, out: &mut Outputs) -> Result<(), ComponentError> {
        let mut noted = Noted { counters: out.counters.clone(), ..Noted::default() };
        batch.fields.lift(self.names.iter().map(String::as_str), &batch.block);
        self.steps.iter().for_each(|step| step.apply(&mut batch, &mut noted));
        out.counters.noted("parameters_left_out", noted.left_out);
        noted.failed.settle(batch, self.on_error, out);
        Ok(())
    }
}

// Columns by name; the message is one of these columns.

fn column(batch: &Batch, name: &str) -> Option<Column> {
    match name {
        MESSAGE => {
            note_message_field(batch, "transform fields");
            Some(batch.message_column().into_owned())
        }
        LINE => Some(batch.message.clone()),
        _ => batch.metadata(name).or_else(|| batch.fields.get(name)).cloned(),
    }
}

/// Merges a column under its name. Rows without a value in the column keep their existing value.
fn put(batch: &mut Batch, column: Column) {
    if &*column.name != MESSAGE {
        return batch.fields.merge(column, &batch.block);
    }
    let (of_fields, of_lines) = split_messages(batch, &column);
    let is_shown = |row: usize| batch.is_shown(row) || of_lines.cells()[row].is_present();
    let shown = Selection::collect_bool(batch.rows(), is_shown);
    batch.shown = batch.shown.is_some().then_some(shown);
    set_lines(batch, &of_lines);
    if let Some(of_fields) = of_fields {
        batch.fields.merge(of_fields, &batch.block);
    }
}

/// Replaces lines with the values of a column, in rows where the column has a value.
fn set_lines(batch: &mut Batch, column: &Column) {
    let mut edit = batch.message.edit();
    for row in (0..batch.rows()).filter(|row| column.cells()[*row].is_present()) {
        edit.text(row, &batch.value(column, row).plain().unwrap_or_default());
    }
    batch.message = edit.finish(batch.message.name.clone());
}

/// Replaces messages. A message that was a field stays a field, and a line stays a line.
fn change_messages(batch: &mut Batch, made: &Column) {
    let (of_fields, of_lines) = split_messages(batch, made);
    match of_fields {
        None => batch.message = of_lines,
        Some(of_fields) => {
            batch.fields.set(of_fields);
            set_lines(batch, &of_lines);
        }
    }
}

/// Splits a column of messages into the column of the rows with a field `message`, if there are
/// any, and the column of the other rows, whose message is the line.
fn split_messages(batch: &Batch, column: &Column) -> (Option<Column>, Column) {
    let Some(field) = batch.fields.get(MESSAGE) else { return (None, column.clone()) };
    let (mut of_fields, mut of_lines) = (column.edit(), column.edit());
    for (row, cell) in field.cells().iter().enumerate() {
        let other = if cell.is_present() { &mut of_lines } else { &mut of_fields };
        other.set(row, Cell::ABSENT);
    }
    let name = &field.name;
    (Some(of_fields.finish(name.clone())), of_lines.finish(name.clone()))
}

/// Removes a field from the events, and returns its column. If the message is removed, the line is
/// no longer shown.
fn take(batch: &mut Batch, name: &str) -> Option<Column> {
    if name != MESSAGE {
        return batch.fields.remove(name);
    }
    let message = column(batch, MESSAGE)?;
    batch.fields.remove(MESSAGE);
    batch.shown = Some(Selection::new_unset(batch.rows()));
    Some(message)
}

/// Iterates over the selected rows.
fn rows(batch: &Batch) -> impl Iterator<Item = usize> + '_ {
    batch.runs(0, batch.rows()).flat_map(|(begin, end)| begin..end)
}

/// Computes field `to` from field `from`. `make` returns the new cell for each value. The new cell
/// may refer to the old bytes, or to bytes that `make` has pushed into the builder. Copies nothing
/// if nothing changes.
fn change(
    batch: &mut Batch,
    from: &str,
    to: &Arc<str>,
    mut make: impl FnMut(&mut ColumnBuilder, Cell, &[u8]) -> Cell,
) {
    let Some(source) = column(batch, from) else { return };
    let mut made = source.edit();
    let in_place = from == &**to;
    if !in_place {
        made.cells().fill(Cell::ABSENT);
    }
    let mut is_changed = !in_place;
    for row in rows(batch) {
        let cell = source.cells()[row];
        if cell.is_present() {
            let new = make(&mut made, cell, source.bytes(&batch.block, cell));
            is_changed |= new != cell;
            made.set(row, new);
        }
    }
    match (is_changed, in_place && from != MESSAGE) {
        (false, _) => {}
        (true, true) => batch.fields.set(made.finish(to.clone())),
        (true, false) if in_place => change_messages(batch, &made.finish(to.clone())),
        (true, false) => put(batch, made.finish(to.clone())),
    }
}

/// Returns the text of a value without escapes, and a cell that refers to exactly this text.
/// Returns `None` if there is no value or the value is `null`.
fn plain<'a>(
    made: &mut ColumnBuilder,
    cell: Cell,
    bytes: &'a [u8],
) -> Option<(std::borrow::Cow<'a, [u8]>, Cell)> {
    match cell.kind() {
        CellKind::Absent | CellKind::Null => None,
        CellKind::True => Some((b"true".into(), made.push(CellKind::Text, b"true"))),
        CellKind::False => Some((b"false".into(), made.push(CellKind::Text, b"false"))),
        CellKind::Escaped if bytes.contains(&b'\\') => {
            let text = millstream_model::Value::Escaped(bytes).text()?;
            let cell = made.push(CellKind::Text, &text);
            Some((text, cell))
        }
        _ => Some((bytes.into(), cell.with_kind(CellKind::Text))),
    }
}

#[cfg(test)]
mod tests;
