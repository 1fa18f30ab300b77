//! Emits batches for a source that cannot reread its data.

use crate::component::random_u64;
use bytes::Bytes;
use millstream_model::{
    Batch, BatchBuilder, BuildError, Origin, OriginId, SinkSet, SourceCx, SourceOpen,
};
use std::sync::Arc;

/// Assigns batches consecutive offsets in the single origin of the source.
pub struct BatchEmitter {
    origin: Arc<Origin>,
    /// Number of bytes of text emitted so far.
    offset: u64,
}

impl BatchEmitter {
    /// Opens a new origin at offset 0.
    ///
    /// # Errors
    /// Returns an error if the system provides no random numbers.
    pub fn new(open: &SourceOpen) -> Result<BatchEmitter, BuildError> {
        let id = random_u64()?;
        let origin = Arc::new(Origin::new(OriginId(id), ""));
        open.ledger.open(&origin, open.sinks.iter().map(|(sink, _)| (*sink, 0)));
        Ok(BatchEmitter { origin, offset: 0 })
    }

    /// Finishes a batch of these rows. `block` is their text.
    pub fn batch(&mut self, mut rows: BatchBuilder, block: Bytes, cx: &SourceCx<'_>) -> Batch {
        let end = self.offset + block.len() as u64;
        let ack =
            cx.ledger.issue(self.origin.id, self.offset..end, cx.sinks, 0, cx.now.since_start);
        rows.segment(self.origin.clone(), self.offset, ack);
        self.offset = end;
        let batch = rows.finish(block, cx.info.clone(), cx.sinks, cx.now.unix_ns);
        cx.counters.sent(batch.rows() as u64, batch.text_bytes());
        batch
    }

    /// Counts and settles ranges that a sink abandoned. The ranges are lost, because the source
    /// cannot reread them.
    pub fn count_lost(&self, cx: &SourceCx<'_>) {
        for lost in cx.ledger.take_rereads() {
            let (bytes, sink) = (lost.range.end - lost.range.start, SinkSet::one(lost.sink));
            cx.ledger
                .issue(lost.origin, lost.range, sink, lost.attempt, cx.now.since_start)
                .finish();
            cx.counters.error("abandoned");
            cx.counters.dropped("abandoned", 1);
            log::error!(
                "source {}: a sink abandoned {bytes} bytes, which are lost because they cannot be \
                 reread",
                cx.info.id
            );
        }
    }
}
