//! Steps that rename, drop, keep, copy, compute and set fields.

use super::config::{Constant, SetConfig};
use super::{Noted, Step, column, put, take};
use crate::util::condition::Formula;
use crate::util::message::{MESSAGE, note_message_field};
use crate::util::template::Template;
use millstream_model::{Batch, Cell, CellKind, Column, ColumnBuilder, Selection};
use std::collections::HashSet;
use std::sync::Arc;

/// Renames fields, all at once.
pub struct Rename(pub Vec<(String, Arc<str>)>);

impl Step for Rename {
    fn apply(&self, batch: &mut Batch, _: &mut Noted) {
        if let Some(renamed) = self.in_place(batch) {
            batch.fields = renamed.into();
            return;
        }
        let renamed =
            self.0.iter().filter_map(|(old, new)| Some(take(batch, old)?.named(new.clone())));
        let renamed: Vec<Column> = renamed.collect();
        renamed.into_iter().for_each(|column| put(batch, column));
    }
}

impl Rename {
    /// Returns the columns with their new names, in order. Returns `None` if one would replace
    /// another, or if the message is involved.
    fn in_place(&self, batch: &Batch) -> Option<Vec<Column>> {
        let new =
            |name: &str| self.0.iter().find(|(old, _)| old == name).map(|(_, new)| new.clone());
        let named = |column: &Column| {
            new(&column.name).map_or_else(|| column.clone(), |name| column.named(name))
        };
        let renamed: Vec<Column> = batch.fields.iter().map(named).collect();
        let mut names = HashSet::new();
        let is_plain = self.0.iter().all(|(old, new)| old != MESSAGE && **new != *MESSAGE);
        (is_plain && renamed.iter().all(|column| names.insert(column.name.clone())))
            .then_some(renamed)
    }
}

/// Drops these fields.
pub struct Drop(pub Vec<String>);

impl Step for Drop {
    fn apply(&self, batch: &mut Batch, _: &mut Noted) {
        self.0.iter().for_each(|name| _ = take(batch, name));
    }
}

/// Drops all fields except these.
pub struct Keep(pub Vec<String>);

impl Step for Keep {
    fn apply(&self, batch: &mut Batch, _: &mut Noted) {
        batch.fields.retain(|column| self.0.iter().any(|name| **name == *column.name));
        if !self.0.iter().any(|name| name == MESSAGE) {
            batch.shown = Some(Selection::new_unset(batch.rows()));
        }
    }
}

/// Computes fields from expressions, one after another.
pub struct Compute(pub Vec<(Arc<str>, Formula)>);

impl Step for Compute {
    fn apply(&self, batch: &mut Batch, noted: &mut Noted) {
        for (name, formula) in &self.0 {
            let computed = formula.compute(batch, &noted.counters);
            noted.counters.noted("too_large", computed.dropped());
            put(batch, computed.finish(name.clone()));
        }
    }
}

/// Copies values to other fields.
pub struct Copy(pub Vec<(String, Arc<str>)>);

impl Step for Copy {
    fn apply(&self, batch: &mut Batch, _: &mut Noted) {
        let copies =
            self.0.iter().filter_map(|(from, to)| Some(column(batch, from)?.named(to.clone())));
        let copies: Vec<Column> = copies.collect();
        copies.into_iter().for_each(|column| put(batch, column));
    }
}

/// The value of a set field.
pub enum Value {
    /// A constant, as cell kind and text.
    Same(CellKind, Vec<u8>),
    /// A template that is rendered for each event.
    Template(Template),
}

impl Value {
    /// Converts a configured value.
    pub fn new(value: &SetConfig) -> Value {
        let constant = match value {
            SetConfig::Bool(value) => Constant::Bool(*value),
            SetConfig::Int(value) => Constant::Int(*value),
            SetConfig::Float(value) => Constant::Float(*value),
            SetConfig::Text(template) => return Value::Template(template.0.clone()),
        };
        let (kind, text) = written(&constant);
        Value::Same(kind, text)
    }

    fn column(&self, batch: &Batch, name: &Arc<str>, noted: &Noted) -> Column {
        let mut made = ColumnBuilder::new(batch.rows());
        match self {
            Value::Same(kind, text) => {
                let cell = constant(&mut made, *kind, text);
                made.cells().fill(cell);
            }
            Value::Template(template) => {
                if template.reads_message() {
                    note_message_field(batch, "transform fields");
                }
                let mut text = Vec::new();
                for segment in batch.segments.iter() {
                    let per_row = template.per_row(batch);
                    let mut cell: Option<Cell> = None;
                    for (begin, end) in
                        batch.runs(segment.first_row, segment.first_row + segment.rows)
                    {
                        for row in begin..end {
                            if per_row || cell.is_none() {
                                text.clear();
                                template.render(batch, segment, row, &mut text);
                                cell = Some(made.push(CellKind::Text, &text));
                            }
                            made.set(row, cell.unwrap_or_default());
                        }
                    }
                }
            }
        }
        noted.counters.noted("too_large", made.dropped());
        made.finish(name.clone())
    }
}

/// Formats a constant as cell kind and text.
pub fn written(constant: &Constant) -> (CellKind, Vec<u8>) {
    match constant {
        Constant::Bool(true) => (CellKind::True, Vec::new()),
        Constant::Bool(false) => (CellKind::False, Vec::new()),
        Constant::Int(value) => (CellKind::Int, value.to_string().into()),
        Constant::Float(value) => (CellKind::Float, format!("{value:?}").into()),
        Constant::Text(text) => (CellKind::Text, text.clone().into()),
    }
}

/// Adds a constant to a column.
pub fn constant(made: &mut ColumnBuilder, kind: CellKind, text: &[u8]) -> Cell {
    match kind {
        CellKind::True | CellKind::False | CellKind::Null => Cell::constant(kind),
        kind => made.push(kind, text),
    }
}

/// Sets fields to constants and rendered templates. All templates see the event as it was before
/// this step.
pub struct Set(pub Vec<(Arc<str>, Value)>);

impl Step for Set {
    fn apply(&self, batch: &mut Batch, noted: &mut Noted) {
        let made = self.0.iter().map(|(name, value)| value.column(batch, name, noted));
        let made: Vec<Column> = made.collect();
        for column in made {
            match &*column.name == MESSAGE {
                true => put(batch, column),
                false => batch.fields.set(column),
            }
        }
    }
}
