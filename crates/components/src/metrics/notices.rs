//! Events and service checks of DogStatsD, as log events: the text of the one and the message of the other is
//! the event's message.

use super::outlet::Outlet;
use bytes::Bytes;
use millstream_model::{Batch, BatchBuilder, Block, Cell, CellKind, Column, Columns, SourceCx};
use std::collections::VecDeque;
use std::sync::Arc;

/// Fields beside the message, in the order in which they are written.
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

/// One event or service check.
pub struct Notice {
    unix_ns: i64,
    message: Vec<u8>,
    /// Values by the index of their field.
    values: [Vec<u8>; FIELDS.len()],
}

impl Notice {
    /// One of this time (nanoseconds since 1970), without fields.
    pub fn new(unix_ns: i64, message: Vec<u8>) -> Notice {
        Notice { unix_ns, message, values: Default::default() }
    }

    /// Gives it a field; `tags` as a JSON object. One that is empty is left out.
    ///
    /// # Panics
    /// If there is no such field.
    pub fn set(mut self, field: &str, value: &[u8]) -> Notice {
        let index = FIELDS.iter().position(|name| *name == field);
        self.values[index.expect("a field of a notice")] = value.to_vec();
        self
    }

    /// Bytes of its texts.
    pub fn bytes(&self) -> usize {
        self.message.len() + self.values.iter().map(Vec::len).sum::<usize>()
    }
}

/// Those that wait to be given out.
#[derive(Default)]
pub struct NoticeRows {
    waiting: VecDeque<Notice>,
}

impl NoticeRows {
    /// Adds some.
    pub fn add(&mut self, notices: Vec<Notice>) {
        self.waiting.extend(notices);
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Bytes that the next one needs.
    pub fn next_bytes(&self) -> usize {
        self.waiting.front().map_or(0, Notice::bytes)
    }

    /// As many as fit into the block.
    pub fn batch(&mut self, mut block: Block, outlet: &mut Outlet, cx: &SourceCx<'_>) -> Batch {
        let (mut rows, mut used) = (BatchBuilder::default(), 0);
        let mut cells: [Vec<Cell>; FIELDS.len()] = Default::default();
        while !rows.is_full()
            && let Some(notice) = self.waiting.pop_front_if(|next| used + next.bytes() <= block.capacity())
        {
            let mut put = |text: &[u8]| {
                block.memory()[used..used + text.len()].copy_from_slice(text);
                used += text.len();
                used - text.len()
            };
            rows.row(&notice.message, put(&notice.message));
            rows.time(notice.unix_ns);
            for (index, value) in notice.values.iter().enumerate() {
                let kind = if FIELDS[index] == "tags" { CellKind::Object } else { CellKind::Text };
                let cell =
                    if value.is_empty() { Cell::ABSENT } else { Cell::new(kind, put(value), value.len()) };
                cells[index].push(cell);
            }
        }
        let mut batch = outlet.batch(rows, block.freeze(used), cx);
        let columns = FIELDS.iter().zip(cells);
        let present = columns.filter(|(_, cells)| cells.iter().any(|cell| cell.is_present()));
        let column = |(name, cells): (&&str, Vec<Cell>)| Column::new(Arc::from(*name), cells, Bytes::new());
        batch.fields = Columns::from(present.map(column).collect::<Vec<_>>());
        batch
    }
}
