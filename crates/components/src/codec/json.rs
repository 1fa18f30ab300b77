//! The `json` codec: `{"timestamp":…,"message":…,"meta":{…},…attributes}` and `\n` per event.
//!
//! Everything that is the same for all rows of a segment is rendered once; per row there is the
//! escaped text, the offset and copies of what lies between.

use super::{Encoding, Metadata};
use crate::formats::{push_decimal, push_rfc3339};
use millstream_model::{Batch, ComponentError, EncodeCx, Encoder, Payload, Segment};
use millstream_scan::escape_json;

/// Encodes JSON lines.
pub struct JsonEncoder {
    metadata: Vec<Metadata>,
    metadata_key: String,
    pieces: Vec<Piece>,
    head: Vec<u8>,
}

/// A part of the text behind the message.
enum Piece {
    /// The same for every row of the segment.
    Constant(Vec<u8>),
    Offset,
    PreviousOffset,
    Truncated,
}

impl JsonEncoder {
    /// An encoder with these settings.
    pub fn new(encoding: &Encoding) -> JsonEncoder {
        JsonEncoder {
            metadata: encoding.metadata.clone(),
            metadata_key: encoding.metadata_key.clone(),
            pieces: Vec::new(),
            head: Vec::new(),
        }
    }

    /// Renders what all rows of a segment share.
    fn prepare(&mut self, batch: &Batch, segment: &Segment) {
        self.head.clear();
        self.head.extend_from_slice(b"{\"timestamp\":\"");
        push_rfc3339(&mut self.head, batch.read_ns);
        self.head.extend_from_slice(b"\",\"message\":\"");
        let mut tail = Tail::default();
        tail.text(b"\"");
        let nested = !self.metadata_key.is_empty() && !self.metadata.is_empty();
        if nested {
            tail.text(b",");
            tail.string(&self.metadata_key);
            tail.text(b":{");
        }
        for (index, item) in self.metadata.iter().enumerate() {
            tail.text(if nested && index == 0 { b"" } else { b"," });
            tail.metadata(*item, batch, segment);
        }
        tail.text(if nested { b"}" } else { b"" });
        for (name, value) in &batch.source.attributes {
            tail.text(b",");
            tail.string(name);
            tail.text(b":");
            tail.string(value);
        }
        tail.text(b"}\n");
        self.pieces = tail.pieces;
    }

    fn rows(&self, batch: &Batch, segment: &Segment, utf8: bool, out: &mut Vec<u8>) -> u64 {
        let mut replaced = 0;
        for (begin, end) in batch.runs(segment.first_row, segment.first_row + segment.rows) {
            for row in begin..end {
                out.extend_from_slice(&self.head);
                let text = batch.text(row);
                if utf8 || simdutf8::basic::from_utf8(text).is_ok() {
                    escape_json(text, out);
                } else {
                    escape_json(String::from_utf8_lossy(text).as_bytes(), out);
                    replaced += 1;
                }
                self.tail(batch, segment, row, out);
            }
        }
        replaced
    }

    #[inline]
    fn tail(&self, batch: &Batch, segment: &Segment, row: usize, out: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                Piece::Constant(text) => out.extend_from_slice(text),
                Piece::Offset => push_decimal(out, batch.offset(segment, row)),
                Piece::PreviousOffset if row > segment.first_row => {
                    push_decimal(out, batch.offset(segment, row - 1));
                }
                Piece::PreviousOffset => out.extend_from_slice(b"null"),
                Piece::Truncated => out.extend_from_slice(if batch.is_truncated(row) { b"true" } else { b"false" }),
            }
        }
    }
}

impl Encoder for JsonEncoder {
    fn encode(&mut self, batch: &Batch, payload: &mut Payload, cx: &mut EncodeCx<'_>) -> Result<(), ComponentError> {
        let mut out = cx.pool.buffer();
        let utf8 = simdutf8::basic::from_utf8(&batch.block).is_ok();
        let mut replaced = 0;
        for segment in batch.segments.iter().filter(|s| s.rows > 0) {
            self.prepare(batch, segment);
            replaced += self.rows(batch, segment, utf8, &mut out);
        }
        cx.counters.noted("invalid_utf8", replaced);
        payload.push(cx.freeze(out));
        Ok(())
    }
}

/// Collects pieces, joining what is constant.
#[derive(Default)]
struct Tail {
    pieces: Vec<Piece>,
}

impl Tail {
    fn text(&mut self, text: &[u8]) {
        match self.pieces.last_mut() {
            Some(Piece::Constant(last)) => last.extend_from_slice(text),
            _ => self.pieces.push(Piece::Constant(text.to_vec())),
        }
    }

    fn string(&mut self, text: &str) {
        let mut quoted = vec![b'"'];
        escape_json(text.as_bytes(), &mut quoted);
        quoted.push(b'"');
        self.text(&quoted);
    }

    fn key(&mut self, key: &str) {
        self.string(key);
        self.text(b":");
    }

    fn metadata(&mut self, item: Metadata, batch: &Batch, segment: &Segment) {
        match item {
            Metadata::Host => self.pair("host", &batch.source.host),
            Metadata::Source => self.pair("source", &batch.source.id),
            Metadata::File => self.pair("file", &segment.origin.name),
            Metadata::FileId => self.pair("file_id", &format!("{:016x}", segment.origin.id)),
            Metadata::Collected => {
                let mut time = Vec::new();
                push_rfc3339(&mut time, batch.read_ns);
                self.pair("collected", &String::from_utf8_lossy(&time));
            }
            Metadata::Offset => self.number("offset", Piece::Offset),
            Metadata::PreviousOffset => self.number("previous_offset", Piece::PreviousOffset),
            Metadata::Truncated => self.number("truncated", Piece::Truncated),
            Metadata::Id => {
                self.key("id");
                self.text(format!("\"{:016x}-", segment.origin.id).as_bytes());
                self.pieces.push(Piece::Offset);
                self.text(b"\"");
            }
        }
    }

    fn pair(&mut self, key: &str, value: &str) {
        self.key(key);
        self.string(value);
    }

    fn number(&mut self, key: &str, piece: Piece) {
        self.key(key);
        self.pieces.push(piece);
    }
}
