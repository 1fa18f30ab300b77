//! Codecs: `text` (the raw line), `json` (one object per line), `raw_json` (a line that is already
//! an object, with added members), `msgpack` (blocks of metrics), `bulk` (actions and documents).
//! The crate also contains templates for names, and formats numbers and times as text.
//!
//! A separate crate because it cuts a dependency: encoders can be built, tested and have their
//! instructions counted without librdkafka, TLS or a JVM.

#![forbid(unsafe_code)]

pub mod bulk;
pub mod formats;
mod json;
pub mod metric_record;
pub mod metric_view;
pub mod msgpack;
mod raw_json;
pub mod seed;
pub mod template;
mod text;
mod times;

use millstream_model::limits::BATCH_ROWS_MAX;
use millstream_model::{
    Batch, Column, ComponentError, EncodeCx, Encoder, OptionError, PARTIAL, Payload, STREAM,
    Segment,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// How events are encoded.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Encoding {
    /// `json`: one JSON object per line; `raw_json`: the line itself if it is a JSON object, with
    /// members added; `text`: the line unchanged; `msgpack`: metrics in blocks.
    pub codec: Codec,
    /// Format of the time of a JSON event.
    pub timestamp: TimestampFormat,
    /// Metadata of a JSON event.
    pub metadata: Vec<Metadata>,
    /// Key of the object with the metadata; `''` puts it at the top level.
    pub metadata_key: String,
    /// Key of the time; a sink may have an option for it.
    #[serde(skip, default = "timestamp_key")]
    #[schemars(skip)]
    pub timestamp_key: String,
}

/// Default key of the time.
pub const TIMESTAMP_KEY: &str = "timestamp";

fn timestamp_key() -> String {
    TIMESTAMP_KEY.to_owned()
}

/// Default key of the object with the metadata.
pub const METADATA_KEY: &str = "meta";

/// A codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Codec {
    /// One JSON object per line.
    Json,
    /// A line that is a JSON object, unparsed, with the members that `json` adds, except for
    /// `message`. Any other line is encoded as with `json`.
    RawJson,
    /// The line as it was read, byte for byte.
    Text,
    /// Metrics in blocks. Each block is a part of the payload: a record, or a piece of a body.
    Msgpack,
}

/// Format of the time of a JSON event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimestampFormat {
    /// Text with milliseconds, as in `2026-11-21T20:29:46.123Z`.
    #[default]
    Rfc3339,
    /// Text with nanoseconds, as in `2026-11-21T20:29:46.123456789Z`.
    Rfc3339Nano,
    /// Whole seconds since 1970, as a number.
    Unix,
    /// Whole milliseconds since 1970, as a number.
    UnixMs,
}

/// A metadata item of a JSON event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Metadata {
    /// Name of the host.
    Host,
    /// Id of the source.
    Source,
    /// Path of the file, as first seen.
    File,
    /// Offset of the line's first byte.
    Offset,
    /// Unique id of the event: file id and offset. A repeated event has the same id.
    Id,
    /// Time when the line was read.
    Collected,
    /// Offset of the previous line, if it is in the same batch.
    PreviousOffset,
    /// Random id of the file, stable across renames and restarts.
    FileId,
    /// Whether the line was truncated at `max_line`.
    Truncated,
    /// Container stream that the event was written to.
    Stream,
    /// Whether the end of a container event is missing.
    Partial,
}

impl Codec {
    /// Returns whether each event is a JSON object on one line.
    pub fn is_json(self) -> bool {
        matches!(self, Codec::Json | Codec::RawJson)
    }
}

impl Metadata {
    /// Returns the item's key in an event.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the metadata column for the item, if any.
    pub fn column(self, batch: &Batch) -> Option<&Column> {
        match self {
            Metadata::Stream => batch.metadata(STREAM),
            Metadata::Partial => batch.metadata(PARTIAL),
            _ => None,
        }
    }

    /// Returns whether the item has a value for events in this segment.
    fn is_known(self, batch: &Batch, segment: &Segment) -> bool {
        match self {
            Metadata::File => !segment.origin.name.is_empty(),
            Metadata::Stream | Metadata::Partial => self.column(batch).is_some(),
            _ => true,
        }
    }
}

impl Default for Encoding {
    fn default() -> Self {
        use Metadata::{File, Host, Id, Offset, Source, Stream};
        let metadata = vec![Host, Source, File, Offset, Id, Stream];
        Encoding {
            codec: Codec::Json,
            timestamp: TimestampFormat::default(),
            metadata,
            metadata_key: METADATA_KEY.to_owned(),
            timestamp_key: timestamp_key(),
        }
    }
}

/// Estimated bytes that JSON adds to a line: the time, metadata with a path of typical length, and
/// attributes.
const JSON_ROW_BYTES: u64 = 320;

impl Encoding {
    /// Returns the errors in the options of a component that has these options under the key
    /// `encoding`.
    pub fn check(&self) -> Vec<OptionError> {
        if self.metadata_key == "message" || self.metadata_key == self.timestamp_key {
            let message = format!(
                "`{}` is reserved because every event contains this key; use another name",
                self.metadata_key
            );
            return vec![OptionError::new("/encoding/metadata_key", message)];
        }
        Vec::new()
    }

    /// Returns the same errors as `check`, and an error if the codec does not produce lines.
    pub fn check_lines(&self) -> Vec<OptionError> {
        let message =
            "`msgpack` does not produce lines; use `json` or `text`, or a sink that sends blocks";
        let error =
            (self.codec == Codec::Msgpack).then(|| OptionError::new("/encoding/codec", message));
        self.check().into_iter().chain(error).collect()
    }

    /// Creates an encoder. With `msgpack`, each part of the payload is one block; with any other
    /// codec, it consists of complete lines.
    pub fn encoder(&self) -> Box<dyn Encoder> {
        match self.codec {
            Codec::Json => Box::new(json::JsonEncoder::new(self)),
            Codec::RawJson => Box::new(raw_json::RawJsonEncoder::new(self)),
            Codec::Text => Box::new(text::TextEncoder),
            Codec::Msgpack => Box::new(msgpack::MetricBlocks::new(self)),
        }
    }

    /// Returns the expected maximum size of an encoded batch. Text with many escapes can exceed it;
    /// the excess becomes a debt of the memory grant, which is repaid before the next read.
    pub fn payload_bytes_max(&self, block_bytes: u64, rows: u64) -> u64 {
        match self.codec {
            Codec::Json => block_bytes * 3 / 2 + rows.min(BATCH_ROWS_MAX as u64) * JSON_ROW_BYTES,
            // Each line may be encoded together with its added members.
            Codec::RawJson => {
                block_bytes * 2 + rows.min(BATCH_ROWS_MAX as u64) * 2 * JSON_ROW_BYTES
            }
            Codec::Text => block_bytes + rows,
            Codec::Msgpack => {
                block_bytes * 3 / 2 + rows.min(BATCH_ROWS_MAX as u64) * msgpack::ROW_BYTES
            }
        }
    }
}

/// An encoder that counts events but encodes nothing, for sinks that discard data.
pub struct CountingEncoder;

impl Encoder for CountingEncoder {
    fn encode(
        &mut self,
        batch: &Batch,
        _: &mut Payload,
        cx: &mut EncodeCx<'_>,
    ) -> Result<(), ComponentError> {
        cx.counters.sent(batch.events() as u64, batch.text_bytes());
        Ok(())
    }
}
