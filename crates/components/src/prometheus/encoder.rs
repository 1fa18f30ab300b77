//! From a batch to rows of metrics.

use crate::metrics::view::{MetricView, Reason, count_refused};
use crate::requests::{PayloadMetadata, Spread};
use crate::seed::secret_seed;
#[cfg(test)]
use bytes::Bytes;
#[cfg(test)]
use millstream_encodings::metric::Metric;
use millstream_encodings::prometheus::{Distributions, Row, Rows, RowsBuilder};
#[cfg(test)]
use millstream_model::Grant;
use millstream_model::{Batch, ComponentError, EncodeCx, Encoder, Payload, Permit};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the encoders of a sink share.
pub struct Encoding {
    distributions: Distributions,
    /// Over what time hosts spread what they send, if it is sent.
    spread: Option<Spread>,
}

impl Encoding {
    /// For a sink that sends, if there is a spread, or that keeps values to be asked for.
    pub fn new(distributions: Distributions, spread: Option<Spread>) -> Arc<Encoding> {
        Arc::new(Encoding { distributions, spread })
    }

    /// Bytes that an encoder may make of a batch: its texts, its rows, and the buckets of its
    /// distributions, which have two numbers for at least four bytes of text.
    pub fn payload_bytes_max(&self, block_bytes: u64, rows: u64) -> u64 {
        let numbers = match &self.distributions {
            Distributions::Summary(quantiles) => rows * 8 * (quantiles.len() as u64 + 2),
            Distributions::Native => block_bytes * 4,
        };
        block_bytes + rows * size_of::<Row>() as u64 + numbers
    }
}

/// Rows of a payload, with what they take of the grant.
struct EncodedRows {
    rows: Rows,
    _paid: Permit,
}

/// The rows that an encoder put into a cargo's routing.
pub fn rows_of(routing: &Option<Arc<dyn Any + Send + Sync>>) -> Option<&Rows> {
    Some(&routing.as_ref()?.downcast_ref::<EncodedRows>()?.rows)
}

/// Encodes metric events as rows; their texts are the only part of the payload.
pub struct RowsEncoder {
    encoding: Arc<Encoding>,
    refused: BTreeMap<Reason, u64>,
}

impl RowsEncoder {
    /// An encoder of a sink.
    pub fn new(encoding: Arc<Encoding>) -> RowsEncoder {
        RowsEncoder { encoding, refused: BTreeMap::new() }
    }
}

impl Encoder for RowsEncoder {
    fn encode(
        &mut self,
        batch: &Batch,
        payload: &mut Payload,
        cx: &mut EncodeCx<'_>,
    ) -> Result<(), ComponentError> {
        let Encoding { distributions, spread } = &*self.encoding;
        let (view, text) = (MetricView::new(batch), cx.pool.buffer());
        let mut rows = RowsBuilder::new(distributions, secret_seed(), &batch.source.host, text);
        rows.reserve(batch.events());
        for row in batch.runs(0, batch.rows()).flat_map(|(begin, end)| begin..end) {
            match view.metric(row) {
                Ok(metric) => rows.push(&metric),
                Err(reason) => *self.refused.entry(reason).or_default() += 1,
            }
        }
        count_refused(&mut self.refused, payload, cx.counters);
        let (rows, text) = rows.finish();
        if rows.rows().is_empty() {
            cx.pool.give_back(text);
            return Ok(());
        }
        payload.push(cx.freeze(text));
        let metadata = EncodedRows { _paid: cx.permit.split(rows.memory() as u64), rows };
        let hold = spread.and_then(|spread| spread.hold(batch));
        payload.routing =
            Some(Box::new(PayloadMetadata { hold, routing: Some(Arc::new(metadata)) }));
        Ok(())
    }
}

/// Routing and text as an encoder makes them, for tests of what takes them.
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
