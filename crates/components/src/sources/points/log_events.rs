//! DogStatsD events and service checks as log events, with their text as `message`.

use super::metric_emitter::MetricEmitter;
use bytes::Bytes;
use millstream_model::{Batch, BatchBuilder, Block, Cell, CellKind, Column, Columns, SourceCx};
use std::collections::VecDeque;
use std::sync::Arc;

/// Fields other than the message, in the order of their columns.
const FIELDS: [&str; 10] = [
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

/// A DogStatsD event or service check.
pub struct LogEvent {
    unix_ns: i64,
    message: Vec<u8>,
    /// Values, by index in [`FIELDS`].
    values: [Vec<u8>; FIELDS.len()],
}

impl LogEvent {
    /// Creates a log event without fields; `unix_ns` is its time in nanoseconds since 1970.
    pub fn new(unix_ns: i64, message: Vec<u8>) -> LogEvent {
        LogEvent { unix_ns, message, values: Default::default() }
    }

    /// Sets a field; the value of `tags` must be a JSON object. An empty value omits the field.
    ///
    /// # Panics
    /// If there is no such field.
    pub fn set(mut self, field: &str, value: &[u8]) -> LogEvent {
        let index = FIELDS.iter().position(|name| *name == field);
        self.values[index.expect("a field of log events")] = value.to_vec();
        self
    }

    /// Returns the size of its texts in bytes.
    pub fn bytes(&self) -> usize {
        self.message.len() + self.values.iter().map(Vec::len).sum::<usize>()
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

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the size of the next log event in bytes.
    pub fn next_bytes(&self) -> usize {
        self.waiting.front().map_or(0, LogEvent::bytes)
    }

    /// Builds a batch of as many log events as fit into the block.
    pub fn batch(
        &mut self,
        mut block: Block,
        metric_emitter: &mut MetricEmitter,
        cx: &SourceCx<'_>,
    ) -> Batch {
        let (mut rows, mut used) = (BatchBuilder::default(), 0);
        let mut cells: [Vec<Cell>; FIELDS.len()] = Default::default();
        while !rows.is_full()
            && let Some(log_event) =
                self.waiting.pop_front_if(|next| used + next.bytes() <= block.capacity())
        {
            let mut put = |text: &[u8]| {
                block.memory()[used..used + text.len()].copy_from_slice(text);
                used += text.len();
                used - text.len()
            };
            rows.row(&log_event.message, put(&log_event.message));
            rows.time(log_event.unix_ns);
            for (index, value) in log_event.values.iter().enumerate() {
                let kind = if FIELDS[index] == "tags" { CellKind::Object } else { CellKind::Text };
                let cell = if value.is_empty() {
                    Cell::ABSENT
                } else {
                    Cell::new(kind, put(value), value.len())
                };
                cells[index].push(cell);
            }
        }
        let mut batch = metric_emitter.batch(rows, block.freeze(used), cx);
        let columns = FIELDS.iter().zip(cells);
        let present = columns.filter(|(_, cells)| cells.iter().any(|cell| cell.is_present()));
        let column =
            |(name, cells): (&&str, Vec<Cell>)| Column::new(Arc::from(*name), cells, Bytes::new());
        batch.fields = Columns::from(present.map(column).collect::<Vec<_>>());
        batch
    }
}
