//! The `msgpack` codec: metric events as blocks, each of which is a part of the payload and needs
//! nothing of the others. What is no metric is left out and counted.

use super::{Encoding, Metadata};
use crate::metrics::view::{MetricView, NOT_A_METRIC, Reason, count_refused};
use crate::seed::secret_seed;
use bytes::Bytes;
use millstream_encodings::msgpack::{BlockEncoder, Shared};
use millstream_model::{Batch, ComponentError, EncodeCx, Encoder, Payload, Segment};
use std::collections::BTreeMap;

/// A block that has as many bytes takes no more metrics: it should fit into what a broker takes as
/// one record, which is 1 MB by default.
pub const BLOCK_BYTES: usize = 512 * 1024;

/// Bytes that a metric's name, tags and value may become longer by.
pub const ROW_BYTES: u64 = 32;

/// A block of metrics.
pub struct MetricBlock {
    /// The block.
    pub bytes: Bytes,
    /// Metrics in it.
    pub events: u64,
}

/// Makes blocks of the rows of batches.
pub struct MetricBlocks {
    metadata: Vec<Metadata>,
    encoder: BlockEncoder,
    refused: BTreeMap<Reason, u64>,
    /// Whether the encoder is within a block: after a panic it has what it must not send.
    is_open: bool,
}

impl MetricBlocks {
    /// For a sink with these settings.
    pub fn new(encoding: &Encoding) -> MetricBlocks {
        MetricBlocks {
            metadata: encoding.metadata.clone(),
            encoder: BlockEncoder::new(secret_seed()),
            refused: BTreeMap::new(),
            is_open: false,
        }
    }

    /// Encodes some rows of a batch, whose attributes are those of `segment`.
    pub fn encode(
        &mut self,
        (batch, view): (&Batch, &MetricView<'_>),
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
                *self.refused.entry(reason).or_default() += 1;
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
            // Tags of metrics that were refused may be in its tables.
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

    /// Counts what was left out since the last time, and takes it off the events of the payload.
    pub fn settle(&mut self, payload: &mut Payload, cx: &EncodeCx<'_>) {
        count_refused(&mut self.refused, payload, cx.counters);
    }
}

impl MetricBlocks {
    /// Appends a whole batch to a payload; the number of metrics in each part that is added.
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
            self.encode((batch, &view), first, rows, cx, &mut blocks);
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
