//! Builds batches from the events in a queue.

use super::queue::{Inbox, Queue};
use millstream_jvm::CollectedEvent;
use millstream_model::limits::BLOCK_BYTES;
use millstream_model::{
    BatchBuilder, Block, Cell, CellKind, Column, Columns, MEMBERS, Origin, Permit, Polled, SinkSet,
    SourceCx,
};
use std::sync::Arc;
use std::time::Duration;

/// Pause between two polls of the source unless it is woken.
const PAUSE: Duration = Duration::from_secs(3600);

/// The reader of a queue. Offsets count events.
pub struct Reading {
    inbox: Inbox,
    origin: Arc<Origin>,
    /// Number of events that were read.
    events: u64,
}

impl Reading {
    /// Creates the reader of a queue. The origin must be open in the ledger.
    pub fn new(queue: Arc<Queue>, origin: Arc<Origin>) -> Reading {
        Reading { inbox: Inbox::new(queue), origin, events: 0 }
    }

    /// Counts and settles abandoned events, which cannot be collected again.
    pub fn count_lost(&self, cx: &SourceCx<'_>) {
        for lost in cx.ledger.take_rereads() {
            let events = lost.range.end - lost.range.start;
            cx.counters.error("abandoned");
            cx.counters.dropped("abandoned", events);
            log::error!(
                "source {}: a sink abandoned {events} events, which are lost because they cannot \
                 be collected again",
                cx.info.id
            );
            let (sink, now) = (SinkSet::one(lost.sink), cx.now.since_start);
            cx.ledger.issue(lost.origin, lost.range, sink, lost.attempt, now).finish();
        }
    }

    /// Builds the next batch if there are events, every sink is ready, and a block is available.
    pub fn batch(&mut self, cx: &SourceCx<'_>) -> Polled {
        let Some(event) = self.inbox.peek() else { return Polled::Wait(PAUSE) };
        let need = bytes_of(&event);
        if !cx.sinks.is_subset(cx.ready) {
            return Polled::Backpressure;
        }
        let Some((block, permit)) = cx.block(need.max(BLOCK_BYTES)) else {
            return Polled::Backpressure;
        };
        let mut fill = Fill { block, used: 0, builder: BatchBuilder::default(), members: vec![] };
        while let Some(event) = self.inbox.peek() {
            if !fill.fits(&event) {
                break;
            }
            fill.push(&event, self.events + fill.builder.rows() as u64);
            self.inbox.advance();
        }
        self.finish(fill, permit, cx)
    }

    fn finish(&mut self, fill: Fill, permit: Permit, cx: &SourceCx<'_>) -> Polled {
        let Fill { block, used, mut builder, members } = fill;
        let range = self.events..self.events + builder.rows() as u64;
        self.events = range.end;
        let ack = cx.ledger.issue(self.origin.id, range, cx.sinks, 0, cx.now.since_start);
        builder.segment(self.origin.clone(), 0, ack);
        let now = cx.now.unix_ns;
        let mut batch = builder.finish(block.freeze(used), cx.info.clone(), cx.sinks, now);
        if members.iter().any(|cell| cell.is_present()) {
            let mut fields = Columns::default();
            fields.set(Column::new(MEMBERS.into(), members, bytes::Bytes::new()));
            batch.fields = fields;
        }
        cx.counters.received(batch.rows() as u64, used as u64);
        cx.counters.sent(batch.rows() as u64, batch.text_bytes());
        Polled::Batch(Box::new(batch), permit)
    }
}

/// Returns the number of bytes that an event takes in a block.
fn bytes_of(event: &CollectedEvent<'_>) -> usize {
    event.message.len() + event.members.len()
}

/// A block that is being filled.
struct Fill {
    block: Block,
    used: usize,
    builder: BatchBuilder,
    members: Vec<Cell>,
}

impl Fill {
    fn fits(&self, event: &CollectedEvent<'_>) -> bool {
        self.used + bytes_of(event) <= self.block.capacity() && !self.builder.is_full()
    }

    /// Adds the event, which must fit, at offset `number`.
    fn push(&mut self, event: &CollectedEvent<'_>, number: u64) {
        let (start, len) = (self.used, event.members.len());
        let middle = start + event.message.len();
        self.used = middle + len;
        let memory = self.block.memory();
        memory[start..middle].copy_from_slice(event.message);
        memory[middle..self.used].copy_from_slice(event.members);
        self.builder.row_at(event.message, start, number);
        self.builder.time(event.time_ns);
        let is_empty = event.members.is_empty();
        let cell = if is_empty { Cell::ABSENT } else { Cell::new(CellKind::Members, middle, len) };
        self.members.push(cell);
    }
}

#[cfg(test)]
mod tests;
