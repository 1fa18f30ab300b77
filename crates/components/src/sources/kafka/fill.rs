//! Copies records into a block.

use super::config::{IdSource, KafkaConfig, RecordPart, Tombstones};
use super::ids;
use super::partition::Partition;
use millstream_kafka::FetchedRecord;
use millstream_model::{
    Ack, BatchBuilder, Block, Cell, CellKind as Kind, Column, Columns, Permit, Polled, SinkSet,
    SourceCx, TIME_UNKNOWN,
};
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

/// How records are converted to events.
pub struct Layout {
    /// The fields, by name.
    fields: Vec<(Arc<str>, RecordPart)>,
    id: IdSource,
    id_header: Vec<u8>,
    tombstones: Tombstones,
}

impl Layout {
    /// Compiles the options.
    pub fn new(config: &KafkaConfig) -> Layout {
        let field = |(name, part): (&String, &RecordPart)| (name.as_str().into(), part.clone());
        Layout {
            fields: config.fields.iter().map(field).collect(),
            id: config.id,
            id_header: config.id_header.clone().into_bytes(),
            tombstones: config.tombstones,
        }
    }

    /// Returns the text of the event; `None` if the record is dropped.
    pub fn text<'a>(&self, record: FetchedRecord<'a>) -> Option<&'a [u8]> {
        match (record.value(), self.tombstones) {
            (Some(value), _) => Some(value),
            (None, Tombstones::Keep) => Some(b""),
            (None, Tombstones::Drop) => None,
        }
    }
}

/// The additional data of an event: id and fields.
#[derive(Default)]
pub struct Extras {
    /// The bytes of id and fields.
    bytes: Vec<u8>,
    /// Length of the id; 0 if there is no id.
    id_len: usize,
    /// Kind and length of each field.
    fields: Vec<(Kind, usize)>,
}

impl Extras {
    /// Collects the id and the fields of a record.
    pub fn collect(&mut self, layout: &Layout, record: FetchedRecord<'_>, text: &[u8]) {
        self.bytes.clear();
        self.fields.clear();
        self.id_len = 0;
        if let Some(id) = id(layout, record, text) {
            self.bytes.extend_from_slice(id);
            self.id_len = id.len();
        }
        for (_, part) in &layout.fields {
            let before = self.bytes.len();
            let kind = push(&mut self.bytes, record, part);
            self.fields.push((kind, self.bytes.len() - before));
        }
    }

    fn len(&self) -> usize {
        self.bytes.len()
    }
}

#[inline]
fn id<'a>(layout: &Layout, record: FetchedRecord<'a>, text: &'a [u8]) -> Option<&'a [u8]> {
    let of_header = || header(record, &layout.id_header).and_then(ids::of_header);
    match layout.id {
        IdSource::Auto => of_header().or_else(|| ids::of_metadata(text)),
        IdSource::Header => of_header(),
        IdSource::Field => ids::of_metadata(text),
        IdSource::Offset => None,
    }
}

/// Returns the value of the last header with this name.
fn header<'a>(record: FetchedRecord<'a>, name: &[u8]) -> Option<&'a [u8]> {
    let mut found = None;
    record.headers(|key, value| {
        if key == name {
            found = value;
        }
        true
    });
    found
}

/// Appends a part of a record, and returns its kind.
fn push(bytes: &mut Vec<u8>, record: FetchedRecord<'_>, part: &RecordPart) -> Kind {
    let text = match part {
        RecordPart::Topic => Some(record.topic().as_bytes()),
        RecordPart::Key => record.key(),
        RecordPart::Header(name) => header(record, name.as_bytes()),
        RecordPart::Timestamp => {
            let Some(time) = record.timestamp() else { return Kind::Absent };
            millstream_timestamps::push_rfc3339(bytes, time.0.saturating_mul(1_000_000));
            return Kind::Time;
        }
        RecordPart::Partition | RecordPart::Offset => {
            let is_offset = *part == RecordPart::Offset;
            let number = if is_offset { record.offset() } else { record.partition() as u64 };
            // Writing to memory does not fail.
            let _ = write!(bytes, "{number}");
            return Kind::Int;
        }
    };
    text.map_or(Kind::Absent, |text| {
        bytes.extend_from_slice(text);
        Kind::Text
    })
}

/// A block that is being filled.
pub struct Fill {
    block: Block,
    permit: Permit,
    /// The sinks that receive the records.
    pub sinks: SinkSet,
    builder: BatchBuilder,
    used: usize,
    /// Number of records and bytes that are in segments.
    closed: (usize, usize),
    /// Number of bytes in the last segment.
    last_bytes: u64,
    /// Newest record time since the last segment.
    newest: i64,
    columns: Vec<Vec<Cell>>,
}

impl Fill {
    /// Takes a block for at least `bytes`; returns `None` if no memory is available.
    pub fn new(cx: &SourceCx<'_>, bytes: usize, sinks: SinkSet, layout: &Layout) -> Option<Fill> {
        let (block, permit) = cx.block(bytes)?;
        let columns = layout.fields.iter().map(|_| Vec::new()).collect();
        Some(Fill {
            block,
            permit,
            sinks,
            builder: BatchBuilder::default(),
            used: 0,
            closed: (0, 0),
            last_bytes: 0,
            newest: TIME_UNKNOWN,
            columns,
        })
    }

    /// Returns the number of bytes that a record needs.
    pub fn need(text: &[u8], extras: &Extras) -> usize {
        text.len() + extras.len()
    }

    /// Returns the number of records.
    pub fn rows(&self) -> usize {
        self.builder.rows()
    }

    /// Returns whether another record of `bytes` fits.
    #[inline]
    pub fn fits(&self, bytes: usize) -> bool {
        self.used + bytes <= self.block.capacity() && !self.builder.is_full()
    }

    /// Adds a record, which must fit.
    #[inline]
    pub fn push(&mut self, record: FetchedRecord<'_>, text: &[u8], extras: &Extras) {
        let start = self.used;
        let end = start + text.len();
        let memory = self.block.memory();
        memory[start..end].copy_from_slice(text);
        memory[end..end + extras.len()].copy_from_slice(&extras.bytes);
        self.used = end + extras.len();
        self.builder.row_at(text, start, record.offset());
        let time = record.timestamp().map_or(TIME_UNKNOWN, |at| at.0.saturating_mul(1_000_000));
        self.newest = self.newest.max(time);
        self.builder.time(time);
        if extras.id_len > 0 {
            self.builder.id(end, extras.id_len);
        }
        let mut at = end + extras.id_len;
        for (column, (kind, len)) in self.columns.iter_mut().zip(&extras.fields) {
            let is_present = *kind != Kind::Absent;
            column.push(if is_present { Cell::new(*kind, at, *len) } else { Cell::ABSENT });
            at += len;
        }
    }

    /// Closes the current segment, which contains the records since the previous segment.
    pub fn segment(&mut self, partition: &Partition, range: Range<u64>, ack: Ack) {
        partition.origin.state.record_times(range, &[self.newest]);
        self.newest = TIME_UNKNOWN;
        self.builder.segment(partition.origin.clone(), 0, ack);
        self.last_bytes = (self.used - self.closed.1) as u64;
        self.closed = (self.rows(), self.used);
    }

    /// Returns whether records were added since the last segment was closed.
    pub fn has_open_rows(&self) -> bool {
        self.rows() > self.closed.0
    }

    /// Returns the number of bytes in the last segment.
    pub fn last_bytes(&self) -> u64 {
        self.last_bytes
    }

    /// Builds the batch.
    pub fn finish(self, cx: &SourceCx<'_>, layout: &Layout) -> Polled {
        let Fill { block, permit, sinks, builder, used, columns, .. } = self;
        let now = cx.now.unix_ns;
        let mut batch = builder.finish(block.freeze(used), cx.info.clone(), sinks, now);
        let mut fields = Columns::default();
        for ((name, _), cells) in layout.fields.iter().zip(columns) {
            fields.set(Column::new(name.clone(), cells, bytes::Bytes::new()));
        }
        batch.fields = fields;
        cx.counters.received(batch.rows() as u64, used as u64);
        cx.counters.sent(batch.rows() as u64, batch.text_bytes());
        Polled::Batch(Box::new(batch), permit)
    }
}
