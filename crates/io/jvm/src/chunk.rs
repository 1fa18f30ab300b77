//! A chunk: consecutive events that a collector passes to the agent. Each chunk is checked once.
//!
//! An event consists of a header of 16 bytes, its message and its members. The header contains
//! three fields: the time in nanoseconds since 1970, or `i64::MIN` if the event has no time; the
//! length of the message; and the length of the members. All are little-endian and unaligned.
//! `ChunkLayout.java` defines the same numbers.

use crate::content::is_members;

/// Offset of the message length in a header.
const MESSAGE_BYTES: usize = 8;

/// Offset of the members' length in a header.
const MEMBERS_BYTES: usize = 12;

/// Length of a header.
const HEADER_BYTES: usize = 16;

/// Maximum length of a message, and of members, in bytes. A few such strings per collector are not
/// counted by the memory grant: the strings in the collector's queue, and the string that waits for
/// space in the queue.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// Maximum length of a chunk in bytes. A collector sends a chunk when it reaches 256 KiB, and the
/// last event may have any valid length.
const CHUNK_BYTES_MAX: usize = 2 * TEXT_BYTES_MAX + (256 << 10) + HEADER_BYTES;

/// Consecutive events from one collector. All text is valid UTF-8, and all members are valid JSON.
#[derive(Debug, PartialEq, Eq)]
pub struct Chunk {
    bytes: Vec<u8>,
    events: usize,
}

/// An event in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectedEvent<'a> {
    /// Time in nanoseconds since 1970, or [`crate::TIME_UNKNOWN`].
    pub time_ns: i64,
    /// Message of the event.
    pub message: &'a [u8],
    /// Fields of the event, as the members of a JSON object without the braces.
    pub members: &'a [u8],
}

/// The reason why a chunk is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidChunk {
    /// An event extends beyond the end of the chunk.
    #[error("an event does not end in the chunk")]
    Cut,
    /// The number of events differs from the announced number.
    #[error("the number of events differs")]
    Events,
    /// The chunk, a message or the members of an event are too long.
    #[error("the chunk is too long")]
    TooLong,
    /// A message is not UTF-8.
    #[error("a message is not UTF-8")]
    Message,
    /// The members of an event are not valid members of a JSON object.
    #[error("the fields of an event are not JSON")]
    Members,
}

impl Chunk {
    /// Checks the bytes of a chunk that is supposed to contain this number of events.
    pub fn new(bytes: Vec<u8>, events: i64) -> Result<Chunk, InvalidChunk> {
        if bytes.len() > CHUNK_BYTES_MAX {
            return Err(InvalidChunk::TooLong);
        }
        let mut object = Vec::new();
        let (mut at, mut found) = (0, 0);
        while at < bytes.len() {
            let (event, next) = parse(&bytes, at).ok_or(InvalidChunk::Cut)?;
            check(&event, &mut object)?;
            (at, found) = (next, found + 1);
        }
        let is_right = events == found as i64;
        is_right.then_some(Chunk { bytes, events: found }).ok_or(InvalidChunk::Events)
    }

    /// Returns the number of events.
    pub fn events(&self) -> usize {
        self.events
    }

    /// Returns the number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the event at an offset, and the offset of the next event; `None` at the end. The
    /// first event is at offset 0.
    pub fn event_at(&self, offset: usize) -> Option<(CollectedEvent<'_>, usize)> {
        parse(&self.bytes, offset)
    }
}

fn check(event: &CollectedEvent<'_>, object: &mut Vec<u8>) -> Result<(), InvalidChunk> {
    if event.message.len() > TEXT_BYTES_MAX || event.members.len() > TEXT_BYTES_MAX {
        return Err(InvalidChunk::TooLong);
    }
    str::from_utf8(event.message).map_err(|_| InvalidChunk::Message)?;
    let is_right = event.members.is_empty() || is_members(event.members, object);
    is_right.then_some(()).ok_or(InvalidChunk::Members)
}

fn parse(bytes: &[u8], at: usize) -> Option<(CollectedEvent<'_>, usize)> {
    let rest = bytes.get(at..)?;
    let (header, texts) = rest.split_first_chunk::<HEADER_BYTES>()?;
    let (time, lengths) = header.split_first_chunk()?;
    let length = |at: usize| {
        let bytes = lengths.get(at - MESSAGE_BYTES..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes) as usize)
    };
    let (message, others) = texts.split_at_checked(length(MESSAGE_BYTES)?)?;
    let (members, rest) = others.split_at_checked(length(MEMBERS_BYTES)?)?;
    let time_ns = i64::from_le_bytes(*time);
    Some((CollectedEvent { time_ns, message, members }, bytes.len() - rest.len()))
}

#[cfg(test)]
mod tests;
