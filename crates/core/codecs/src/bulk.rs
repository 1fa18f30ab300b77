//! Encodes batches as the lines of a bulk request, with an action and a document for each event.

mod indexes;

pub use indexes::Indexes;

use crate::template::Template;
use millstream_model::{Batch, ComponentError, EncodeCx, Encoder, Payload, Segment};
use millstream_scan::escape_json;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

/// Reason for rejecting events whose index would exceed the maximum number of indexes.
pub const TOO_MANY_INDEXES: &str = "too_many_indexes";

/// Maximum size in bytes of an `_id` that Elasticsearch accepts.
const ID_BYTES_MAX: usize = 512;

/// Estimated size of an action in bytes.
pub const ACTION_BYTES: u64 = 160;

/// Operation for an event.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum OpType {
    /// Adds a document unless the id exists already, so a repeated event changes nothing.
    #[default]
    Create,
    /// Adds or replaces a document.
    Index,
}

impl OpType {
    /// Returns the name of the operation in an action.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The contents of an action.
pub struct Action {
    /// The operation.
    pub op_type: OpType,
    /// The name of the index or data stream.
    pub index: Template,
    /// The document id; `None` if the server chooses it.
    pub id: Option<Id>,
    /// The routing value.
    pub routing: Option<Template>,
    /// The name of the ingest pipeline.
    pub pipeline: Option<Template>,
    /// The indexes that recently received events.
    pub indexes: Indexes,
}

/// How the id of a document is determined.
pub enum Id {
    /// The event id.
    Event,
    /// A template; the event id if the event lacks one of the template's fields.
    Template(Template),
}

/// Encodes actions and documents.
pub struct DocumentEncoder {
    action: Arc<Action>,
    /// Encodes the documents, one per line.
    documents: Box<dyn Encoder>,
    newlines: Vec<u32>,
    /// The beginning of an action, up to and including the index. It is reused for consecutive
    /// events with the same index.
    head: Head,
    text: Vec<u8>,
}

/// The beginning of an action, and whether its index is allowed.
#[derive(Default)]
struct Head {
    bytes: Vec<u8>,
    /// The row of the current segment for which the head was rendered; `None` if the head must be
    /// rendered again.
    row: Option<usize>,
    name: Vec<u8>,
    is_allowed: bool,
}

impl DocumentEncoder {
    /// Creates an encoder that puts an action before each document that `documents` encodes.
    pub fn new(action: Arc<Action>, documents: Box<dyn Encoder>) -> DocumentEncoder {
        DocumentEncoder {
            action,
            documents,
            newlines: Vec::new(),
            head: Head::default(),
            text: Vec::new(),
        }
    }

    /// Appends the action of a row. Returns `false` and appends nothing if the index is not
    /// allowed.
    fn action(&mut self, batch: &Batch, segment: &Segment, row: usize, out: &mut Vec<u8>) -> bool {
        let action = self.action.clone();
        if !self.head.row.is_some_and(|before| action.index.is_same(batch, before, row)) {
            self.head.render(&action, batch, segment, row);
        }
        if !self.head.is_allowed {
            return false;
        }
        out.extend_from_slice(&self.head.bytes);
        if let Some(id) = &action.id {
            self.text.clear();
            id.render(batch, segment, row, &mut self.text);
            push_member(b"_id", &self.text, out);
        }
        for (key, template) in [(&b"routing"[..], &action.routing), (b"pipeline", &action.pipeline)]
        {
            let Some(template) = template else { continue };
            self.text.clear();
            if template.render(batch, segment, row, &mut self.text) && !self.text.is_empty() {
                push_member(key, &self.text, out);
            }
        }
        out.extend_from_slice(b"}}\n");
        true
    }
}

impl Head {
    fn render(&mut self, action: &Action, batch: &Batch, segment: &Segment, row: usize) {
        self.row = Some(row);
        let mut name = std::mem::take(&mut self.bytes);
        name.clear();
        action.index.render(batch, segment, row, &mut name);
        if name != self.name || !self.is_allowed {
            self.is_allowed = action.indexes.allow(&name, batch.read_ns);
        }
        self.name = name;
        self.bytes = [b"{\"", action.op_type.name().as_bytes(), b"\":{\"_index\":\""].concat();
        escape_json(&self.name, &mut self.bytes);
        self.bytes.push(b'"');
    }
}

impl Id {
    fn render(&self, batch: &Batch, segment: &Segment, row: usize, out: &mut Vec<u8>) {
        if let Id::Template(template) = self
            && (!template.render(batch, segment, row, out) || out.is_empty())
        {
            out.clear();
        }
        if out.is_empty() {
            batch.write_id(segment, row, out);
        }
        if out.len() > ID_BYTES_MAX {
            let hash = xxhash_rust::xxh3::xxh3_128(out);
            out.clear();
            out.extend_from_slice(format!("{hash:032x}").as_bytes());
        }
    }
}

/// Appends a member with a text value. Other members must precede it.
fn push_member(key: &[u8], text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(key);
    out.extend_from_slice(b"\":\"");
    match simdutf8::basic::from_utf8(text) {
        Ok(text) => escape_json(text.as_bytes(), out),
        Err(_) => escape_json(String::from_utf8_lossy(text).as_bytes(), out),
    }
    out.push(b'"');
}

impl Encoder for DocumentEncoder {
    fn encode(
        &mut self,
        batch: &Batch,
        payload: &mut Payload,
        cx: &mut EncodeCx<'_>,
    ) -> Result<(), ComponentError> {
        let mut encoded = Payload::default();
        self.documents.encode(batch, &mut encoded, cx)?;
        // A document contains no line feed, so each line is one document.
        let Some(documents) = encoded.parts.first() else { return Ok(()) };
        let mut newlines = std::mem::take(&mut self.newlines);
        newlines.clear();
        millstream_scan::newlines(documents, &mut newlines);
        let mut out = cx.pool.buffer();
        let (mut ends, mut begin) = (newlines.iter(), 0);
        self.head.name.clear();
        for segment in batch.segments.iter() {
            self.head.row = None;
            let runs = batch.runs(segment.first_row, segment.first_row + segment.rows);
            for row in runs.flat_map(|(begin, end)| begin..end) {
                let Some(end) = ends.next().map(|end| *end as usize + 1) else { break };
                if self.action(batch, segment, row, &mut out) {
                    out.extend_from_slice(&documents[begin..end]);
                } else {
                    refuse(row, payload, cx);
                }
                begin = end;
            }
        }
        self.newlines = newlines;
        if !out.is_empty() {
            payload.push(cx.freeze(out));
        }
        Ok(())
    }
}

/// Rejects a row whose index is not allowed. The row is dropped if no component reads rejected
/// events.
fn refuse(row: usize, payload: &mut Payload, cx: &mut EncodeCx<'_>) {
    payload.events = payload.events.saturating_sub(1);
    match &mut cx.refused {
        Some(refused) => refused.push((row, TOO_MANY_INDEXES)),
        None => cx.counters.dropped(TOO_MANY_INDEXES, 1),
    }
}
