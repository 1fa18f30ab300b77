//! Sink `http`: sends events in the bodies of HTTP requests.
//!
//! Workers encode. The lane collects what they made, has bodies framed and compressed on a blocking
//! thread, and sends one request after the other; all of that is in `crate::requests`. What is of
//! this sink is how events become a body, and how a body that is refused becomes two.

mod config;
mod packer;

pub use config::HttpConfig;

use crate::codec::msgpack::MetricBlocks;
use crate::codec::{Codec, Encoding};
use crate::requests::{Jitter, PayloadMetadata, RequestLane, Settings};
use millstream_model::limits::BATCH_ROWS_MAX;
use millstream_model::{Batch, ComponentError, EncodeCx, Encoder, Lane, LaneCx, Payload, Sink};
use packer::{Form, HttpPacker, UNIT_BYTES, Units};
use std::sync::Arc;

/// The sink.
struct HttpSink {
    settings: Arc<Settings>,
    form: Form,
    encoding: Encoding,
    spread: Jitter,
}

impl Sink for HttpSink {
    fn encoder(&self) -> Box<dyn Encoder> {
        let inner = match self.encoding.codec {
            Codec::Json => Inner::Lines(self.encoding.encoder()),
            Codec::Text => Inner::Text(self.encoding.encoder()),
            Codec::Msgpack => Inner::Blocks(Box::new(MetricBlocks::new(&self.encoding))),
        };
        Box::new(HttpEncoder { inner, spread: self.spread })
    }

    fn payload_bytes_max(&self, block_bytes: u64, rows: u64) -> u64 {
        let units = rows.min(BATCH_ROWS_MAX as u64) * UNIT_BYTES;
        self.encoding.payload_bytes_max(block_bytes, rows) + units
    }

    fn lanes(&self) -> usize {
        self.settings.request.concurrency
    }

    fn lane(&self, cx: LaneCx) -> Box<dyn Lane> {
        Box::new(RequestLane::new(self.settings.clone(), HttpPacker::new(self.form), cx))
    }
}

/// Encodes, and says when a payload may go and where its units end.
struct HttpEncoder {
    inner: Inner,
    spread: Jitter,
}

/// A codec, by what tells where a unit ends: the smallest thing that can be sent alone.
enum Inner {
    /// A line end, and nothing else is one.
    Lines(Box<dyn Encoder>),
    /// Events are texts that may hold line ends.
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
            payload.routing = Some(Box::new(metadata));
        }
        Ok(())
    }
}

/// The lines of a batch, each with its line end.
fn lines(batch: &Batch, cx: &mut EncodeCx<'_>) -> Units {
    let rows = batch.runs(0, batch.rows()).flat_map(|(begin, end)| begin..end);
    Units::new(rows.map(|row| (batch.text_len(row) as u32 + 1, 1)).collect(), cx)
}

/// The parts of a payload, with so many events each.
fn units(payload: &Payload, events: Vec<u64>, cx: &mut EncodeCx<'_>) -> Units {
    let parts = payload.parts.iter().zip(events);
    Units::new(parts.map(|(part, events)| (part.len() as u32, events as u32)).collect(), cx)
}

#[cfg(test)]
mod tests;
