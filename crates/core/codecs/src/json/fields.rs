//! Encodes events with fields.
//!
//! If a field has the same name as a built-in member (the time, the message, the metadata object,
//! or an attribute), the field is kept and the built-in member is omitted, so that parsed data is
//! never overwritten.

use super::{Batch, JsonEncoder, Piece, Segment, Tail, escape_json, push_text};
use millstream_model::{CellKind, Column, MEMBERS};
use std::collections::BTreeSet;

/// A column, and the bytes that precede its values.
struct Field<'b> {
    column: &'b Column,
    /// A comma, the name, a colon, and a quotation mark that only text values need.
    key: Vec<u8>,
    /// Whether a built-in member has the same name.
    is_taken: bool,
}

/// Counters for an encoded batch.
#[derive(Default)]
pub(super) struct Tally {
    /// Number of strings in which invalid UTF-8 was replaced.
    pub replaced: u64,
    /// Number of events in which a field replaced a built-in member.
    pub clashes: u64,
}

/// Which of the built-in members time and message remain in an event with fields.
#[derive(Clone, Copy)]
struct Left {
    time: bool,
    message: bool,
}

/// What the events of a segment contain.
struct Shown<'f, 'b> {
    fields: &'f [Field<'b>],
    left: Left,
    /// The time at which the batch was read, as text.
    read: &'f [u8],
    /// Whether the block is valid UTF-8.
    utf8: bool,
}

impl JsonEncoder {
    /// Appends the batch's selected rows as events.
    pub(super) fn events(&mut self, batch: &Batch, utf8: bool, out: &mut Vec<u8>) -> Tally {
        let lifted;
        let batch = match batch.fields.get(MEMBERS) {
            None => batch,
            Some(_) => {
                lifted = self.lifted(batch);
                &lifted
            }
        };
        let mut tally = Tally::default();
        self.head.clear();
        let read = self.times.text(batch.read_ns).to_vec();
        for segment in batch.segments.iter().filter(|s| s.rows > 0) {
            let fields = self.fields(batch, segment);
            let has_taken = fields.iter().any(|field| field.is_taken);
            let mut left = self.leave(batch, segment, &fields, None);
            for (begin, end) in batch.runs(segment.first_row, segment.first_row + segment.rows) {
                for row in begin..end {
                    if has_taken && self.note_clashes(batch, &fields, row) {
                        left = self.leave(batch, segment, &fields, Some(row));
                    }
                    let shown = Shown { fields: &fields, left, read: &read, utf8 };
                    tally.clashes += u64::from(has_taken && self.clashes.contains(&true));
                    tally.replaced += self.event(batch, segment, row, &shown, out);
                }
            }
        }
        tally
    }

    /// Returns the batch with an added column for each object member whose name another part of the
    /// event also has, so that no name occurs twice.
    fn lifted(&self, batch: &Batch) -> Batch {
        let of_origins = batch.segments.iter().flat_map(|segment| segment.origin.attributes.keys());
        let attributes = batch.source.attributes.keys().chain(of_origins).map(String::as_str);
        let metadata = self.metadata.iter().map(|item| item.name());
        let columns =
            batch.fields.iter().map(|column| &*column.name).filter(|name| *name != MEMBERS);
        let own = [self.timestamp_key.as_str(), "message", &self.metadata_key]
            .into_iter()
            .filter(|name| !name.is_empty());
        let names: BTreeSet<&str> = own.chain(metadata).chain(attributes).chain(columns).collect();
        let mut lifted = batch.clone();
        lifted.fields.lift(names, &batch.block);
        lifted
    }

    fn fields<'b>(&self, batch: &'b Batch, segment: &Segment) -> Vec<Field<'b>> {
        let field = |column: &'b Column| {
            let name = &*column.name;
            let mut key = vec![b','];
            if !name.is_empty() {
                key.push(b'"');
                escape_json(name.as_bytes(), &mut key);
                key.extend_from_slice(b"\":");
            }
            key.push(b'"');
            let is_attribute = batch.source.attributes.contains_key(name)
                || segment.origin.attributes.contains_key(name);
            Field { column, key, is_taken: self.is_own(name, batch, segment) || is_attribute }
        };
        batch.fields.iter().map(field).collect()
    }

    /// Records which of a row's fields replace a built-in member. Returns whether they differ from
    /// those of the previous row.
    fn note_clashes(&mut self, batch: &Batch, fields: &[Field<'_>], row: usize) -> bool {
        // A hidden message is not written, so a field cannot replace it.
        let is_there = |name: &str| name != "message" || batch.is_shown(row);
        let clash = |field: &Field<'_>| {
            field.is_taken && field.column.cells()[row].is_present() && is_there(&field.column.name)
        };
        if fields.iter().map(clash).eq(self.clashes.iter().copied()) {
            return false;
        }
        self.clashes.clear();
        self.clashes.extend(fields.iter().map(clash));
        true
    }

    /// Renders the metadata and attributes that the fields of `row` do not replace; all of them if
    /// `row` is `None`.
    fn leave(
        &mut self,
        batch: &Batch,
        segment: &Segment,
        fields: &[Field<'_>],
        row: Option<usize>,
    ) -> Left {
        if row.is_none() {
            self.clashes.clear();
            self.clashes.resize(fields.len(), false);
        }
        let clashes = std::mem::take(&mut self.clashes);
        let is_taken = |name: &str| {
            fields.iter().zip(&clashes).any(|(field, clash)| *clash && &*field.column.name == name)
        };
        self.tail(Tail::default(), batch, segment, is_taken);
        let left = Left { time: !is_taken(&self.timestamp_key), message: !is_taken("message") };
        self.clashes = clashes;
        left
    }

    #[inline]
    fn event(
        &mut self,
        batch: &Batch,
        segment: &Segment,
        row: usize,
        shown: &Shown<'_, '_>,
        out: &mut Vec<u8>,
    ) -> u64 {
        let Shown { fields, left, read, utf8 } = *shown;
        let begin = out.len();
        if left.time {
            out.push(b',');
            out.extend_from_slice(&self.time_head[1..]);
            match batch.time.is_some() {
                true => out.extend_from_slice(self.times.text(batch.event_ns(row))),
                false => out.extend_from_slice(read),
            }
            out.extend_from_slice(self.times.quote());
        }
        let is_shown = left.message && batch.is_shown(row);
        let mut replaced = u64::from(is_shown && push_message(batch, row, utf8, out));
        for field in fields {
            let cell = field.column.cells()[row];
            if cell.is_present() {
                let bytes = field.column.bytes(&batch.block, cell);
                let utf8 =
                    utf8 && !cell.is_own() && is_cut_well(&batch.block, cell.start(), cell.len());
                replaced += u64::from(push_value(&field.key, cell.kind(), bytes, utf8, out));
            }
        }
        if out.len() == begin && !self.begins_with_comma() {
            // The opening brace later replaces the event's first byte, which is normally a comma.
            out.push(b',');
        }
        self.between(batch, segment, row, out);
        out[begin] = b'{';
        replaced
    }
}

impl JsonEncoder {
    /// Returns whether any member follows the fields.
    fn begins_with_comma(&self) -> bool {
        matches!(self.pieces.first(), Some(Piece::Constant(text)) if text.first() == Some(&b','))
    }
}

/// Appends the message; returns whether invalid UTF-8 was replaced.
#[inline]
fn push_message(batch: &Batch, row: usize, utf8: bool, out: &mut Vec<u8>) -> bool {
    out.extend_from_slice(b",\"message\":\"");
    let replaced = push_text(batch.text(row), utf8 && !batch.message.cells()[row].is_own(), out);
    out.push(b'"');
    replaced
}

/// Returns whether a slice of a valid UTF-8 block starts and ends at character boundaries.
#[inline]
fn is_cut_well(block: &[u8], start: usize, len: usize) -> bool {
    let is_between = |at: usize| block.get(at).is_none_or(|byte| byte & 0xC0 != 0x80);
    is_between(start) && is_between(start + len)
}

/// Appends a value after its key; returns whether invalid UTF-8 was replaced.
#[inline]
fn push_value(key: &[u8], kind: CellKind, bytes: &[u8], utf8: bool, out: &mut Vec<u8>) -> bool {
    let bytes: &[u8] = match kind {
        CellKind::Text => {
            out.extend_from_slice(key);
            let replaced = push_text(bytes, utf8, out);
            out.push(b'"');
            return replaced;
        }
        CellKind::Escaped | CellKind::Time => {
            out.extend_from_slice(key);
            out.extend_from_slice(bytes);
            out.push(b'"');
            return false;
        }
        CellKind::True => b"true",
        CellKind::False => b"false",
        CellKind::Null | CellKind::Absent => b"null",
        CellKind::Int | CellKind::Float => bytes,
        CellKind::Object | CellKind::Array | CellKind::Members => {
            out.extend_from_slice(&key[..key.len() - 1]);
            push_one_line(bytes, out);
            return false;
        }
    };
    out.extend_from_slice(&key[..key.len() - 1]);
    out.extend_from_slice(bytes);
    false
}

/// Appends JSON with its line breaks replaced by spaces, because a line feed would end the event.
/// JSON strings cannot contain raw line feeds, so each line feed is whitespace.
pub(crate) fn push_one_line(mut json: &[u8], out: &mut Vec<u8>) {
    while let Some(at) = memchr::memchr2(b'\n', b'\r', json) {
        out.extend_from_slice(&json[..at]);
        out.push(b' ');
        json = &json[at + 1..];
    }
    out.extend_from_slice(json);
}
