//! Log events from the metric point sources and the `jfr` source, with their text as `message`.

use super::batch_emitter::BatchEmitter;
use crate::util::formats::push_number;
use bytes::Bytes;
use millstream_model::limits::BLOCK_BYTES;
use millstream_model::{Batch, BatchBuilder, Block, Cell, CellKind, Column, Columns, SourceCx};
use std::collections::VecDeque;
use std::sync::Arc;

/// Fields of DogStatsD events and service checks, in column order.
const DOGSTATSD_FIELDS: [&str; 10] = [
    "type",
    "name",
    "status",
    "title",
    "priority",
    "alert_type",
    "aggregation_key",
    "source_type",
    "hostname",
    "tags",
];

/// Maximum number of fields in the log events of a batch, because senders choose the names.
const FIELDS_MAX: usize = 128;

/// A log event.
pub struct LogEvent {
    /// Time of the event, in nanoseconds since 1970.
    pub unix_ns: i64,
    message: Vec<u8>,
    fields: Vec<LogField>,
}

/// A field of a log event.
struct LogField {
    name: Arc<str>,
    kind: CellKind,
    value: Vec<u8>,
}

impl LogEvent {
    /// Creates a log event without fields; `unix_ns` is its time in nanoseconds since 1970.
    pub fn new(unix_ns: i64, message: Vec<u8>) -> LogEvent {
        LogEvent { unix_ns, message, fields: Vec::new() }
    }

    /// Sets a text field. An empty string omits the field.
    pub fn set(self, name: &str, value: &[u8]) -> LogEvent {
        self.set_kind(name, CellKind::Text, value)
    }

    /// Sets `tags` to a JSON object.
    pub fn set_tags(self, object: &[u8]) -> LogEvent {
        self.set_kind("tags", CellKind::Object, object)
    }

    /// Sets a number.
    pub fn set_number(self, name: &str, number: f64) -> LogEvent {
        let mut text = Vec::new();
        let kind = push_number(number, &mut text);
        self.set_kind(name, kind, &text)
    }

    fn set_kind(mut self, name: &str, kind: CellKind, value: &[u8]) -> LogEvent {
        if !value.is_empty() && !self.fields.iter().any(|field| *field.name == *name) {
            self.fields.push(LogField { name: name.into(), kind, value: value.to_vec() });
        }
        self
    }

    /// Removes a field, and returns it.
    pub fn take(&mut self, name: &str) -> Option<(CellKind, Vec<u8>)> {
        let index = self.fields.iter().position(|field| *field.name == *name)?;
        let field = self.fields.remove(index);
        Some((field.kind, field.value))
    }

    /// Returns the message.
    pub fn message(&self) -> &[u8] {
        &self.message
    }

    /// Returns the size of all text in bytes.
    pub fn bytes(&self) -> usize {
        self.message.len() + self.fields.iter().map(|field| field.value.len()).sum::<usize>()
    }
}

/// The columns of log events. Some rows may be other events.
#[derive(Default)]
pub struct LogColumns(Vec<(Arc<str>, Vec<Cell>)>);

impl LogColumns {
    /// Creates columns in this order.
    pub fn in_order(names: &[&str]) -> LogColumns {
        LogColumns(names.iter().map(|name| (Arc::from(*name), Vec::new())).collect())
    }

    /// Returns whether the fields of another log event fit into the limit on columns.
    pub fn fits(&self, log_event: &LogEvent) -> bool {
        let is_new = |field: &&LogField| !self.0.iter().any(|(name, _)| *name == field.name);
        self.0.len() + log_event.fields.iter().filter(is_new).count() <= FIELDS_MAX
    }

    /// Adds the fields of a log event as row `row`. `put` copies a value and returns its offset.
    pub fn push(&mut self, row: usize, log_event: &LogEvent, mut put: impl FnMut(&[u8]) -> usize) {
        for field in &log_event.fields {
            let known = self.0.iter().position(|(name, _)| *name == field.name);
            let index = known.unwrap_or_else(|| {
                self.0.push((field.name.clone(), Vec::new()));
                self.0.len() - 1
            });
            let cells = &mut self.0[index].1;
            cells.resize(row, Cell::ABSENT);
            cells.push(Cell::new(field.kind, put(&field.value), field.value.len()));
        }
    }

    /// Returns the columns with values, for this number of rows.
    pub fn finish(self, rows: usize) -> Vec<Column> {
        let present = self.0.into_iter().filter(|(_, cells)| !cells.is_empty());
        let column = |(name, mut cells): (Arc<str>, Vec<Cell>)| {
            cells.resize(rows, Cell::ABSENT);
            Column::new(name, cells, Bytes::new())
        };
        present.map(column).collect()
    }
}

/// Queue of log events to emit.
#[derive(Default)]
pub struct LogEventRows {
    waiting: VecDeque<LogEvent>,
}

impl LogEventRows {
    /// Adds log events.
    pub fn add(&mut self, log_events: Vec<LogEvent>) {
        self.waiting.extend(log_events);
    }

    /// Returns whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the size of the next log event in bytes.
    pub fn next_bytes(&self) -> usize {
        self.waiting.front().map_or(0, LogEvent::bytes)
    }

    /// Returns the size in bytes of the block to request for the queue: at most the usual size of a
    /// block, unless the next log event is larger.
    pub fn bytes(&self) -> usize {
        let all = self.waiting.iter().map(LogEvent::bytes).sum::<usize>();
        all.min(BLOCK_BYTES).max(self.next_bytes())
    }

    /// Builds a batch of as many log events as fit into the block.
    pub fn batch(
        &mut self,
        mut block: Block,
        batch_emitter: &mut BatchEmitter,
        cx: &SourceCx<'_>,
    ) -> Batch {
        let (mut rows, mut used) = (BatchBuilder::default(), 0);
        let mut columns = LogColumns::in_order(&DOGSTATSD_FIELDS);
        while !rows.is_full()
            && let Some(log_event) = self
                .waiting
                .pop_front_if(|next| used + next.bytes() <= block.capacity() && columns.fits(next))
        {
            let mut put = |text: &[u8]| {
                block.memory()[used..used + text.len()].copy_from_slice(text);
                used += text.len();
                used - text.len()
            };
            let row = rows.rows();
            rows.row(&log_event.message, put(&log_event.message));
            rows.time(log_event.unix_ns);
            columns.push(row, &log_event, put);
        }
        let count = rows.rows();
        let mut batch = batch_emitter.batch(rows, block.freeze(used), cx);
        batch.fields = Columns::from(columns.finish(count));
        batch
    }
}
