//! The `msgpack` codec: encodes metric events as self-contained blocks. Each block is a part of the
//! payload. Events that are not metrics are rejected.

use super::{Encoding, Metadata};
use crate::metric_view::{MetricView, NOT_A_METRIC, NotMetrics};
use crate::seed::secret_seed;
use bytes::Bytes;
use millstream_encodings::msgpack::{BlockEncoder, Shared};
use millstream_model::{Batch, ComponentError, EncodeCx, Encoder, Payload, Segment};

/// Size in bytes at which a block is complete. A block should fit into one Kafka record, whose
/// default limit is 1 MB.
pub const BLOCK_BYTES: usize = 512 * 1024;

/// Bytes per metric by which the encoded form may exceed the metric's name, tags and value.
pub const ROW_BYTES: u64 = 32;

/// A block of encoded metrics.
pub struct MetricBlock {
    /// The block's bytes.
    pub bytes: Bytes,
    /// Number of metrics in the block.
    pub events: u64,
}

/// Encodes batches into blocks.
pub struct MetricBlocks {
    metadata: Vec<Metadata>,
    encoder: BlockEncoder,
    refused: NotMetrics,
    /// Whether a block has been begun and not finished. If that is still so at the start of the
    /// next block, a panic has left data in the encoder that must not be sent.
    is_open: bool,
}

impl MetricBlocks {
    /// Creates a sink's encoder with these settings.
    pub fn new(encoding: &Encoding) -> MetricBlocks {
        MetricBlocks {
            metadata: encoding.metadata.clone(),
            encoder: BlockEncoder::new(secret_seed()),
            refused: NotMetrics::default(),
            is_open: false,
        }
    }

    /// Encodes rows of a batch into blocks with the attributes of `segment`.
    pub fn encode(
        &mut self,
        batch: &Batch,
        view: &MetricView<'_>,
        segment: &Segment,
        rows: impl Iterator<Item = usize>,
        cx: &mut EncodeCx<'_>,
        blocks: &mut Vec<MetricBlock>,
    ) {
        if std::mem::replace(&mut self.is_open, true) {
            self.encoder = BlockEncoder::new(secret_seed());
        }
        for row in rows {
            let added = view
                .metric(row)
                .and_then(|metric| self.encoder.push(&metric).or(Err(NOT_A_METRIC)));
            if let Err(reason) = added {
                self.refused.add(row, reason, cx);
            }
            if self.encoder.bytes() >= BLOCK_BYTES {
                self.finish(batch, segment, cx, blocks);
            }
        }
        self.finish(batch, segment, cx, blocks);
        self.is_open = false;
    }

    fn finish(
        &mut self,
        batch: &Batch,
        segment: &Segment,
        cx: &mut EncodeCx<'_>,
        blocks: &mut Vec<MetricBlock>,
    ) {
        let events = self.encoder.rows() as u64;
        if events == 0 {
            // The encoder's tables may contain tags of rejected metrics.
            self.encoder.clear();
            return;
        }
        let meta = |item: &Metadata| match item {
            Metadata::Host => Some((item.name(), &*batch.source.host)),
            Metadata::Source => Some((item.name(), &*batch.source.id)),
            _ => None,
        };
        let meta: Vec<(&str, &str)> = self.metadata.iter().filter_map(meta).collect();
        let (shared, own) = (&batch.source.attributes, &segment.origin.attributes);
        let own = own.iter().filter(|(name, _)| !shared.contains_key(*name));
        let attributes: Vec<(&str, &str)> =
            shared.iter().chain(own).map(|(k, v)| (&**k, &**v)).collect();
        let mut out = cx.pool.buffer();
        self.encoder.finish(&Shared { meta: &meta, attributes: &attributes }, &mut out);
        blocks.push(MetricBlock { bytes: cx.freeze(out), events });
    }

    /// Subtracts the events rejected since the last call from the number of events in the payload,
    /// and counts those that no component reads as dropped.
    pub fn settle(&mut self, payload: &mut Payload, cx: &EncodeCx<'_>) {
        self.refused.settle(payload, cx.counters);
    }
}

impl MetricBlocks {
    /// Appends a whole batch to a payload. Returns the number of metrics in each added part.
    pub fn append(
        &mut self,
        batch: &Batch,
        payload: &mut Payload,
        cx: &mut EncodeCx<'_>,
    ) -> Vec<u64> {
        let (view, mut blocks) = (MetricView::new(batch), Vec::new());
        for alike in batch.segments.chunk_by(|a, b| a.origin.attributes == b.origin.attributes) {
            let (first, last) = (&alike[0], &alike[alike.len() - 1]);
            let rows = batch.runs(first.first_row, last.first_row + last.rows);
            let rows = rows.flat_map(|(begin, end)| begin..end);
            self.encode(batch, &view, first, rows, cx, &mut blocks);
        }
        self.settle(payload, cx);
        let part = |MetricBlock { bytes, events }| {
            payload.push(bytes);
            events
        };
        blocks.into_iter().map(part).collect()
    }
}

impl Encoder for MetricBlocks {
    fn encode(
        &mut self,
        batch: &Batch,
        payload: &mut Payload,
        cx: &mut EncodeCx<'_>,
    ) -> Result<(), ComponentError> {
        self.append(batch, payload, cx);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
