//! Batches of a source that cannot read anything twice.

use bytes::Bytes;
use millstream_model::{Batch, BatchBuilder, Origin, SinkSet, SourceCx, SourceOpen};
use std::sync::Arc;

/// Gives batches their place in the one origin of such a source.
pub struct Outlet {
    origin: Arc<Origin>,
    /// Bytes of text so far.
    offset: u64,
}

impl Outlet {
    /// A new origin, at its beginning.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn new(open: &SourceOpen) -> Result<Outlet, String> {
        let id = getrandom::u64().map_err(|error| error.to_string())?;
        let origin = Arc::new(Origin::new(id, ""));
        open.ledger.open(&origin, open.sinks.iter().map(|(sink, _)| (*sink, 0)));
        Ok(Outlet { origin, offset: 0 })
    }

    /// The batch of these rows, whose text is `block`.
    pub fn batch(&mut self, mut rows: BatchBuilder, block: Bytes, cx: &SourceCx<'_>) -> Batch {
        let range = (self.offset, self.offset + block.len() as u64);
        let ack = cx.ledger.issue(self.origin.id, range, cx.sinks, 0, cx.now.since_start);
        rows.segment(self.origin.clone(), self.offset, ack);
        self.offset = range.1;
        let batch = rows.finish(block, cx.info.clone(), cx.sinks, cx.now.unix_ns);
        cx.counters.sent(batch.rows() as u64, batch.text_bytes());
        batch
    }

    /// Counts what a sink lost: it cannot be had again.
    pub fn count_lost(&self, cx: &SourceCx<'_>) {
        for lost in cx.ledger.take_rereads() {
            let (range, sink) = ((lost.begin, lost.end), SinkSet::one(lost.sink));
            cx.ledger.issue(lost.origin, range, sink, lost.attempt, cx.now.since_start).finish();
            cx.counters.error("abandoned");
            cx.counters.dropped("abandoned", 1);
            let bytes = lost.end - lost.begin;
            log::error!("source {}: {bytes} bytes were lost in a sink and cannot be had again", cx.info.id);
        }
    }
}
