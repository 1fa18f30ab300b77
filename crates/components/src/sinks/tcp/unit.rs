//! What is sent and settled as one: a payload, or a batch of them.

use super::config::TcpConfig;
use super::frames;
use bytes::Bytes;
use millstream_compression::{Algorithm, Compressor};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;

/// What is sent and settled as one.
pub struct Unit {
    /// Its number, from 1 on, without gaps.
    pub number: u64,
    /// Events of each payload in it, in order.
    pub payloads: Vec<u64>,
    /// Events in it.
    pub events: u64,
    /// Bytes in it, before compression.
    pub bytes: u64,
    /// As it came, then as it is sent: a repeat is not compressed again.
    body: Mutex<Body>,
}

enum Body {
    Plain(Vec<Bytes>),
    Compressed(Bytes),
}

/// Payloads that are put together.
#[derive(Default)]
pub struct Draft {
    parts: Vec<Bytes>,
    payloads: Vec<u64>,
    /// Events so far.
    pub events: u64,
    /// Bytes so far.
    pub bytes: u64,
}

impl Draft {
    /// Adds a payload.
    pub fn add(&mut self, parts: &[Bytes], events: u64, bytes: u64) {
        self.parts.extend(parts.iter().filter(|part| !part.is_empty()).cloned());
        self.payloads.push(events);
        self.events += events;
        self.bytes += bytes;
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.payloads.is_empty()
    }

    /// What was put together, under a number.
    pub fn seal(self, number: u64) -> Unit {
        let body = Mutex::new(Body::Plain(self.parts));
        Unit { number, payloads: self.payloads, events: self.events, bytes: self.bytes, body }
    }
}

/// Makes the bytes of units, for all connections of a lane.
pub struct Packer {
    algorithm: Algorithm,
    level: Option<u32>,
    has_batches: bool,
    has_numbers: bool,
    /// Away while it works.
    compressor: Mutex<Option<Compressor>>,
}

impl Packer {
    /// For a sink with these options.
    pub fn new(config: &TcpConfig) -> Packer {
        Packer {
            algorithm: config.compression,
            level: config.compression_level,
            has_batches: config.has_batches(),
            has_numbers: config.acknowledgements,
            compressor: Mutex::default(),
        }
    }

    /// What goes over the wire for a unit, in order. Compression runs on a blocking thread.
    pub async fn wire(self: &Arc<Self>, unit: &Arc<Unit>) -> io::Result<Vec<Bytes>> {
        let mut wire = match (self.algorithm, &*unit.body.lock()) {
            (_, Body::Compressed(bytes)) => return Ok(self.framed(unit, vec![bytes.clone()])),
            (_, Body::Plain(parts)) => parts.clone(),
        };
        if self.algorithm != Algorithm::None {
            let packer = self.clone();
            let compressed = tokio::task::spawn_blocking(move || packer.compress(&wire)).await;
            let bytes = Bytes::from(compressed.map_err(io::Error::other)??);
            *unit.body.lock() = Body::Compressed(bytes.clone());
            wire = vec![bytes];
        }
        Ok(self.framed(unit, wire))
    }

    fn compress(&self, parts: &[Bytes]) -> io::Result<Vec<u8>> {
        let kept = self.compressor.lock().take();
        let mut compressor = kept.unwrap_or_else(|| Compressor::new(self.algorithm, self.level));
        let compressed = compressor.compress(parts);
        *self.compressor.lock() = Some(compressor);
        compressed
    }

    fn framed(&self, unit: &Unit, mut body: Vec<Bytes>) -> Vec<Bytes> {
        let bytes = body.iter().map(Bytes::len).sum::<usize>();
        if self.has_numbers {
            body.insert(0, frames::data_head(unit.number, unit.events, bytes));
        } else if self.has_batches {
            body.insert(0, Bytes::copy_from_slice(&(bytes as u32).to_be_bytes()));
        }
        body
    }
}
