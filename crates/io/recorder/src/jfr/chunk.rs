//! A chunk in memory: space for the header, metadata, settings, events and pools.

use super::header::{HEADER_BYTES, Header};
use super::metadata;
use super::pools::{KEY_BYTES_MAX, Pools, TEXT_REFERENCE_BYTES_MAX, push_text};
use super::types::{self, CHECKPOINT, METADATA};
use super::varint;
use crate::event::{Event, Tables};
use crate::schema::{EVENTS, EventKind, EventSpec, FieldKind, Settings, Value};

/// Version of the metadata, which is the same in all chunks of a file.
const METADATA_VERSION: u64 = 1;

/// Most bytes of an event. Its size is a compressed integer of one byte.
const EVENT_BYTES_MAX: usize = 0x7f;

/// A chunk that is being built.
pub struct Chunk {
    bytes: Vec<u8>,
    /// The declarations that each chunk repeats.
    declarations: Vec<u8>,
    pools: Pools,
    start_ticks: u64,
    end_ticks: u64,
}

impl Chunk {
    /// Returns a chunk without events.
    pub fn new(start_ticks: u64) -> Chunk {
        let mut declarations = Vec::new();
        metadata::tree().push(&mut declarations);
        let mut chunk = Chunk {
            bytes: Vec::new(),
            declarations,
            pools: Pools::default(),
            start_ticks,
            end_ticks: start_ticks,
        };
        chunk.restart(start_ticks);
        chunk
    }

    /// Returns the number of bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the most bytes that it would have if it ended now.
    pub fn bytes_max(&self) -> usize {
        self.bytes.len() + self.pools.bytes_max()
    }

    /// Returns when the chunk begins.
    pub fn start_ticks(&self) -> u64 {
        self.start_ticks
    }

    /// Returns when the chunk and all of its events have ended.
    pub fn end_ticks(&self) -> u64 {
        self.end_ticks
    }

    /// Begins the next chunk.
    pub fn restart(&mut self, start_ticks: u64) {
        self.start_ticks = start_ticks;
        self.end_ticks = start_ticks;
        self.pools.clear();
        self.bytes.clear();
        self.bytes.resize(HEADER_BYTES, 0);
        let at = varint::push_size(&mut self.bytes);
        varint::push(&mut self.bytes, u64::from(METADATA.0));
        varint::push(&mut self.bytes, start_ticks);
        varint::push(&mut self.bytes, 0);
        varint::push(&mut self.bytes, METADATA_VERSION);
        self.bytes.extend_from_slice(&self.declarations);
        varint::put_size(&mut self.bytes, at);
    }

    /// Appends an event for each setting.
    pub fn push_settings(&mut self, all: &[(EventKind, Settings)]) {
        for (kind, settings) in all {
            for (name, value) in metadata::settings(kind.spec(), settings) {
                self.push_setting(*kind, name, &value);
            }
        }
    }

    fn push_setting(&mut self, kind: EventKind, name: &str, value: &str) {
        let at = varint::push_size(&mut self.bytes);
        varint::push(&mut self.bytes, u64::from(types::ACTIVE_SETTING.0));
        varint::push(&mut self.bytes, self.start_ticks);
        varint::push(&mut self.bytes, u64::from(types::of_event(kind).0));
        push_text(&mut self.bytes, name);
        push_text(&mut self.bytes, value);
        varint::put_size(&mut self.bytes, at);
    }

    /// Appends an event.
    #[inline]
    pub fn push_event<T: Tables + ?Sized>(&mut self, event: &Event, tables: &T) {
        let spec = event.kind.spec();
        self.bytes.reserve(EVENT_BYTES_MAX);
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0, types::of_event(event.kind).0]);
        varint::push(&mut self.bytes, event.start_ticks);
        let mut end_ticks = event.start_ticks;
        if spec.has_duration {
            varint::push(&mut self.bytes, event.duration_ticks);
            end_ticks = end_ticks.saturating_add(event.duration_ticks);
        }
        self.end_ticks = self.end_ticks.max(end_ticks);
        self.pools.push_thread(&mut self.bytes, event.thread, tables);
        for (field, bits) in spec.fields.iter().zip(event.values) {
            self.push_value(Value::from_bits(field.kind, bits), tables);
        }
        self.bytes[at] = (self.bytes.len() - at) as u8;
    }

    #[inline]
    fn push_value<T: Tables + ?Sized>(&mut self, value: Value, tables: &T) {
        match value {
            Value::Flag(flag) => self.bytes.push(u8::from(flag)),
            Value::Float(number) => self.bytes.extend_from_slice(&number.to_be_bytes()),
            Value::Text(id) => self.pools.push_text(&mut self.bytes, id, tables),
            Value::Unsigned(_)
            | Value::Count(_)
            | Value::Signed(_)
            | Value::Duration(_)
            | Value::Timestamp(_)
            | Value::Bytes(_) => varint::push(&mut self.bytes, value.to_bits()),
        }
    }

    /// Appends what the events refer to.
    pub fn push_pools<T: Tables + ?Sized>(&mut self, tables: &T) {
        let at = varint::push_size(&mut self.bytes);
        varint::push(&mut self.bytes, u64::from(CHECKPOINT.0));
        varint::push(&mut self.bytes, self.start_ticks);
        // No duration, no earlier pools in this chunk, and a checkpoint of no special type.
        self.bytes.extend_from_slice(&[0, 0, 0]);
        self.pools.push(&mut self.bytes, tables);
        varint::put_size(&mut self.bytes, at);
    }

    /// Returns the chunk with its header.
    pub fn with_header(&mut self, header: &Header) -> &[u8] {
        self.bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        &self.bytes
    }
}

/// Most bytes of an event of a type: size, type, start, duration, thread, fields.
const fn bytes_max(spec: &EventSpec) -> usize {
    let mut bytes = 1 + 1 + 2 * varint::BYTES_MAX + KEY_BYTES_MAX;
    let mut index = 0;
    while index < spec.fields.len() {
        bytes += match spec.fields[index].kind {
            FieldKind::Flag => 1,
            FieldKind::Text => TEXT_REFERENCE_BYTES_MAX,
            FieldKind::Float => size_of::<f64>(),
            _ => varint::BYTES_MAX,
        };
        index += 1;
    }
    bytes
}

const _: () = {
    let mut number = 0;
    while number < EVENTS.len() {
        assert!(bytes_max(&EVENTS[number]) <= EVENT_BYTES_MAX);
        number += 1;
    }
};
