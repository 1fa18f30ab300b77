//! A chunk with the agent's events: metadata, settings, events and pools.

use super::metadata;
use super::pools::Pools;
use super::types;
use crate::event::{Event, Tables};
use crate::schema::{EVENTS, EventKind, EventSpec, FieldKind, Settings, Value};
use millstream_jfr::keys::KEY_BYTES_MAX;
use millstream_jfr::text::TEXT_REFERENCE_BYTES_MAX;
use millstream_jfr::{Chunk, Clock, varint};

/// Maximum size of an event in bytes. The size of an event must fit into a one-byte compressed
/// integer.
const EVENT_BYTES_MAX: usize = 0x7f;

/// A chunk that is being built, with the strings and threads of its events.
pub struct EventChunk {
    chunk: Chunk,
    pools: Pools,
    end_ticks: u64,
}

impl EventChunk {
    /// Creates a chunk without events.
    pub fn new(start_ticks: u64) -> EventChunk {
        let chunk = Chunk::new(&metadata::tree(), start_ticks);
        EventChunk { chunk, pools: Pools::default(), end_ticks: start_ticks }
    }

    /// Returns the maximum size in bytes that the chunk would have if it ended now.
    pub fn bytes_max(&self) -> usize {
        self.chunk.bytes() + self.pools.bytes_max()
    }

    /// Returns the time at which the last event in the chunk ends.
    pub fn end_ticks(&self) -> u64 {
        self.end_ticks
    }

    /// Begins the next chunk.
    pub fn restart(&mut self, start_ticks: u64) {
        self.end_ticks = start_ticks;
        self.pools.clear();
        self.chunk.restart(start_ticks);
    }

    /// Appends one event per setting.
    pub fn push_settings(&mut self, all: &[(EventKind, Settings)]) {
        for (kind, settings) in all {
            for (name, value) in metadata::settings(kind.spec(), settings) {
                self.chunk.push_setting(types::of_event(*kind), name, &value);
            }
        }
    }

    /// Appends an event.
    #[inline]
    pub fn push_event<T: Tables + ?Sized>(&mut self, event: &Event, tables: &T) {
        let spec = event.kind.spec();
        let out = self.chunk.events();
        out.reserve(EVENT_BYTES_MAX);
        let at = out.len();
        out.extend_from_slice(&[0, types::of_event(event.kind).0]);
        varint::push(out, event.start_ticks);
        let mut end_ticks = event.start_ticks;
        if spec.has_duration {
            varint::push(out, event.duration_ticks);
            end_ticks = end_ticks.saturating_add(event.duration_ticks);
        }
        self.end_ticks = self.end_ticks.max(end_ticks);
        self.pools.push_thread(out, event.thread, tables);
        for (field, bits) in spec.fields.iter().zip(event.values) {
            push_value(out, &mut self.pools, Value::from_bits(field.kind, bits), tables);
        }
        out[at] = (out.len() - at) as u8;
    }

    /// Appends the pools and returns the complete chunk.
    pub fn end<T: Tables + ?Sized>(&mut self, clock: &Clock, end_ticks: u64, tables: &T) -> &[u8] {
        self.chunk.end(clock, end_ticks, |out| self.pools.push(out, tables))
    }
}

#[inline]
fn push_value<T: Tables + ?Sized>(out: &mut Vec<u8>, pools: &mut Pools, value: Value, tables: &T) {
    match value {
        Value::Flag(flag) => out.push(u8::from(flag)),
        Value::Float(number) => out.extend_from_slice(&number.to_be_bytes()),
        Value::Text(id) => pools.push_text(out, id, tables),
        Value::Unsigned(_)
        | Value::Count(_)
        | Value::Signed(_)
        | Value::Duration(_)
        | Value::Timestamp(_)
        | Value::Bytes(_) => varint::push(out, value.to_bits()),
    }
}

/// Returns the maximum size in bytes of an event of this type: size, type, start, duration, thread
/// and fields.
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
