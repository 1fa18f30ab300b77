//! Encodes batches as rows of metrics.

use crate::codec::metric_view::{MetricView, NotMetrics};
use crate::sinks::http_delivery::{Jitter, PayloadMetadata};
use crate::sinks::prometheus::stored;
use crate::util::seed::secret_seed;
#[cfg(test)]
use bytes::Bytes;
#[cfg(test)]
use millstream_encodings::metric::Metric;
use millstream_encodings::prometheus::{Distributions, Row, Rows, RowsBuilder};
use millstream_model::{
    Batch, ComponentError, EncodeCx, Encoder, Payload, Permit, Routing, RoutingError,
};
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

    /// Returns the name of the payload format for a sink of this `kind`. The name includes the
    /// quantiles, because they determine which numbers are stored for a distribution.
    pub fn payload_format(&self, kind: &str) -> String {
        match &self.distributions {
            Distributions::Summary(quantiles) => format!("{kind}/1 quantiles {quantiles:?}"),
            Distributions::Native => format!("{kind}/1 native"),
        }
    }

    /// Recreates the metadata of a payload that was stored with its rows in binary form.
    pub fn read_routing(
        &self,
        bytes: &[u8],
        payload: &Payload,
    ) -> Result<Option<Arc<dyn Routing>>, RoutingError> {
        let [text] = &payload.parts[..] else {
            return Err(RoutingError("the payload does not consist of one part"));
        };
        let rows = stored::read(bytes, text, &self.distributions);
        let rows = rows.filter(|rows| rows.rows().len() as u64 == payload.events);
        let rows = rows.ok_or(RoutingError("it is not a list of the payload's rows"))?;
        Ok(Some(PayloadMetadata::recreated(EncodedRows { rows, _paid: None })))
    }

    /// Returns the maximum size of an encoded batch in bytes: its text, its rows, and the buckets
    /// of its distributions, which take two numbers per at least four bytes of text.
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
    /// Permit for the memory of the rows; `None` if the payload was on disk, because its permit
    /// includes them.
    _paid: Option<Permit>,
}

impl Routing for EncodedRows {
    fn write(&self, out: &mut Vec<u8>) {
        stored::write(&self.rows, out);
    }
}

/// Returns the rows that an encoder stored in a payload's routing.
pub fn rows_of(routing: &Option<Arc<dyn Routing>>) -> Option<&Rows> {
    Some(&routing.as_ref()?.as_type::<EncodedRows>()?.rows)
}

/// Encodes metric events as rows. The text of the rows is the only part of the payload.
pub struct RowsEncoder {
    encoding: Arc<Encoding>,
    refused: NotMetrics,
}

impl RowsEncoder {
    /// Creates an encoder for a sink.
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
        let metadata = EncodedRows { _paid: Some(cx.permit.split(rows.memory() as u64)), rows };
        let hold = jitter.and_then(|jitter| jitter.hold(batch));
        payload.routing =
            Some(Arc::new(PayloadMetadata { hold, routing: Some(Arc::new(metadata)) }));
        Ok(())
    }
}

/// Encodes metrics as an encoder does, for the tests of its consumers.
#[cfg(test)]
pub fn encoded(metrics: &[Metric<'_>], distributions: &Distributions) -> (Arc<dyn Routing>, Bytes) {
    let mut rows = RowsBuilder::new(distributions, secret_seed(), "web-1", Vec::new());
    metrics.iter().for_each(|metric| rows.push(metric));
    let (rows, text) = rows.finish();
    (Arc::new(EncodedRows { rows, _paid: None }), text.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::{BlockPool, Cell, CellKind, Column, Counters, Grant, Ledger};
    use millstream_testkit::{Rows as Lines, batch};

    /// Encodes lines as gauges with these names; `-` is not a metric. Returns the counts of events,
    /// rows and dropped events.
    fn encode(text: &str, refused: Option<&mut Vec<(usize, &'static str)>>) -> (u64, usize, u64) {
        let (grant, ledger) = (Grant::new(1 << 20), Ledger::new());
        let mut batch =
            batch(&[Lines { name: "f", text: text.as_bytes() }], usize::MAX, &grant, &ledger);
        let metrics: Vec<bool> = text.lines().map(|line| line != "-").collect();
        batch.fields.set(Column::new("name".into(), batch.message.cells().to_vec(), ""));
        let kind = |is_metric: &bool| match is_metric {
            true => Cell::own(CellKind::Text, 0, 5),
            false => Cell::ABSENT,
        };
        batch.fields.set(Column::new("type".into(), metrics.iter().map(kind).collect(), "gauge"));
        let values = vec![Cell::own(CellKind::Int, 0, 1); metrics.len()];
        batch.fields.set(Column::new("value".into(), values, "7"));
        let (pool, counters) = (BlockPool::new(), Counters::default());
        let (mut permit, mut payload) =
            (grant.try_take(1 << 16).unwrap(), Payload::new(metrics.len() as u64));
        let mut cx = EncodeCx { pool: &pool, permit: &mut permit, counters: &counters, refused };
        let mut encoder = RowsEncoder::new(Encoding::new(Distributions::Native, None));
        encoder.encode(&batch, &mut payload, &mut cx).unwrap();
        let rows =
            payload.routing_as::<PayloadMetadata>().and_then(|metadata| rows_of(&metadata.routing));
        assert_eq!(rows.is_none(), payload.parts.is_empty());
        let rows = rows.map_or(0, |rows| rows.rows().len());
        let dropped = counters.snapshot().dropped_events;
        (payload.events, rows, dropped.values().sum())
    }

    #[test]
    fn sinks_know_the_overflow_series_of_sources_by_name() {
        assert_eq!(
            millstream_encodings::prometheus::OVERFLOW_NAME,
            millstream_series::OVERFLOW_NAME
        );
    }

    #[test]
    fn rows_that_are_not_metrics_are_dropped_or_passed_on() {
        assert_eq!(encode("a\n-\nb\n-\n", None), (2, 2, 2));
        let mut refused = Vec::new();
        assert_eq!(encode("a\n-\nb\n-\n", Some(&mut refused)), (2, 2, 0));
        assert_eq!(refused, [(1, "not_a_metric"), (3, "not_a_metric")]);
        refused.clear();
        assert_eq!(encode("-\n-\n", Some(&mut refused)), (0, 0, 0));
        assert_eq!(refused.len(), 2);
    }
}
