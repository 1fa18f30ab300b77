//! Metadata for container log events: the stream that wrote each event, and whether its end is
//! missing.

use bytes::Bytes;
use millstream_framing::{Event, Stream};
use millstream_model::{Batch, Cell, CellKind, Column, PARTIAL, STREAM};

/// The text of all values; cells refer to parts of it.
const TEXT: &[u8] = b"stdoutstderr";

/// Collects the metadata of a batch's rows.
#[derive(Default)]
pub struct ContainerMetadata {
    streams: Vec<Cell>,
    partial: Vec<Cell>,
}

impl ContainerMetadata {
    /// Sets the metadata of rows `before..rows`, which came from one event.
    pub fn set(&mut self, event: &Event, before: usize, rows: usize) {
        let Some(stream) = event.stream else { return };
        let start = match stream {
            Stream::Stdout => 0,
            Stream::Stderr => 6,
        };
        self.streams.resize(before, Cell::ABSENT);
        self.streams.resize(rows, Cell::own(CellKind::Text, start, 6));
        let partial = if event.is_partial { CellKind::True } else { CellKind::False };
        self.partial.resize(before, Cell::ABSENT);
        self.partial.resize(rows, Cell::new(partial, 0, 0));
    }

    /// Adds the metadata columns to a batch, if any row has metadata.
    pub fn finish(self, batch: &mut Batch) {
        for (name, mut cells) in [(STREAM, self.streams), (PARTIAL, self.partial)] {
            if !cells.is_empty() {
                cells.resize(batch.rows(), Cell::ABSENT);
                batch.metadata.get_or_insert_default().set(Column::new(
                    name.into(),
                    cells,
                    Bytes::from_static(TEXT),
                ));
            }
        }
    }
}
