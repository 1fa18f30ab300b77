//! Encodes batches as rows of metrics.

use crate::codec::metric_view::{MetricView, NotMetrics};
use crate::sinks::http_delivery::{Jitter, PayloadMetadata};
use crate::util::seed::secret_seed;
#[cfg(test)]
use bytes::Bytes;
#[cfg(test)]
use millstream_encodings::metric::Metric;
use millstream_encodings::prometheus::{Distributions, Row, Rows, RowsBuilder};
#[cfg(test)]
use millstream_model::Grant;
use millstream_model::{Batch, ComponentError, EncodeCx, Encoder, Payload, Permit};
use std::any::Any;
use std::sync::Arc;

/// State shared by the encoders of a sink.
pub struct Encoding {
    distributions: Distributions,
    /// Send jitter; `None` for a sink that is scraped.
    jitter: Option<Jitter>,
}

impl Encoding {
    /// Creates the encoding of a sink that pushes (with `jitter`) or is scraped (without).
    pub fn new(distributions: Distributions, jitter: Option<Jitter>) -> Arc<Encoding> {
        Arc::new(Encoding { distributions, jitter })
    }

    /// Returns the maximum bytes of an encoded batch: its texts, its rows, and the buckets of its
    /// distributions, which take two numbers per at least four bytes of text.
    pub fn payload_bytes_max(&self, block_bytes: u64, rows: u64) -> u64 {
        let numbers = match &self.distributions {
            Distributions::Summary(quantiles) => rows * 8 * (quantiles.len() as u64 + 2),
            Distributions::Native => block_bytes * 4,
        };
        block_bytes + rows * size_of::<Row>() as u64 + numbers
    }
}

/// Rows of a payload, with their share of the memory grant.
struct EncodedRows {
    rows: Rows,
    _paid: Permit,
}

/// Returns the rows that an encoder stored in a payload's routing.
pub fn rows_of(routing: &Option<Arc<dyn Any + Send + Sync>>) -> Option<&Rows> {
    Some(&routing.as_ref()?.downcast_ref::<EncodedRows>()?.rows)
}

/// Encodes metric events as rows; their texts are the only part of the payload.
pub struct RowsEncoder {
    encoding: Arc<Encoding>,
    refused: NotMetrics,
}

impl RowsEncoder {
    /// Creates an encoder of a sink.
    pub fn new(encoding: Arc<Encoding>) -> RowsEncoder {
        RowsEncoder { encoding, refused: NotMetrics::default() }
    }
}

impl Encoder for RowsEncoder {
    fn encode(
        &mut self,
        batch: &Batch,
        payload: &mut Payload,
        cx: &mut EncodeCx<'_>,
    ) -> Result<(), ComponentError> {
        let Encoding { distributions, jitter } = &*self.encoding;
        let (view, text) = (MetricView::new(batch), cx.pool.buffer());
        let mut rows = RowsBuilder::new(distributions, secret_seed(), &batch.source.host, text);
        rows.reserve(batch.events());
        for row in batch.runs(0, batch.rows()).flat_map(|(begin, end)| begin..end) {
            match view.metric(row) {
                Ok(metric) => rows.push(&metric),
                Err(reason) => self.refused.add(row, reason, cx),
            }
        }
        self.refused.settle(payload, cx.counters);
        let (rows, text) = rows.finish();
        if rows.rows().is_empty() {
            cx.pool.give_back(text);
            return Ok(());
        }
        payload.push(cx.freeze(text));
        let metadata = EncodedRows { _paid: cx.permit.split(rows.memory() as u64), rows };
        let hold = jitter.and_then(|jitter| jitter.hold(batch));
        payload.routing =
            Some(Box::new(PayloadMetadata { hold, routing: Some(Arc::new(metadata)) }));
        Ok(())
    }
}

/// Encodes metrics as an encoder does, for the tests of its consumers.
#[cfg(test)]
pub fn encoded(
    metrics: &[Metric<'_>],
    distributions: &Distributions,
) -> (Arc<dyn Any + Send + Sync>, Bytes) {
    let mut rows = RowsBuilder::new(distributions, 1, "web-1", Vec::new());
    metrics.iter().for_each(|metric| rows.push(metric));
    let (rows, text) = rows.finish();
    let paid = Grant::new(1).try_take(1).expect("a permit");
    (Arc::new(EncodedRows { rows, _paid: paid }), text.into())
}
