//! Reads a chunk that might be growing: its types and pools, and ranges of its events.

use super::chunk_header::{ChunkHeader, HEADER_BYTES};
use super::event::{CHECKPOINT, Event, METADATA};
use super::lookup::Lookup;
use super::pool_index::{POOL_BYTES_MAX, Pools, checkpoint_delta};
use super::types::{METADATA_BYTES_MAX, Types};
use super::{ReadError, error::ChunkError};
use std::collections::HashSet;
use std::ops::{ControlFlow, Range};

/// Maximum size of an event in bytes. Longer events are skipped. The JDK's longest events take
/// about 64 KiB.
pub const EVENT_BYTES_MAX: usize = 256 << 10;

/// Number of bytes to read at once.
const WINDOW_BYTES: usize = 1 << 20;

/// Maximum bytes that an event's size takes.
const SIZE_BYTES_MAX: usize = 9;

/// Maximum number of checkpoint events, which contain pools, in a chunk. The JDK writes one per
/// second.
const CHECKPOINTS_MAX: usize = 1 << 20;

/// A source of a chunk's bytes.
pub trait ReadAt {
    /// Reads bytes, starting at this position in the chunk, and returns their number. The number is
    /// less than the length of the buffer only at the end.
    ///
    /// # Errors
    /// Returns an error if the system cannot read the bytes.
    fn read_at(&self, at: u64, to: &mut [u8]) -> std::io::Result<usize>;
}

impl ReadAt for [u8] {
    fn read_at(&self, at: u64, to: &mut [u8]) -> std::io::Result<usize> {
        let from = usize::try_from(at).ok().and_then(|at| self.get(at..)).unwrap_or_default();
        let bytes = from.len().min(to.len());
        to[..bytes].copy_from_slice(&from[..bytes]);
        Ok(bytes)
    }
}

/// Reads a chunk header. Returns `None` if the header is not complete yet.
///
/// # Errors
/// Returns an error if the bytes are not a chunk header, or cannot be read.
pub fn read_header(from: &(impl ReadAt + ?Sized)) -> Result<Option<ChunkHeader>, ChunkError> {
    let mut bytes = [0; HEADER_BYTES];
    let read = from.read_at(0, &mut bytes)?;
    if read == HEADER_BYTES {
        return Ok(Some(ChunkHeader::read(&bytes)?));
    }
    match b"FLR\0".starts_with(&bytes[..read.min(4)]) {
        true => Ok(None),
        false => Err(ReadError::NotARecording.into()),
    }
}

/// A chunk up to the end of its readable part, as of the last update.
#[derive(Debug)]
pub struct ChunkReader {
    header: ChunkHeader,
    types: Types,
    pools: Pools,
    /// The types whose pool values are kept.
    kept: HashSet<u64>,
    /// Position of the most recent pools that were read.
    pools_at: Option<u64>,
}

impl ChunkReader {
    /// Reads the types and pools of a chunk. Only values of the types with these names, and of the
    /// types that they contain, are kept.
    ///
    /// # Errors
    /// Returns an error if the chunk is invalid, exceeds a limit, or cannot be read.
    pub fn open(
        from: &(impl ReadAt + ?Sized),
        header: &ChunkHeader,
        kept: &[&str],
    ) -> Result<ChunkReader, ChunkError> {
        let metadata = whole(from, header.metadata_at, header.chunk_bytes, METADATA_BYTES_MAX)?;
        let types = Types::read(&metadata)?;
        let kept = kept.iter().filter_map(|name| types.id(name)).collect();
        let (header, pools) = (*header, Pools::default());
        let mut reader = ChunkReader { header, types, pools, kept, pools_at: None };
        reader.add_pools(from)?;
        Ok(reader)
    }

    /// Reads the part that was added since the last update, according to a newer header of the same
    /// chunk. Returns whether the types have changed. If so, the chunk must be opened again.
    ///
    /// # Errors
    /// Returns an error if the new part is invalid, exceeds a limit, or cannot be read.
    pub fn update(
        &mut self,
        from: &(impl ReadAt + ?Sized),
        header: &ChunkHeader,
    ) -> Result<bool, ChunkError> {
        if header.metadata_at != self.header.metadata_at {
            return Ok(true);
        }
        self.header = *header;
        self.add_pools(from)?;
        Ok(false)
    }

    /// Adds the new pools. They form a chain from the most recent back to the first one.
    fn add_pools(&mut self, from: &(impl ReadAt + ?Sized)) -> Result<(), ChunkError> {
        let (mut at, mut new) = (self.header.pools_at, Vec::new());
        while Some(at) > self.pools_at {
            new.push(at);
            let mut head = [0; 64];
            let read = from.read_at(at, &mut head)?;
            let Some(delta) = checkpoint_delta(&head[..read])? else { break };
            at = at.checked_sub(delta).ok_or(ReadError::Invalid("chain of constant pools"))?;
            if new.len() > CHECKPOINTS_MAX {
                return Err(ReadError::TooLarge("number of constant pools").into());
            }
        }
        for index in (0..new.len()).rev() {
            // Checkpoint events do not overlap, so together they are at most as long as the chunk.
            let end = index.checked_sub(1).map_or(self.header.chunk_bytes, |later| new[later]);
            let event = whole(from, new[index], end, POOL_BYTES_MAX)?;
            self.pools.add(&self.types, &event, |id| self.kept.contains(&id))?;
        }
        self.pools_at = Some(self.header.pools_at);
        Ok(())
    }

    /// Returns the header as of the last update.
    pub fn header(&self) -> &ChunkHeader {
        &self.header
    }

    /// Returns the memory that the types and pools take, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.types.bytes() + self.pools.bytes()
    }

    /// Returns the types and pools.
    pub fn lookup(&self) -> Lookup<'_> {
        Lookup { types: &self.types, pools: &self.pools }
    }

    /// Calls `each` with each event in a range and the event's position, until `each` breaks. Skips
    /// metadata events, checkpoint events, and events longer than [`EVENT_BYTES_MAX`]. Returns the
    /// start of the next event. The range must start at an event.
    ///
    /// # Errors
    /// Returns an error and its position if an event is invalid or extends past the end of the
    /// chunk, or if the bytes of the chunk are missing or cannot be read.
    pub fn events(
        &self,
        from: &(impl ReadAt + ?Sized),
        range: Range<u64>,
        window: &mut Vec<u8>,
        mut each: impl FnMut(u64, &Event<'_>) -> ControlFlow<()>,
    ) -> Result<u64, (u64, ChunkError)> {
        let end = range.end.min(self.header.chunk_bytes);
        let mut at = range.start.max(HEADER_BYTES as u64);
        window.resize(WINDOW_BYTES, 0);
        while at < end {
            let wanted = window.len().min((self.header.chunk_bytes - at) as usize);
            let read =
                from.read_at(at, &mut window[..wanted]).map_err(|error| (at, error.into()))?;
            if read < wanted {
                return Err((at + read as u64, ReadError::Truncated.into()));
            }
            let (next, flow) = self.window(at, end, &window[..read], &mut each)?;
            if flow.is_break() || next == at {
                return Ok(next);
            }
            at = next;
        }
        Ok(at)
    }

    /// Passes the complete events in a window to `each`. Returns the start of the next event.
    fn window(
        &self,
        window_at: u64,
        end: u64,
        window: &[u8],
        each: &mut impl FnMut(u64, &Event<'_>) -> ControlFlow<()>,
    ) -> Result<(u64, ControlFlow<()>), (u64, ChunkError)> {
        let mut rest = window;
        loop {
            let at = window_at + (window.len() - rest.len()) as u64;
            if at >= end {
                return Ok((at, ControlFlow::Continue(())));
            }
            let event = Event::read(rest).map_err(|error| (at, error.into()))?;
            let Some(event) = event else { return self.cut(at, rest.len()) };
            let next = at.checked_add(event.bytes as u64);
            let Some(next) = next.filter(|next| *next <= self.header.chunk_bytes) else {
                return Err((at, ReadError::Invalid("size of an event").into()));
            };
            let is_skipped =
                matches!(event.type_id, METADATA | CHECKPOINT) || event.bytes > EVENT_BYTES_MAX;
            if !is_skipped && !event.is_whole(rest) {
                return Ok((at, ControlFlow::Continue(())));
            }
            let flow = if is_skipped { ControlFlow::Continue(()) } else { each(at, &event) };
            if flow.is_break() || next >= window_at + window.len() as u64 {
                return Ok((next, flow));
            }
            rest = &rest[event.bytes..];
        }
    }

    /// Handles a window that ends inside the head of an event. Returns an error if more bytes
    /// cannot complete the head.
    fn cut(&self, at: u64, bytes: usize) -> Result<(u64, ControlFlow<()>), (u64, ChunkError)> {
        match at + bytes as u64 >= self.header.chunk_bytes || bytes > 2 * SIZE_BYTES_MAX {
            true => Err((at, ReadError::Truncated.into())),
            false => Ok((at, ControlFlow::Continue(()))),
        }
    }
}

/// Reads a whole event with up to `bytes_max` bytes. The event must not extend past `end`.
fn whole(
    from: &(impl ReadAt + ?Sized),
    at: u64,
    end: u64,
    bytes_max: usize,
) -> Result<Vec<u8>, ChunkError> {
    let mut head = [0; 2 * SIZE_BYTES_MAX];
    let read = from.read_at(at, &mut head)?;
    let event = Event::read(&head[..read])?.ok_or(ReadError::Truncated)?;
    if event.bytes as u64 > end.saturating_sub(at) {
        return Err(ReadError::Invalid("size of constant pools or metadata").into());
    }
    if event.bytes > bytes_max {
        return Err(ReadError::TooLarge("constant pools or metadata").into());
    }
    // Allocate memory only for bytes that the file actually contains.
    let mut bytes = Vec::new();
    while bytes.len() < event.bytes {
        let begun = bytes.len();
        bytes.resize(event.bytes.min(begun + WINDOW_BYTES), 0);
        let read = from.read_at(at + begun as u64, &mut bytes[begun..])?;
        if begun + read < bytes.len() {
            return Err(ReadError::Truncated.into());
        }
    }
    Ok(bytes)
}
