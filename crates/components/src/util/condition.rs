//! Expressions over batches: conditions of transforms, and computed fields.

use arrow_buffer::{BooleanBuffer, Buffer};
use millstream_expressions::{Counts, Expression, Field, Input};
use millstream_model::{
    Batch, CellKind, Column, ColumnBuilder, Counters, LINE, Outputs, Selection,
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::cell::OnceCell;
use std::sync::Arc;

/// A condition on an event.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(inline, extend("format" = "condition"))]
pub struct Condition(#[schemars(with = "String")] Arc<Expression>);

/// An expression of any type.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(inline, extend("format" = "expression"))]
pub struct Formula(#[schemars(with = "String")] Arc<Expression>);

/// Checks an expression; the error says where the expression is invalid and what to use instead.
pub fn check_expression(text: &str) -> Result<(), String> {
    Expression::new(text).map(drop).map_err(|fault| fault.to_string())
}

impl<'de> Deserialize<'de> for Condition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Condition::new(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl Serialize for Condition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Formula {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Expression::new(&text).map(|e| Formula(Arc::new(e))).map_err(de::Error::custom)
    }
}

impl Condition {
    /// Parses a condition.
    ///
    /// # Errors
    ///
    /// Returns the position of the error, and what to use instead.
    pub fn new(text: &str) -> Result<Condition, String> {
        Expression::condition(text)
            .map(|e| Condition(Arc::new(e)))
            .map_err(|fault| fault.to_string())
    }

    /// Returns the expression.
    pub fn expression(&self) -> Arc<Expression> {
        self.0.clone()
    }

    /// Returns the selected rows that satisfy the condition. Rows without a result are counted and
    /// reported as a warning.
    pub fn holds(&self, batch: &Batch, out: &mut Outputs) -> Selection {
        self.answers(batch, out).0
    }

    /// Returns the selected rows that satisfy the condition, and the number of rows with a result.
    /// Rows without a result are counted and reported as a warning.
    pub fn answers(&self, batch: &Batch, out: &mut Outputs) -> (Selection, u64) {
        let (mut words, mut counts) = (Vec::new(), Counts::default());
        with_input(&self.0, batch, |input| self.0.matches(input, &mut words, &mut counts));
        count(counts, &out.counters);
        out.warning = out.warning.take().or_else(|| unanswered(&self.0, counts, batch));
        let without =
            counts.missing_field + counts.type_error + counts.arithmetic_error + counts.step_limit;
        let answered = (batch.events() as u64).saturating_sub(without);
        (BooleanBuffer::new(Buffer::from_vec(words), 0, batch.rows()), answered)
    }
}

impl Formula {
    /// Computes the value of each selected row. Rows without a result are counted.
    pub fn compute(&self, batch: &Batch, counters: &Counters) -> ColumnBuilder {
        let mut counts = Counts::default();
        let column = with_input(&self.0, batch, |input| self.0.compute(input, &mut counts));
        count(counts, counters);
        column
    }
}

/// Returns a warning if a condition has no result for some events. Without the warning, a
/// misspelled field name could silently drop events.
fn unanswered(expression: &Expression, counts: Counts, batch: &Batch) -> Option<String> {
    let all = [
        (
            counts.missing_field,
            "missing_field: the event has no such field; test for the field with has(event.NAME)",
        ),
        (counts.type_error, "type_error: a value has the wrong type"),
        (counts.arithmetic_error, "arithmetic_error: a number is out of range"),
        (counts.step_limit, "step_limit: its macros exceed the step limit for one event"),
    ];
    let (count, why) = all.into_iter().find(|(count, _)| *count > 0)?;
    Some(format!("{count} of {} events: `{expression}` has no result: {why}", batch.events()))
}

fn count(counts: Counts, counters: &Counters) {
    counters.noted("missing_field", counts.missing_field);
    counters.noted("type_error", counts.type_error);
    counters.noted("arithmetic_error", counts.arithmetic_error);
    counters.noted("step_limit", counts.step_limit);
}

/// Presents a batch to an expression: fields of the line by name, then attributes, the message, the
/// event's time, and `meta.host`, `meta.source`, `meta.file`, `meta.line`, `meta.stream` and
/// `meta.partial`.
fn with_input<T>(expression: &Expression, batch: &Batch, run: impl FnOnce(&Input<'_>) -> T) -> T {
    let runs: Vec<(usize, usize)> = batch.runs(0, batch.rows()).collect();
    let constants = constants(expression, batch);
    let times: Vec<i64> = match expression.fields().any(|name| name == "timestamp") {
        true => (0..batch.rows()).map(|row| batch.event_ns(row)).collect(),
        false => Vec::new(),
    };
    let message = OnceCell::new();
    let field = |name: &str| match batch.fields.get(name) {
        _ if name == LINE => Some(Field::from(&batch.message)),
        _ if batch.metadata(name).is_some() => batch.metadata(name).map(Field::from),
        _ if name == "message" => {
            Some(Field::from(&**message.get_or_init(|| batch.message_column())))
        }
        Some(column) => Some(Field::from(column)),
        None if name == "timestamp" => Some(Field::Times(&times)).filter(|_| !times.is_empty()),
        None => constants.iter().find(|column| &*column.name == name).map(Field::from),
    };
    let rest = batch.fields.get("");
    run(&Input { block: &batch.block, rows: batch.rows(), runs: &runs, field: &field, rest })
}

/// Builds columns for the names in an expression whose value is constant per segment.
fn constants(expression: &Expression, batch: &Batch) -> Vec<Column> {
    let mut all: Vec<Column> = Vec::new();
    for path in expression.fields() {
        let ends = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
        for name in ends.map(|end| &path[..end]) {
            if all.iter().all(|column| &*column.name != name) {
                all.extend(constant(name, batch));
            }
        }
    }
    all
}

fn constant(name: &str, batch: &Batch) -> Option<Column> {
    let mut column = ColumnBuilder::new(batch.rows());
    let mut is_there = false;
    for segment in batch.segments.iter() {
        let value = match name {
            "meta.host" => Some(batch.source.host.as_str()),
            "meta.source" => Some(batch.source.id.as_str()),
            "meta.file" => Some(&*segment.origin.name),
            _ => {
                let own = segment.origin.attributes.get(name);
                batch.source.attributes.get(name).or(own).map(String::as_str)
            }
        };
        if let Some(value) = value {
            let cell = column.push(CellKind::Text, value.as_bytes());
            column.cells()[segment.first_row..segment.first_row + segment.rows].fill(cell);
            is_there = true;
        }
    }
    is_there.then(|| column.finish(name.into()))
}
