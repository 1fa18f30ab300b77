//! Encodes events with their delimiter: a line feed, a length prefix, or none.

use super::config::{Framing, TcpConfig};
use crate::codec::Codec;
use millstream_model::{Batch, ComponentError, EncodeCx, Encoder, Payload};

/// Bytes of a length prefix.
pub const LENGTH_BYTES: usize = 4;

/// Encodes batches for the `tcp` sink.
pub struct TcpEncoder {
    inner: Box<dyn Encoder>,
    codec: Codec,
    /// Framing that replaces the line feeds; [`Framing::Newline`] keeps them, as in batches.
    framing: Framing,
    newlines: Vec<u32>,
}

impl TcpEncoder {
    /// Creates an encoder for a sink with these options.
    pub fn new(config: &TcpConfig) -> TcpEncoder {
        TcpEncoder {
            inner: config.encoding.encoder(),
            codec: config.encoding.codec,
            framing: if config.has_batches() { Framing::Newline } else { config.framing },
            newlines: Vec::new(),
        }
    }

    fn push(&self, buffer: &mut Vec<u8>, event: &[u8]) {
        if self.framing == Framing::Length {
            buffer.extend_from_slice(&(event.len() as u32).to_be_bytes());
        }
        buffer.extend_from_slice(event);
    }

    /// Encodes the lines as they were read. A line may contain line feeds.
    fn text(&self, batch: &Batch, buffer: &mut Vec<u8>) {
        for row in batch.runs(0, batch.rows()).flat_map(|(begin, end)| begin..end) {
            self.push(buffer, batch.text(row));
        }
    }

    /// Encodes blocks; each block is one event.
    fn blocks(
        &mut self,
        batch: &Batch,
        buffer: &mut Vec<u8>,
        payload: &mut Payload,
        cx: &mut EncodeCx<'_>,
    ) -> Result<(), ComponentError> {
        // The encoder subtracts events that are not metrics.
        let mut encoded = Payload::new(payload.events);
        self.inner.encode(batch, &mut encoded, cx)?;
        payload.events = encoded.events;
        encoded.parts.iter().for_each(|part| self.push(buffer, part));
        Ok(())
    }

    /// Encodes JSON events, which contain no line feed.
    fn json(
        &mut self,
        batch: &Batch,
        buffer: &mut Vec<u8>,
        cx: &mut EncodeCx<'_>,
    ) -> Result<(), ComponentError> {
        let mut encoded = Payload::default();
        self.inner.encode(batch, &mut encoded, cx)?;
        for part in &encoded.parts {
            self.newlines.clear();
            millstream_scan::newlines(part, &mut self.newlines);
            let mut start = 0;
            for end in self.newlines.iter().map(|end| *end as usize) {
                self.push(buffer, &part[start..end]);
                start = end + 1;
            }
        }
        Ok(())
    }
}

impl Encoder for TcpEncoder {
    fn encode(
        &mut self,
        batch: &Batch,
        payload: &mut Payload,
        cx: &mut EncodeCx<'_>,
    ) -> Result<(), ComponentError> {
        if self.framing == Framing::Newline {
            return self.inner.encode(batch, payload, cx);
        }
        let mut buffer = cx.pool.buffer();
        buffer.reserve(batch.text_bytes() as usize + batch.events() * LENGTH_BYTES);
        match self.codec {
            Codec::Text => self.text(batch, &mut buffer),
            Codec::Json | Codec::RawJson => self.json(batch, &mut buffer, cx)?,
            Codec::Msgpack => self.blocks(batch, &mut buffer, payload, cx)?,
        }
        if !buffer.is_empty() {
            payload.push(cx.freeze(buffer));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::{BlockPool, Counters, Grant, Ledger};
    use millstream_testkit::{Rows, batch};
    use serde_json::json;

    /// Events that are not metrics are not counted as sent, in single blocks and in batches.
    #[test]
    fn events_that_are_not_metrics_are_subtracted() {
        let options =
            json!({"address": "a:1", "encoding": {"codec": "msgpack"}, "framing": "length"});
        let (pool, grant, counters) = (BlockPool::new(), Grant::new(1 << 30), Counters::default());
        for more in [json!({}), json!({"acknowledgements": true})] {
            let mut options = options.clone();
            options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let config: TcpConfig = serde_json::from_value(options).unwrap();
            let batch = batch(&[Rows { name: "", text: b"a\nb\n" }], 100, &grant, &Ledger::new());
            let mut permit = grant.try_take(1 << 20).unwrap();
            let mut cx =
                EncodeCx { pool: &pool, permit: &mut permit, counters: &counters, refused: None };
            let mut payload = Payload::new(batch.events() as u64);
            TcpEncoder::new(&config).encode(&batch, &mut payload, &mut cx).unwrap();
            assert!(payload.is_empty() && payload.events == 0, "{} events", payload.events);
        }
        assert_eq!(counters.snapshot().dropped_events, [("not_a_metric", 4)].into());
    }
}
