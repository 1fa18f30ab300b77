//! A chunk that is built in memory: header, metadata, settings, events and pools.

use crate::Clock;
use crate::elements::Element;
use crate::header::{HEADER_BYTES, Header};
use crate::metadata::{TypeId, types};
use crate::{text, varint};

/// Size in bytes at which a writer should end a chunk. The limit bounds a writer's memory. Each
/// chunk repeats 7 kB of declarations, and the pool entries of its events.
pub const CHUNK_BYTES_MAX: usize = 8 << 20;

/// Version of the metadata. It is the same in all chunks of a file.
const METADATA_VERSION: u64 = 1;

/// A chunk that is being built.
#[derive(Debug)]
pub struct Chunk {
    bytes: Vec<u8>,
    /// The type declarations, which each chunk repeats.
    declarations: Vec<u8>,
    start_ticks: u64,
}

impl Chunk {
    /// Creates a chunk without events. `tree` contains the type declarations.
    pub fn new(tree: &Element, start_ticks: u64) -> Chunk {
        let mut declarations = Vec::new();
        tree.push(&mut declarations);
        let mut chunk = Chunk { bytes: Vec::new(), declarations, start_ticks };
        chunk.restart(start_ticks);
        chunk
    }

    /// Returns the size of the chunk so far, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the start of the chunk in ticks.
    pub fn start_ticks(&self) -> u64 {
        self.start_ticks
    }

    /// Begins the next chunk.
    pub fn restart(&mut self, start_ticks: u64) {
        self.start_ticks = start_ticks;
        self.bytes.clear();
        self.bytes.resize(HEADER_BYTES, 0);
        let at = varint::push_size(&mut self.bytes);
        varint::push(&mut self.bytes, u64::from(types::METADATA.0));
        varint::push(&mut self.bytes, start_ticks);
        varint::push(&mut self.bytes, 0);
        varint::push(&mut self.bytes, METADATA_VERSION);
        self.bytes.extend_from_slice(&self.declarations);
        varint::put_size(&mut self.bytes, at);
    }

    /// Appends a `jdk.ActiveSetting` event, which contains the value of an event type's setting.
    pub fn push_setting(&mut self, event: TypeId, name: &str, value: &str) {
        let at = varint::push_size(&mut self.bytes);
        varint::push(&mut self.bytes, u64::from(types::ACTIVE_SETTING.0));
        varint::push(&mut self.bytes, self.start_ticks);
        varint::push(&mut self.bytes, u64::from(event.0));
        text::push(&mut self.bytes, name);
        text::push(&mut self.bytes, value);
        varint::put_size(&mut self.bytes, at);
    }

    /// Returns the buffer to which whole events are appended.
    #[inline]
    pub fn events(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends the number of pools and the pools. Returns the complete chunk.
    pub fn end(
        &mut self,
        clock: &Clock,
        end_ticks: u64,
        push_pools: impl FnOnce(&mut Vec<u8>),
    ) -> &[u8] {
        let pools_at = self.bytes.len();
        self.push_checkpoint(push_pools);
        let header = Header {
            chunk_bytes: self.bytes.len() as u64,
            pools_at: pools_at as u64,
            start_unix_ns: clock.unix_ns(self.start_ticks),
            duration_ns: clock.ns(end_ticks - self.start_ticks),
            start_ticks: self.start_ticks,
            ticks_per_second: clock.ticks_per_second,
        };
        self.bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        &self.bytes
    }

    fn push_checkpoint(&mut self, push_pools: impl FnOnce(&mut Vec<u8>)) {
        let at = varint::push_size(&mut self.bytes);
        varint::push(&mut self.bytes, u64::from(types::CHECKPOINT.0));
        varint::push(&mut self.bytes, self.start_ticks);
        // The duration, the offset of earlier pools, and the checkpoint type are 0.
        self.bytes.extend_from_slice(&[0, 0, 0]);
        push_pools(&mut self.bytes);
        varint::put_size(&mut self.bytes, at);
    }
}
