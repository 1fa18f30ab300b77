//! Evaluates each task by itself and row by row, according to the task's definition.

use crate::{Extraction, Field, FieldType, Task};
use millstream_columns::{Column, ColumnBuilder, Kind, Number, Step, parse_int};
use millstream_expressions::{Counts, Expression, Field as ColumnField, Input};
use regex::bytes::Regex;
use serde_json::Value;
use std::collections::BTreeMap;

/// A batch for tests, with one column per event field.
pub struct Table {
    pub block: Vec<u8>,
    pub rows: usize,
    pub runs: Vec<(usize, usize)>,
    pub columns: Vec<Column>,
    pub rest: Option<Column>,
    pub times: Vec<i64>,
}

impl Table {
    /// Passes the table to `run` as the input of an expression. The columns in `own` take
    /// precedence over the table's columns.
    pub fn with_input<T>(&self, own: &[Column], run: impl FnOnce(&Input<'_>) -> T) -> T {
        let field = |name: &str| {
            let column = own.iter().chain(&self.columns).find(|column| &*column.name == name);
            column.map(ColumnField::from)
        };
        run(&Input {
            block: &self.block,
            rows: self.rows,
            runs: &self.runs,
            field: &field,
            rest: self.rest.as_ref(),
        })
    }

    /// Computes an event field for every row, as plain text.
    fn texts(&self, name: &str) -> Column {
        let compute = |input: &Input<'_>| {
            let parts = name.split('.').map(|part| format!("[\"{part}\"]"));
            let expression =
                Expression::new(&format!("event{}", parts.collect::<String>())).unwrap();
            expression.compute(input, &mut Counts::default()).finish(name.into())
        };
        self.with_input(&[], compute)
    }

    /// Computes a task's field for every row.
    pub fn column(&self, name: &str, field: &Field) -> Column {
        let source = self.texts(field.extraction.from());
        let is_event = matches!(field.extraction, Extraction::Event(_));
        if is_event && field.kind == FieldType::Text {
            return source.named(name.into());
        }
        let mut column = ColumnBuilder::new(self.rows);
        let regex = match &field.extraction {
            Extraction::Group { pattern, .. } => Some(Regex::new(pattern).unwrap()),
            _ => None,
        };
        for row in 0..self.rows {
            let kind = source.cells()[row].kind();
            let is_text =
                matches!(kind, Kind::Text | Kind::Int | Kind::Float | Kind::Time | Kind::Escaped);
            let is_json = matches!(field.extraction, Extraction::Json { .. });
            let is_json = is_json && matches!(kind, Kind::Object | Kind::Array);
            let text = source.value(&self.block, row).plain().filter(|_| is_text || is_json);
            let value = text.and_then(|text| extract(&field.extraction, regex.as_ref(), &text));
            let kind = value.as_ref().and_then(|value| kind_of(field.kind, value));
            if let (Some(value), Some(kind)) = (value, kind) {
                let cell = column.push(kind, &value);
                column.set(row, cell);
            }
        }
        column.finish(name.into())
    }
}

fn kind_of(kind: FieldType, text: &[u8]) -> Option<Kind> {
    match kind {
        FieldType::Text => Some(Kind::Text),
        FieldType::Int => parse_int(text).map(|_| Kind::Int),
        FieldType::Float if parse_int(text).is_some() => Some(Kind::Int),
        FieldType::Float => Number::parse(text).map(|_| Kind::Float),
    }
}

fn position(text: &[u8], part: &[u8]) -> Option<usize> {
    (0..=text.len().checked_sub(part.len())?).find(|at| text[*at..].starts_with(part))
}

fn extract(extraction: &Extraction, regex: Option<&Regex>, text: &[u8]) -> Option<Vec<u8>> {
    match extraction {
        Extraction::Event(_) => Some(text.to_vec()),
        Extraction::Between { left, index, right, .. } if left.is_empty() => {
            let end = position(text, right).filter(|_| !right.is_empty());
            (*index == 0).then(|| text[..end.unwrap_or(text.len())].to_vec())
        }
        Extraction::Between { left, index, right, .. } => {
            let mut rest = text;
            for _ in 0..=*index {
                rest = &rest[position(rest, left)? + left.len()..];
            }
            let end = position(rest, right).filter(|_| !right.is_empty());
            Some(rest[..end.unwrap_or(rest.len())].to_vec())
        }
        Extraction::Part { delimiter, index, .. } => {
            let mut parts = Vec::new();
            let mut rest = text;
            while let Some(at) = position(rest, delimiter) {
                parts.push(&rest[..at]);
                rest = &rest[at + delimiter.len()..];
            }
            parts.push(rest);
            parts.get(*index as usize).map(|part| part.to_vec())
        }
        Extraction::Group { group, .. } => {
            let captures = regex?.captures(text)?;
            let found = match group.parse::<usize>() {
                Ok(number) => captures.get(number),
                Err(_) => captures.name(group),
            };
            found.map(|found| found.as_bytes().to_vec())
        }
        Extraction::Json { path, .. } => at_path(text, path),
    }
}

/// Returns the value at a path in JSON.
fn at_path(text: &[u8], path: &[Step]) -> Option<Vec<u8>> {
    let document: Value = serde_json::from_slice(text).ok()?;
    let value = path.iter().try_fold(&document, |value, step| match step {
        Step::Member(name) => value.as_object()?.get(name),
        Step::Element(index) => value.as_array()?.get(*index as usize),
    });
    match value? {
        Value::Null => None,
        Value::String(text) => Some(text.clone().into_bytes()),
        other => Some(other.to_string().into_bytes()),
    }
}

/// A key, which consists of the value of each key field.
pub type Key = Vec<Option<Vec<u8>>>;

/// A window and a key.
pub type Place = (Option<i64>, Key);

/// The matching rows of a task, in total and per window and group.
pub struct Outcome {
    pub rows: Vec<u32>,
    pub groups: BTreeMap<Place, Vec<u32>>,
    /// The values of each input, indexed by row.
    pub inputs: Vec<Option<Column>>,
}

/// Evaluates a task.
pub fn evaluate(task: &Task, table: &Table) -> Outcome {
    let own: Vec<Column> =
        task.fields.iter().map(|(name, field)| table.column(name, field)).collect();
    let value = |name: &String| match own.iter().find(|column| *column.name == **name) {
        Some(column) => column.clone(),
        None => table.texts(name),
    };
    let mut words = vec![u64::MAX; table.rows.div_ceil(64)];
    if let Some(condition) = &task.condition {
        // A field of the task takes precedence over an event field with the same name.
        let fields: Vec<Column> = condition
            .fields()
            .filter(|path| !own.iter().any(|column| is_prefix(&column.name, path)))
            .map(|path| table.texts(path))
            .collect();
        let all: Vec<Column> = own.iter().cloned().chain(fields).collect();
        let bare = Table { columns: Vec::new(), rest: None, ..table.copy() };
        bare.with_input(&all, |input| {
            condition.matches(input, &mut words, &mut Counts::default());
        });
    }
    let keys: Vec<Column> = task.keys.iter().map(value).collect();
    let inputs = task.inputs.iter().map(|input| input.field.as_ref().map(value)).collect();
    let selected = table.runs.iter().flat_map(|(start, end)| *start..*end);
    let rows: Vec<u32> = selected
        .filter(|row| words[row / 64] >> (row % 64) & 1 == 1)
        .map(|row| row as u32)
        .collect();
    let mut groups: BTreeMap<Place, Vec<u32>> = BTreeMap::new();
    for row in &rows {
        let of_row = |column: &Column| {
            column.value(&table.block, *row as usize).plain().map(|text| text.to_vec())
        };
        let window = task.window_ns.map(|len| table.times[*row as usize].div_euclid(len) * len);
        groups.entry((window, keys.iter().map(of_row).collect())).or_default().push(*row);
    }
    Outcome { rows, groups, inputs }
}

fn is_prefix(name: &str, path: &str) -> bool {
    path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl Table {
    fn copy(&self) -> Table {
        Table {
            block: self.block.clone(),
            runs: self.runs.clone(),
            columns: self.columns.clone(),
            rest: self.rest.clone(),
            times: self.times.clone(),
            rows: self.rows,
        }
    }
}
