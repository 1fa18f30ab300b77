//! Frames: payloads or batches of payloads that are sent and settled together.

use super::config::TcpConfig;
use super::protocol;
use bytes::Bytes;
use millstream_compression::{Algorithm, Compressor};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;

/// A payload or batch that is sent and settled as a unit.
pub struct Frame {
    /// Frame number, counted from 1 without gaps.
    pub number: u64,
    /// Number of events in each payload of the frame, in order.
    pub payloads: Vec<u64>,
    /// Number of events in the frame.
    pub events: u64,
    /// Number of bytes in the frame, before compression.
    pub bytes: u64,
    /// The body, first uncompressed, then as it is sent, so that a retry does not recompress it.
    body: Mutex<Body>,
}

enum Body {
    Plain(Vec<Bytes>),
    Compressed(Bytes),
}

/// A batch that still accepts payloads.
#[derive(Default)]
pub struct OpenBatch {
    parts: Vec<Bytes>,
    payloads: Vec<u64>,
    /// Number of events so far.
    pub events: u64,
    /// Number of bytes so far.
    pub bytes: u64,
}

impl OpenBatch {
    /// Adds a payload.
    pub fn add(&mut self, parts: &[Bytes], events: u64, bytes: u64) {
        self.parts.extend(parts.iter().filter(|part| !part.is_empty()).cloned());
        self.payloads.push(events);
        self.events += events;
        self.bytes += bytes;
    }

    /// Returns whether the batch has no payloads.
    pub fn is_empty(&self) -> bool {
        self.payloads.is_empty()
    }

    /// Closes the batch into a frame with this number.
    pub fn close(self, number: u64) -> Frame {
        let body = Mutex::new(Body::Plain(self.parts));
        Frame { number, payloads: self.payloads, events: self.events, bytes: self.bytes, body }
    }
}

/// Encodes frames, for all connections of a lane.
pub struct FrameEncoder {
    algorithm: Algorithm,
    level: Option<u32>,
    has_batches: bool,
    has_numbers: bool,
    /// The compressor; `None` before the first frame and while a frame uses it.
    compressor: Mutex<Option<Compressor>>,
}

impl FrameEncoder {
    /// Creates an encoder for a sink with these options.
    pub fn new(config: &TcpConfig) -> FrameEncoder {
        FrameEncoder {
            algorithm: config.compression,
            level: config.compression_level,
            has_batches: config.has_batches(),
            has_numbers: config.acknowledgements,
            compressor: Mutex::default(),
        }
    }

    /// Returns the bytes on the wire for a frame, in order. Compresses on a blocking thread.
    pub async fn wire(self: &Arc<Self>, frame: &Arc<Frame>) -> io::Result<Vec<Bytes>> {
        let mut wire = match (self.algorithm, &*frame.body.lock()) {
            (_, Body::Compressed(bytes)) => return Ok(self.framed(frame, vec![bytes.clone()])),
            (_, Body::Plain(parts)) => parts.clone(),
        };
        if self.algorithm != Algorithm::None {
            let encoder = self.clone();
            let compressed = tokio::task::spawn_blocking(move || encoder.compress(&wire)).await;
            let bytes = Bytes::from(compressed.map_err(io::Error::other)??);
            *frame.body.lock() = Body::Compressed(bytes.clone());
            wire = vec![bytes];
        }
        Ok(self.framed(frame, wire))
    }

    fn compress(&self, parts: &[Bytes]) -> io::Result<Vec<u8>> {
        let kept = self.compressor.lock().take();
        let mut compressor = kept.unwrap_or_else(|| Compressor::new(self.algorithm, self.level));
        let compressed = compressor.compress(parts);
        *self.compressor.lock() = Some(compressor);
        compressed
    }

    fn framed(&self, frame: &Frame, mut body: Vec<Bytes>) -> Vec<Bytes> {
        let bytes = body.iter().map(Bytes::len).sum::<usize>();
        if self.has_numbers {
            body.insert(0, protocol::data_header(frame.number, frame.events, bytes));
        } else if self.has_batches {
            body.insert(0, Bytes::copy_from_slice(&(bytes as u32).to_be_bytes()));
        }
        body
    }
}
