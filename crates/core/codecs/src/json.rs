//! The `json` codec: one JSON object per line,
//! `{"timestamp":…,"message":…,…fields,"meta":{…},…attributes}`.
//!
//! Everything that is constant within a segment is rendered once. For each row, the encoder writes
//! the escaped text, then a copy of the bytes up to the next text, and patches the offset into this
//! copy, and the time if rows have their own times. The `fields` module encodes events with fields.

mod fields;

pub(super) use fields::push_one_line;

use super::{Encoding, Metadata};
use crate::formats::{DIGITS_MAX, RFC3339_BYTES, decimal, push_decimal, push_rfc3339};
use crate::times::Times;
use millstream_model::{Batch, CellKind, ComponentError, EncodeCx, Encoder, Payload, Segment};
use millstream_scan::escape_json;

/// Encodes JSON lines.
pub struct JsonEncoder {
    metadata: Vec<Metadata>,
    metadata_key: String,
    timestamp_key: String,
    /// The beginning of an object up to its time.
    time_head: Vec<u8>,
    /// Bytes before each message.
    head: Vec<u8>,
    /// Bytes after each message.
    pieces: Vec<Piece>,
    between: Between,
    times: Times,
    /// Number of bytes that the time occupies in `head`.
    head_time_bytes: usize,
    /// For each field, whether it replaces a built-in member in the current row.
    clashes: Vec<bool>,
}

/// A part of the text that follows the message.
enum Piece {
    /// Text that is the same for all rows in the segment.
    Constant(Vec<u8>),
    Offset,
    /// The ordinal at the end of an event's id, if one record became several events.
    Ordinal,
    /// The id of an event, if any of the batch's events arrived with an id.
    Id,
    PreviousOffset,
    Truncated,
    Stream,
    Partial,
}

/// The bytes between two messages, rendered for offsets with a given number of digits. For each
/// row, the bytes are copied and the digits patched.
#[derive(Default)]
struct Between {
    text: Vec<u8>,
    /// Positions in `text` where the offset's digits are patched in.
    slots: Vec<usize>,
    digits: usize,
}

impl JsonEncoder {
    /// Creates an encoder with these settings.
    pub fn new(encoding: &Encoding) -> JsonEncoder {
        let mut time_head = b"{\"".to_vec();
        escape_json(encoding.timestamp_key.as_bytes(), &mut time_head);
        time_head.extend_from_slice(b"\":");
        let times = Times::new(encoding.timestamp);
        time_head.extend_from_slice(times.quote());
        JsonEncoder {
            timestamp_key: encoding.timestamp_key.clone(),
            time_head,
            metadata: encoding.metadata.clone(),
            metadata_key: encoding.metadata_key.clone(),
            head: Vec::new(),
            pieces: Vec::new(),
            between: Between::default(),
            times,
            head_time_bytes: 0,
            clashes: Vec::new(),
        }
    }

    /// Renders the bytes that all of a segment's rows share.
    fn prepare(&mut self, batch: &Batch, segment: &Segment) {
        self.head.clear();
        self.head.extend_from_slice(&self.time_head);
        let time = self.times.text(batch.read_ns);
        self.head.extend_from_slice(time);
        self.head_time_bytes = time.len();
        self.head.extend_from_slice(self.times.quote());
        self.head.extend_from_slice(b",\"message\":\"");
        let mut tail = Tail::default();
        tail.text(b"\"");
        self.tail(tail, batch, segment, |_| false);
    }

    /// Renders the metadata and attributes after the content of `tail`. Members whose names are
    /// taken are omitted.
    fn tail(
        &mut self,
        mut tail: Tail,
        batch: &Batch,
        segment: &Segment,
        is_taken: impl Fn(&str) -> bool,
    ) {
        let nested = !self.metadata_key.is_empty();
        let there = |item: &&Metadata| {
            item.is_known(batch, segment)
                && !is_taken(if nested { &self.metadata_key } else { item.name() })
        };
        let items: Vec<Metadata> = self.metadata.iter().filter(there).copied().collect();
        let nested = nested && !items.is_empty();
        if nested {
            tail.text(b",");
            tail.string(&self.metadata_key);
            tail.text(b":{");
        }
        for (index, item) in items.into_iter().enumerate() {
            tail.text(if nested && index == 0 { b"" } else { b"," });
            tail.metadata(item, batch, segment);
        }
        tail.text(if nested { b"}" } else { b"" });
        let (shared, own) = (&batch.source.attributes, &segment.origin.attributes);
        let own = own.iter().filter(|(name, _)| !shared.contains_key(*name));
        let all = shared
            .iter()
            .chain(own)
            .filter(|(name, _)| !self.is_own(name, batch, segment) && !is_taken(name));
        for (name, value) in all {
            tail.text(b",");
            tail.string(name);
            tail.text(b":");
            tail.string(value);
        }
        tail.text(b"}\n");
        self.pieces = tail.pieces;
        self.between.digits = 0;
    }

    /// Returns whether a top-level name is one of the event's built-in members, which attributes
    /// cannot replace.
    fn is_own(&self, name: &str, batch: &Batch, segment: &Segment) -> bool {
        let is_it = |item: &Metadata| item.name() == name && item.is_known(batch, segment);
        let flat = self.metadata_key.is_empty() && self.metadata.iter().any(is_it);
        flat || name == self.timestamp_key || name == "message" || name == self.metadata_key
    }

    fn rows(&mut self, batch: &Batch, segment: &Segment, utf8: bool, out: &mut Vec<u8>) -> u64 {
        let mut replaced = 0;
        out.extend_from_slice(&self.head);
        for (begin, end) in batch.runs(segment.first_row, segment.first_row + segment.rows) {
            for row in begin..end {
                if batch.time.is_some() {
                    self.stamp(batch.event_ns(row), out);
                }
                let cell = batch.message.cells()[row];
                replaced += u64::from(push_text(batch.text(row), utf8 && !cell.is_own(), out));
                self.between(batch, segment, row, out);
            }
        }
        // Removes the head that was appended after the last row.
        out.truncate(out.len() - self.head.len());
        replaced
    }

    /// Writes the row's time into the head that ends `out`.
    #[inline]
    fn stamp(&mut self, ns: i64, out: &mut Vec<u8>) {
        let at = out.len() - self.head.len() + self.time_head.len();
        match self.times.fixed(ns) {
            Some(time) => out[at..at + RFC3339_BYTES].copy_from_slice(time),
            // The row's time may have more or fewer digits than the time in the head.
            None => {
                let time = self.times.text(ns).iter().copied();
                out.splice(at..at + self.head_time_bytes, time);
            }
        }
    }

    /// Appends the bytes that follow a row's message, and the head of the next row.
    #[inline]
    fn between(&mut self, batch: &Batch, segment: &Segment, row: usize, out: &mut Vec<u8>) {
        let mut digits = [0; DIGITS_MAX];
        let digits = decimal(batch.offset(segment, row), &mut digits);
        if self.between.digits != digits.len() {
            self.between.render(&self.pieces, &self.head, digits.len());
        }
        let begin = out.len();
        if self.between.digits > 0 {
            out.extend_from_slice(&self.between.text);
            for slot in &self.between.slots {
                out[begin + slot..begin + slot + digits.len()].copy_from_slice(digits);
            }
            return;
        }
        for piece in &self.pieces {
            match piece {
                Piece::Constant(text) => out.extend_from_slice(text),
                Piece::Offset => out.extend_from_slice(digits),
                Piece::Ordinal => push_ordinal(out, batch.ordinal(row)),
                Piece::Id => push_id(batch, segment, row, out),
                Piece::PreviousOffset if row > segment.first_row => {
                    push_decimal(out, batch.offset(segment, row - 1));
                }
                Piece::PreviousOffset => out.extend_from_slice(b"null"),
                Piece::Truncated => {
                    out.extend_from_slice(if batch.is_truncated(row) { b"true" } else { b"false" })
                }
                Piece::Stream => push_stream(batch, row, out),
                Piece::Partial => out.extend_from_slice(partial(batch, row)),
            }
        }
        out.extend_from_slice(&self.head);
    }
}

/// Appends a row's id as the inside of a JSON string.
fn push_id(batch: &Batch, segment: &Segment, row: usize, out: &mut Vec<u8>) {
    let mut id = Vec::new();
    batch.write_id(segment, row, &mut id);
    push_text(&id, false, out);
}

/// Appends the stream of a row as a JSON string, or `null`.
fn push_stream(batch: &Batch, row: usize, out: &mut Vec<u8>) {
    let column = Metadata::Stream.column(batch).filter(|column| column.cells()[row].is_present());
    match column {
        Some(column) => {
            out.push(b'"');
            out.extend_from_slice(column.bytes(&batch.block, column.cells()[row]));
            out.push(b'"');
        }
        None => out.extend_from_slice(b"null"),
    }
}

/// Returns, as JSON, whether the end of a row's event is missing; `null` if that is not known.
fn partial(batch: &Batch, row: usize) -> &'static [u8] {
    match Metadata::Partial.column(batch).map(|column| column.cells()[row].kind()) {
        Some(CellKind::True) => b"true",
        Some(CellKind::False) => b"false",
        _ => b"null",
    }
}

/// Appends a record's ordinal to an id, unless the ordinal is 0; see [`millstream_model::EventId`].
fn push_ordinal(out: &mut Vec<u8>, ordinal: u32) {
    if ordinal > 0 {
        out.push(b'-');
        push_decimal(out, u64::from(ordinal));
    }
}

/// Appends text as the inside of a JSON string; returns whether invalid UTF-8 was replaced.
#[inline]
fn push_text(text: &[u8], utf8: bool, out: &mut Vec<u8>) -> bool {
    if utf8 || simdutf8::basic::from_utf8(text).is_ok() {
        escape_json(text, out);
        return false;
    }
    escape_json(String::from_utf8_lossy(text).as_bytes(), out);
    true
}

impl Between {
    /// Renders the bytes for offsets with `digits` digits. Leaves `self.digits` at 0 if anything
    /// other than the offset differs between rows.
    fn render(&mut self, pieces: &[Piece], head: &[u8], digits: usize) {
        self.text.clear();
        self.slots.clear();
        self.digits = 0;
        for piece in pieces {
            match piece {
                Piece::Constant(text) => self.text.extend_from_slice(text),
                Piece::Offset => {
                    self.slots.push(self.text.len());
                    self.text.resize(self.text.len() + digits, b'0');
                }
                _ => return,
            }
        }
        self.text.extend_from_slice(head);
        self.digits = digits;
    }
}

impl Encoder for JsonEncoder {
    fn encode(
        &mut self,
        batch: &Batch,
        payload: &mut Payload,
        cx: &mut EncodeCx<'_>,
    ) -> Result<(), ComponentError> {
        let mut out = cx.pool.buffer();
        let utf8 = simdutf8::basic::from_utf8(&batch.block).is_ok();
        let mut replaced = 0;
        if batch.fields.is_empty() && batch.shown.is_none() {
            for segment in batch.segments.iter().filter(|s| s.rows > 0) {
                self.prepare(batch, segment);
                replaced += self.rows(batch, segment, utf8, &mut out);
            }
        } else {
            let tally = self.events(batch, utf8, &mut out);
            replaced = tally.replaced;
            cx.counters.noted("name_clash", tally.clashes);
        }
        cx.counters.noted("invalid_utf8", replaced);
        payload.push(cx.freeze(out));
        Ok(())
    }
}

/// Collects pieces, and merges adjacent constant pieces.
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
        self.key(item.name());
        match item {
            Metadata::Host => self.string(&batch.source.host),
            Metadata::Source => self.string(&batch.source.id),
            Metadata::File => self.string(&segment.origin.name),
            Metadata::FileId => self.string(&segment.origin.id.to_string()),
            Metadata::Collected => {
                let mut time = Vec::new();
                push_rfc3339(&mut time, batch.read_ns);
                self.string(&String::from_utf8_lossy(&time));
            }
            Metadata::Offset => self.pieces.push(Piece::Offset),
            Metadata::PreviousOffset => self.pieces.push(Piece::PreviousOffset),
            Metadata::Truncated => self.pieces.push(Piece::Truncated),
            Metadata::Stream => self.pieces.push(Piece::Stream),
            Metadata::Partial => self.pieces.push(Piece::Partial),
            Metadata::Id if batch.ids.is_some() => {
                self.text(b"\"");
                self.pieces.push(Piece::Id);
                self.text(b"\"");
            }
            Metadata::Id => {
                self.text(format!("\"{}-", segment.origin.id).as_bytes());
                self.pieces.push(Piece::Offset);
                if batch.ordinals.is_some() {
                    self.pieces.push(Piece::Ordinal);
                }
                self.text(b"\"");
            }
        }
    }
}

#[cfg(test)]
mod tests;
