//! Sink `http`: sends events in the bodies of HTTP requests.
//!
//! Workers encode. The lane collects what they made, has bodies framed and compressed on a blocking
//! thread, and sends one request after the other; all of that is in `crate::requests`. What is of this
//! sink is how events become a body, and how a body that is refused becomes two.

mod config;
mod packer;

pub use config::HttpConfig;

use crate::codec::{Codec, Encoding};
use crate::requests::{Cargo, RequestLane, Settings, Spread};
use millstream_model::limits::BATCH_ROWS_MAX;
use millstream_model::{Batch, ComponentError, EncodeCx, Encoder, Lane, LaneCx, Payload, Sink};
use packer::{Ends, Form, HttpPacker};
use std::sync::Arc;

/// Bytes that the end of an event takes beside its text.
const END_BYTES: u64 = 4;

/// The sink.
struct HttpSink {
    settings: Arc<Settings>,
    form: Form,
    encoding: Encoding,
    spread: Spread,
}

impl Sink for HttpSink {
    fn encoder(&self) -> Box<dyn Encoder> {
        let marks = self.encoding.codec == Codec::Text;
        Box::new(HttpEncoder { inner: self.encoding.encoder(), marks, spread: self.spread })
    }

    fn payload_bytes_max(&self, block_bytes: u64, rows: u64) -> u64 {
        let ends = rows.min(BATCH_ROWS_MAX as u64) * END_BYTES;
        self.encoding.payload_bytes_max(block_bytes, rows) + ends
    }

    fn lanes(&self) -> usize {
        self.settings.request.concurrency
    }

    fn lane(&self, cx: LaneCx) -> Box<dyn Lane> {
        Box::new(RequestLane::new(self.settings.clone(), HttpPacker::new(self.form), cx))
    }
}

/// Encodes, and says when a payload may go and where its events end.
struct HttpEncoder {
    inner: Box<dyn Encoder>,
    /// Whether events may hold line ends, so that they do not tell where one ends.
    marks: bool,
    spread: Spread,
}

impl Encoder for HttpEncoder {
    fn encode(
        &mut self,
        batch: &Batch,
        payload: &mut Payload,
        cx: &mut EncodeCx<'_>,
    ) -> Result<(), ComponentError> {
        self.inner.encode(batch, payload, cx)?;
        let mut cargo = Cargo { not_before_ns: self.spread.not_before_ns(batch), routing: None };
        if self.marks {
            let ends = ends(batch, cx);
            cargo.routing = Some(Arc::new(ends));
        }
        if cargo.not_before_ns.is_some() || cargo.routing.is_some() {
            payload.routing = Some(Box::new(cargo));
        }
        Ok(())
    }
}

/// Where the lines of a batch end in its payload, behind their line ends.
fn ends(batch: &Batch, cx: &mut EncodeCx<'_>) -> Ends {
    let mut end = 0;
    let rows = batch.runs(0, batch.rows()).flat_map(|(begin, end)| begin..end);
    let ends = rows.map(|row| {
        end += batch.text_len(row) as u32 + 1;
        end
    });
    let ends: Vec<u32> = ends.collect();
    let paid = cx.permit.split(ends.capacity() as u64 * END_BYTES);
    Ends { ends, _paid: paid }
}

#[cfg(test)]
mod tests;
