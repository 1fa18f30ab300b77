//! A view of a batch's events as metrics, for encoders.
//!
//! Any event with valid fields `name`, `type` and `value` is a metric, regardless of the source or
//! transform that created it.

use millstream_encodings::metric::{Kind, Metric, SketchText, Temporality, Value};
use millstream_model::{
    Batch, CellKind, Column, Columns, Counters, EncodeCx, MEMBERS, Payload, Value as Field,
};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Once;

/// Reason why an event cannot be encoded as a metric. Also used as a label in counters.
pub type Reason = &'static str;

/// The event has no name, or no valid type or value.
pub const NOT_A_METRIC: Reason = "not_a_metric";
/// The event is a DogStatsD event or service check, which metric sinks cannot send.
pub const EVENT_NOT_SUPPORTED: Reason = "event_not_supported";
/// The name or tags are not valid UTF-8.
pub const INVALID_UTF8: Reason = "invalid_utf8";

/// The fields of a metric, in the order of the columns in [`MetricView`].
const FIELDS: [&str; 6] = ["name", "type", "value", "temporality", "tags", "interval"];
const NAME: usize = 0;
const TYPE: usize = 1;
const VALUE: usize = 2;
const TEMPORALITY: usize = 3;
const TAGS: usize = 4;
const INTERVAL: usize = 5;

/// The rows of a batch, read as metrics.
pub struct MetricView<'a> {
    batch: &'a Batch,
    columns: [Option<Column>; 6],
}

impl<'a> MetricView<'a> {
    /// Creates a view of a batch. Rows are read on demand.
    pub fn new(batch: &'a Batch) -> MetricView<'a> {
        let mut fields = Cow::Borrowed(&batch.fields);
        if fields.get(MEMBERS).is_some() {
            fields.to_mut().lift(FIELDS, &batch.block);
        }
        let mut columns = FIELDS.map(|name| column(&fields, name));
        columns[NAME] = columns[NAME].take().map(|names| without_escapes(names, &batch.block));
        MetricView { batch, columns }
    }

    #[inline(always)]
    fn field(&self, field: usize, row: usize) -> Field<'_> {
        self.columns[field].as_ref().map_or(Field::Absent, |column| self.batch.value(column, row))
    }

    /// Returns the metric of a row.
    ///
    /// # Errors
    /// Returns the reason why the event is not a metric.
    #[inline]
    pub fn metric(&self, row: usize) -> Result<Metric<'_>, Reason> {
        self.read(row).map_err(|reason| self.reason(row, reason))
    }

    /// Returns a more precise reason if the row is a DogStatsD event or service check.
    #[cold]
    fn reason(&self, row: usize, reason: Reason) -> Reason {
        match self.field(TYPE, row).text().as_deref() {
            Some(b"event" | b"service_check") if reason == NOT_A_METRIC => EVENT_NOT_SUPPORTED,
            _ => reason,
        }
    }

    #[inline]
    fn read(&self, row: usize) -> Result<Metric<'_>, Reason> {
        let Field::Text(name @ [_, ..]) = self.field(NAME, row) else { return Err(NOT_A_METRIC) };
        let tags = match self.field(TAGS, row) {
            Field::Object(tags) => tags,
            Field::Absent | Field::Null => b"{}",
            _ => return Err(NOT_A_METRIC),
        };
        let kind = kind(self.field(TYPE, row)).ok_or(NOT_A_METRIC)?;
        let value = value(kind, self.field(VALUE, row)).ok_or(NOT_A_METRIC)?;
        if [name, tags].iter().any(|text| simdutf8::basic::from_utf8(text).is_err()) {
            return Err(INVALID_UTF8);
        }
        Ok(Metric {
            name,
            tags,
            kind,
            temporality: temporality(self.field(TEMPORALITY, row)),
            value,
            time_ns: self.batch.event_ns(row),
            interval: number(self.field(INTERVAL, row))
                .filter(|seconds| *seconds > 0.0)
                .unwrap_or(0.0),
        })
    }
}

/// Counts the events of a batch that are not metrics.
#[derive(Default)]
pub struct NotMetrics {
    /// Number of events that were dropped, by reason, because no component reads rejected events.
    dropped: BTreeMap<Reason, u64>,
    /// Number of events that were passed on to a component that reads rejected events.
    read: u64,
}

impl NotMetrics {
    /// Adds a row. If a component reads rejected events, the row is passed on; otherwise it is
    /// dropped.
    pub fn add(&mut self, row: usize, reason: Reason, cx: &mut EncodeCx<'_>) {
        match &mut cx.refused {
            Some(refused) => {
                refused.push((row, reason));
                self.read += 1;
            }
            None => *self.dropped.entry(reason).or_default() += 1,
        }
    }

    /// Subtracts the events that were added since the last call from the number of events in the
    /// payload, and counts the dropped events. Logs once how to send events and service checks.
    pub fn settle(&mut self, payload: &mut Payload, counters: &Counters) {
        static LOGGED: Once = Once::new();
        payload.events = payload.events.saturating_sub(std::mem::take(&mut self.read));
        for (reason, events) in std::mem::take(&mut self.dropped) {
            counters.dropped(reason, events);
            payload.events = payload.events.saturating_sub(events);
            if reason == EVENT_NOT_SUPPORTED {
                LOGGED.call_once(|| {
                    log::warn!(
                        "metric sinks drop DogStatsD events and service checks and count them as \
                         {EVENT_NOT_SUPPORTED}; to keep them, select type in [\"event\", \
                         \"service_check\"] with a `route` or `filter` transform, and send them to \
                         another sink, such as http or file with the json codec"
                    );
                });
            }
        }
    }
}

fn column(fields: &Columns, name: &str) -> Option<Column> {
    fields.get(name).cloned()
}

/// Returns the column with its JSON escapes decoded. Batches from the agent's internal sources
/// contain no escapes.
fn without_escapes(names: Column, block: &[u8]) -> Column {
    let is_escaped = |row: &usize| names.cells()[*row].kind() == CellKind::Escaped;
    let mut escaped = (0..names.cells().len()).filter(is_escaped).peekable();
    if escaped.peek().is_none() {
        return names;
    }
    let mut edit = names.edit();
    for row in escaped {
        edit.text(row, &names.value(block, row).text().unwrap_or_default());
    }
    edit.finish(names.name.clone())
}

#[inline(always)]
fn kind(field: Field<'_>) -> Option<Kind> {
    match field.text()?.as_ref() {
        b"counter" => Some(Kind::Counter),
        b"gauge" => Some(Kind::Gauge),
        b"distribution" => Some(Kind::Distribution),
        _ => None,
    }
}

#[inline(always)]
fn temporality(field: Field<'_>) -> Temporality {
    match field.text().as_deref() {
        Some(b"delta") => Temporality::Delta,
        Some(b"cumulative") => Temporality::Cumulative,
        _ => Temporality::None,
    }
}

#[inline(always)]
fn value(kind: Kind, field: Field<'_>) -> Option<Value<'_>> {
    match (kind, field) {
        (Kind::Distribution, Field::Object(object)) => SketchText::parse(object).map(Value::Sketch),
        (Kind::Distribution, _) => None,
        _ => number(field).map(Value::Number),
    }
}

#[inline(always)]
fn number(field: Field<'_>) -> Option<f64> {
    field.number().map(|number| number.as_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::{BlockPool, ColumnBuilder, Grant, Ledger};
    use millstream_testkit::{Rows, batch};

    /// Builds a batch that has a row for each list of fields.
    fn events(rows: &[&[(&str, CellKind, &str)]]) -> Batch {
        let text = "x\n".repeat(rows.len());
        let part = Rows { name: "", text: text.as_bytes() };
        let mut batch = batch(&[part], 100, &Grant::new(1 << 20), &Ledger::new());
        for (row, fields) in rows.iter().enumerate() {
            for (name, kind, text) in *fields {
                let before = batch.fields.get(name).map(Column::edit);
                let mut column = before.unwrap_or_else(|| ColumnBuilder::new(rows.len()));
                let cell = column.push(*kind, text.as_bytes());
                column.set(row, cell);
                batch.fields.set(column.finish((*name).into()));
            }
        }
        batch
    }

    const NAME_A: (&str, CellKind, &str) = ("name", CellKind::Text, "a");
    const COUNTER: (&str, CellKind, &str) = ("type", CellKind::Text, "counter");
    const ONE: (&str, CellKind, &str) = ("value", CellKind::Int, "1");

    #[test]
    fn an_event_with_the_fields_is_a_metric() {
        let sketch = r#"{"count":1,"sum":2,"min":2,"max":2,"values":[2],"weights":[1]}"#;
        let batch = events(&[
            &[
                NAME_A,
                ("tags", CellKind::Object, r#"{"k":"v"}"#),
                COUNTER,
                ("value", CellKind::Float, "-1.5"),
                ("temporality", CellKind::Text, "delta"),
                ("interval", CellKind::Int, "10"),
            ],
            &[("name", CellKind::Escaped, r#"a\"b"#), ("type", CellKind::Text, "gauge"), ONE],
            &[
                NAME_A,
                ("type", CellKind::Text, "distribution"),
                ("value", CellKind::Object, sketch),
            ],
        ]);
        let view = MetricView::new(&batch);
        let (name, tags): (&[u8], &[u8]) = (b"a", br#"{"k":"v"}"#);
        let (kind, temporality, value) = (Kind::Counter, Temporality::Delta, Value::Number(-1.5));
        let time_ns = batch.read_ns;
        let expected = Metric { name, tags, kind, temporality, value, time_ns, interval: 10.0 };
        assert_eq!(view.metric(0), Ok(expected));
        let gauge = view.metric(1).unwrap();
        assert_eq!((gauge.name, gauge.tags, gauge.interval), (&b"a\"b"[..], &b"{}"[..], 0.0));
        assert_eq!((gauge.kind, gauge.temporality), (Kind::Gauge, Temporality::None));
        let Value::Sketch(sketch) = view.metric(2).unwrap().value else { panic!("a sketch") };
        assert_eq!(sketch.points().collect::<Vec<_>>(), [(2.0, 1.0)]);
    }

    #[test]
    fn members_without_columns_are_read() {
        let members = r#""name":"a","type":"counter","value":1,"more":2"#;
        let batch = events(&[&[(MEMBERS, CellKind::Members, members)]]);
        assert_eq!(MetricView::new(&batch).metric(0).unwrap().value, Value::Number(1.0));
    }

    #[test]
    fn an_event_without_a_required_field_is_not_a_metric() {
        let batch = events(&[
            &[COUNTER, ONE],
            &[NAME_A, ONE],
            &[NAME_A, COUNTER],
            &[("name", CellKind::Text, ""), COUNTER, ONE],
            &[NAME_A, ("type", CellKind::Text, "timer"), ONE],
            &[NAME_A, COUNTER, ("value", CellKind::Text, "1")],
            &[NAME_A, COUNTER, ("value", CellKind::Float, "1e999")],
            &[NAME_A, ("type", CellKind::Text, "distribution"), ONE],
            &[NAME_A, COUNTER, ONE, ("tags", CellKind::Text, "k:v")],
        ]);
        let view = MetricView::new(&batch);
        (0..batch.rows())
            .for_each(|row| assert_eq!(view.metric(row), Err(NOT_A_METRIC), "row {row}"));
    }

    #[test]
    fn events_and_service_checks_have_their_own_reason() {
        let type_field = |kind| ("type", CellKind::Text, kind);
        let status = ("status", CellKind::Text, "ok");
        let batch = events(&[
            &[type_field("event")],
            &[NAME_A, type_field("service_check"), status],
            &[NAME_A, type_field("events"), ONE],
        ]);
        let view = MetricView::new(&batch);
        let reasons = [EVENT_NOT_SUPPORTED, EVENT_NOT_SUPPORTED, NOT_A_METRIC];
        let (pool, grant, counters) = (BlockPool::new(), Grant::new(1), Counters::default());
        let mut permit = grant.try_take(1).unwrap();
        let (mut rows, mut added) = (Vec::new(), NotMetrics::default());
        let mut add_all = |refused: Option<&mut Vec<(usize, Reason)>>| {
            let mut payload = Payload::new(5);
            let mut cx =
                EncodeCx { pool: &pool, permit: &mut permit, counters: &counters, refused };
            (0..3).for_each(|row| added.add(row, view.metric(row).unwrap_err(), &mut cx));
            added.settle(&mut payload, &counters);
            payload.events
        };
        assert_eq!(add_all(Some(&mut rows)), 2);
        assert_eq!(rows, reasons.into_iter().enumerate().collect::<Vec<_>>());
        assert_eq!(counters.snapshot().dropped_events, [].into(), "a component reads them");
        assert_eq!(add_all(None), 2);
        let expected = [(EVENT_NOT_SUPPORTED, 2), (NOT_A_METRIC, 1)];
        assert_eq!(counters.snapshot().dropped_events, expected.into());
    }

    #[test]
    fn invalid_utf8_is_reported() {
        let mut batch = events(&[&[NAME_A, COUNTER, ONE]]);
        let mut names = ColumnBuilder::new(1);
        names.text(0, b"a\xFF");
        batch.fields.set(names.finish("name".into()));
        assert_eq!(MetricView::new(&batch).metric(0), Err(INVALID_UTF8));
    }
}
