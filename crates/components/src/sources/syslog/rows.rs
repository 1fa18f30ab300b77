//! Turns a chunk of messages into a batch with fields.

use super::queue::{Chunk, NO_PEER};
use crate::sources::points::batch_emitter::BatchEmitter;
use millstream_model::{
    Batch, BatchBuilder, Block, CellKind, Column, ColumnBuilder, Columns, Selection, SourceCx,
};
use millstream_parsers::{Fields, Input, Syslog};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

/// Names of the fields with the address and the port of the sender. They are the names of
/// OpenTelemetry's semantic conventions.
const ADDRESS: &str = "network.peer.address";
const PORT: &str = "network.peer.port";

/// A field for the network address of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PeerField {
    /// The address, as `network.peer.address`.
    Address,
    /// The port, as `network.peer.port`.
    Port,
}

/// Builds batches.
pub struct Rows {
    parser: Syslog,
    peer_fields: Vec<PeerField>,
    emitter: BatchEmitter,
}

impl Rows {
    /// Creates a builder whose batches have consecutive offsets.
    pub fn new(parser: Syslog, peer_fields: Vec<PeerField>, emitter: BatchEmitter) -> Rows {
        Rows { parser, peer_fields, emitter }
    }

    /// Returns the emitter of the batches.
    pub fn emitter(&self) -> &BatchEmitter {
        &self.emitter
    }

    /// Builds the batch of a chunk. `block` is at least as large as the text of the chunk.
    pub fn batch(&mut self, chunk: &Chunk, mut block: Block, cx: &SourceCx<'_>) -> Batch {
        let bytes = chunk.text.len();
        block.memory()[..bytes].copy_from_slice(&chunk.text);
        let mut rows = BatchBuilder::with_capacity(chunk.rows.len());
        for row in &chunk.rows {
            let start = row.start as usize;
            rows.row(&chunk.text[start..start + row.len as usize], start);
        }
        let mut batch = self.emitter.batch(rows, block.freeze(bytes), cx);
        batch.read_ns = chunk.rows.first().map_or(batch.read_ns, |row| row.received_ns as i64);
        let truncated = (0..).zip(&chunk.rows).filter(|(_, row)| row.is_truncated);
        batch.truncated = truncated.map(|(row, _)| row).collect();
        cx.counters.noted("truncated", batch.truncated.len() as u64);
        self.parse(&mut batch, chunk, cx);
        self.add_peers(&mut batch, chunk);
        batch
    }

    /// Parses the messages. A message that is not syslog stays whole. A message without a time has
    /// the time of its arrival.
    fn parse(&mut self, batch: &mut Batch, chunk: &Chunk, cx: &SourceCx<'_>) {
        let rows = batch.rows();
        let input = Input {
            block: &batch.block,
            own: &[],
            cells: batch.message.cells(),
            runs: &[(0, rows)],
            read_ns: batch.read_ns,
        };
        let mut fields = Fields::new(rows, &[]);
        let mut times: Vec<i64> = chunk.rows.iter().map(|row| row.received_ns as i64).collect();
        self.parser.parse_events(&input, &mut fields, &mut times);
        for fault in fields.take_flaws().iter().chain(fields.failures()) {
            cx.counters.noted(fault.reason, 1);
        }
        let mut failed = fields.take_failures().into_iter().map(|failure| failure.row).peekable();
        let shown = Selection::collect_bool(rows, |row| failed.next_if_eq(&row).is_some());
        batch.shown = Some(shown);
        batch.time = Some(times.into());
        batch.fields = Columns::from(fields.finish());
    }

    /// Adds the fields with the sender's address.
    fn add_peers(&self, batch: &mut Batch, chunk: &Chunk) {
        if chunk.peers.is_empty() {
            return;
        }
        for field in &self.peer_fields {
            batch.fields.set(peer_column(*field, chunk));
        }
    }
}

fn peer_column(field: PeerField, chunk: &Chunk) -> Column {
    let mut column = ColumnBuilder::new(chunk.rows.len());
    let cells: Vec<_> = chunk
        .peers
        .iter()
        .map(|peer| match field {
            PeerField::Address => {
                column.push(CellKind::Text, peer.ip().to_canonical().to_string().as_bytes())
            }
            PeerField::Port => column.int(peer.port().into()),
        })
        .collect();
    for (index, row) in chunk.rows.iter().enumerate().filter(|(_, row)| row.peer != NO_PEER) {
        column.set(index, cells[row.peer as usize]);
    }
    let name = match field {
        PeerField::Address => ADDRESS,
        PeerField::Port => PORT,
    };
    column.finish(Arc::from(name))
}
