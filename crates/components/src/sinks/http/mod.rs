//! The `http` sink sends events in the bodies of HTTP requests.
//!
//! Workers encode. `crate::sinks::http_delivery` batches the payloads, frames and compresses bodies
//! on a blocking thread, and sends one request after the other. This sink provides the format of a
//! body, and the split of a rejected body.

mod config;
mod packer;

pub use config::HttpConfig;

use crate::codec::msgpack::MetricBlocks;
use crate::codec::{Codec, Encoding};
use crate::sinks::http_delivery::{Jitter, LaneLoop, PayloadMetadata, RequestLane, Settings};
use millstream_model::limits::BATCH_ROWS_MAX;
use millstream_model::{
    Batch, ComponentError, EncodeCx, Encoder, Lane, LaneCx, Payload, Routing, RoutingError, Sink,
};
use packer::{BodyFormat, HttpPacker, UNIT_BYTES, Units};
use std::sync::Arc;

/// An `http` sink. It creates encoders, and lanes that send requests in order.
struct HttpSink {
    settings: Arc<Settings>,
    format: BodyFormat,
    encoding: Encoding,
    spread: Jitter,
}

impl Sink for HttpSink {
    fn encoder(&self) -> Box<dyn Encoder> {
        let inner = match self.encoding.codec {
            Codec::Json | Codec::RawJson => Inner::Lines(self.encoding.encoder()),
            Codec::Text => Inner::Text(self.encoding.encoder()),
            Codec::Msgpack => Inner::Blocks(Box::new(MetricBlocks::new(&self.encoding))),
        };
        Box::new(HttpEncoder { inner, spread: self.spread })
    }

    /// Returns the codec as the format. The content type of a request applies to all of its events,
    /// and only JSON lines and blocks have recognizable ends, so payloads of different codecs
    /// cannot be in one request. The format does not include the framing, which is applied when a
    /// body is packed.
    fn payload_format(&self) -> String {
        let content = match self.encoding.codec {
            Codec::Json | Codec::RawJson => "json",
            Codec::Text => "text",
            Codec::Msgpack => "msgpack",
        };
        format!("http/1 {content}")
    }

    fn read_routing(
        &self,
        bytes: &[u8],
        payload: &Payload,
    ) -> Result<Option<Arc<dyn Routing>>, RoutingError> {
        match (bytes.is_empty(), self.encoding.codec.is_json()) {
            // No data for the packer was stored, because the metadata only said when to send the
            // payload.
            (true, true) => Ok(None),
            (false, false) => Ok(Some(PayloadMetadata::recreated(Units::read(bytes, payload)?))),
            (true, false) => Err(RoutingError("the units are missing")),
            (false, true) => Err(RoutingError("JSON lines have no units")),
        }
    }

    fn payload_bytes_max(&self, block_bytes: u64, rows: u64) -> u64 {
        let units = rows.min(BATCH_ROWS_MAX as u64) * UNIT_BYTES;
        self.encoding.payload_bytes_max(block_bytes, rows) + units
    }

    fn lanes(&self) -> usize {
        self.settings.request.concurrency
    }

    fn lane(&self, cx: LaneCx) -> Box<dyn Lane> {
        Box::new(LaneLoop::new(RequestLane::new(
            self.settings.clone(),
            HttpPacker::new(self.format),
            cx,
        )))
    }
}

/// Encodes events, and computes the payload's hold and unit ends.
struct HttpEncoder {
    inner: Inner,
    spread: Jitter,
}

/// A codec, classified by how the end of a unit is found. A unit is the smallest piece that a
/// request can contain.
enum Inner {
    /// Each line feed ends a unit.
    Lines(Box<dyn Encoder>),
    /// Events are text that may contain line feeds.
    Text(Box<dyn Encoder>),
    /// Each part is a block of many events.
    Blocks(Box<MetricBlocks>),
}

impl Encoder for HttpEncoder {
    fn encode(
        &mut self,
        batch: &Batch,
        payload: &mut Payload,
        cx: &mut EncodeCx<'_>,
    ) -> Result<(), ComponentError> {
        let units = match &mut self.inner {
            Inner::Lines(json) => json.encode(batch, payload, cx).map(|()| None)?,
            Inner::Text(text) => {
                text.encode(batch, payload, cx)?;
                Some(lines(batch, cx))
            }
            Inner::Blocks(blocks) => {
                let events = blocks.append(batch, payload, cx);
                Some(units(payload, events, cx))
            }
        };
        let routing = units.map(|units| Arc::new(units) as _);
        let metadata = PayloadMetadata { hold: self.spread.hold(batch), routing };
        if metadata.hold.is_some() || metadata.routing.is_some() {
            payload.routing = Some(Arc::new(metadata));
        }
        Ok(())
    }
}

/// Returns the lines of a batch as units, each with its line feed.
fn lines(batch: &Batch, cx: &mut EncodeCx<'_>) -> Units {
    let rows = batch.runs(0, batch.rows()).flat_map(|(begin, end)| begin..end);
    Units::new(rows.map(|row| (batch.text_len(row) as u32 + 1, 1)).collect(), cx)
}

/// Returns the parts of a payload as units, each with its event count.
fn units(payload: &Payload, events: Vec<u64>, cx: &mut EncodeCx<'_>) -> Units {
    let parts = payload.parts.iter().zip(events);
    Units::new(parts.map(|(part, events)| (part.len() as u32, events as u32)).collect(), cx)
}

#[cfg(test)]
mod tests;
