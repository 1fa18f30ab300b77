//! The `raw_json` codec: a line that is a JSON object is passed on without being parsed into
//! fields. The members that `json` adds to an event are inserted after its opening brace.
//!
//! The object is checked in one pass and copied once. A line's members are never overwritten: an
//! added member with the same name is omitted. The codec falls back to `json` if the line is not a
//! JSON object, or if the line was parsed into fields and is no longer emitted itself.

use super::Encoding;
use super::json::{JsonEncoder, push_one_line};
use arrow_buffer::BooleanBuffer;
use millstream_model::{Batch, ComponentError, EncodeCx, Encoder, MEMBERS, Payload};
use millstream_parsers::json_members;

/// Encodes lines that are JSON objects.
pub struct RawJsonEncoder {
    encoding: Encoding,
    json: JsonEncoder,
    /// Names of the members added to each event in the batch.
    names: Vec<Vec<u8>>,
    newlines: Vec<u32>,
}

/// How a line is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// Not an object; the line becomes the `message` member.
    Other,
    /// An object without any of the added names.
    Object,
    /// An object that may contain some of the added names.
    Clashing,
}

impl RawJsonEncoder {
    /// Creates an encoder with the settings in `encoding`.
    pub fn new(encoding: &Encoding) -> RawJsonEncoder {
        RawJsonEncoder {
            encoding: encoding.clone(),
            json: JsonEncoder::new(encoding),
            names: Vec::new(),
            newlines: Vec::new(),
        }
    }

    /// Collects the names of the members that may be added to a batch's events.
    fn collect_names(&mut self, batch: &Batch) {
        let metadata = self.encoding.metadata.iter().map(|item| item.name());
        let of_origins = batch.segments.iter().flat_map(|segment| segment.origin.attributes.keys());
        let attributes = batch.source.attributes.keys().chain(of_origins).map(String::as_str);
        let columns = batch.fields.iter().map(|column| &*column.name);
        let own = [self.encoding.timestamp_key.as_str()].into_iter();
        self.names = match self.encoding.metadata_key.as_str() {
            "" => own.chain(metadata).chain(attributes).chain(columns).map(Vec::from).collect(),
            key => own.chain([key]).chain(attributes).chain(columns).map(Vec::from).collect(),
        };
        self.names.sort_unstable();
        self.names.dedup();
    }

    /// Returns the classification of each selected row.
    fn lines(&mut self, batch: &Batch) -> Vec<Line> {
        self.collect_names(batch);
        let has_members = batch.fields.get(MEMBERS).is_some();
        let line = |row: usize| {
            let text = batch.text(row);
            if !batch.is_shown(row) {
                return Line::Other;
            }
            let mut clashes = has_members;
            let is_object = json_members(text, |name, _| {
                clashes = clashes || self.names.iter().any(|own| own[..] == *name);
            });
            match (is_object, clashes) {
                (false, _) => Line::Other,
                (true, false) => Line::Object,
                (true, true) => Line::Clashing,
            }
        };
        batch.runs(0, batch.rows()).flat_map(|(begin, end)| begin..end).map(line).collect()
    }
}

impl Encoder for RawJsonEncoder {
    fn encode(
        &mut self,
        batch: &Batch,
        payload: &mut Payload,
        cx: &mut EncodeCx<'_>,
    ) -> Result<(), ComponentError> {
        let lines = self.lines(batch);
        let rows = || batch.runs(0, batch.rows()).flat_map(|(begin, end)| begin..end);
        let mut shown: Vec<bool> = (0..batch.rows()).map(|row| batch.is_shown(row)).collect();
        rows().zip(&lines).for_each(|(row, line)| shown[row] &= *line == Line::Other);
        let mut around = batch.clone();
        around.shown = Some(BooleanBuffer::from(shown));
        let mut added = Payload::default();
        self.json.encode(&around, &mut added, cx)?;
        let Some(added) = added.parts.first() else { return Ok(()) };
        self.newlines.clear();
        millstream_scan::newlines(added, &mut self.newlines);
        let (mut out, mut begin, mut clashes) = (cx.pool.buffer(), 0, 0);
        for ((row, line), end) in rows().zip(&lines).zip(&self.newlines) {
            let event = &added[begin..*end as usize];
            begin = *end as usize + 1;
            match line {
                Line::Other => out.extend_from_slice(event),
                Line::Object => splice(event, batch.text(row), &mut out),
                Line::Clashing => {
                    let left = without(event, batch.text(row));
                    clashes += u64::from(left.len() < event.len());
                    splice(&left, batch.text(row), &mut out);
                }
            }
            out.push(b'\n');
        }
        cx.counters.noted("name_clash", clashes);
        payload.push(cx.freeze(out));
        Ok(())
    }
}

/// Returns the event without its members whose names also occur in the object in `text`.
fn without(event: &[u8], text: &[u8]) -> Vec<u8> {
    let mut left = vec![b'{'];
    json_members(event, |name, member| {
        let mut is_taken = false;
        json_members(text, |other, _| is_taken |= other == name);
        if !is_taken {
            left.extend_from_slice(member);
            left.push(b',');
        }
    });
    left.pop_if(|last| *last == b',');
    left.push(b'}');
    left
}

/// Appends an object with the members of `event`, which lie on one line, and of the object in
/// `text`. Line breaks in `text` become spaces.
fn splice(event: &[u8], text: &[u8], out: &mut Vec<u8>) {
    let inside = |object: &[u8]| {
        let object = object.trim_ascii();
        object[1..object.len() - 1].trim_ascii().len()
    };
    out.extend_from_slice(&event[..event.len() - 1]);
    if inside(event) > 0 && inside(text) > 0 {
        out.push(b',');
    }
    push_one_line(&text.trim_ascii()[1..], out);
}

#[cfg(test)]
mod tests;
