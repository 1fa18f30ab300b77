//! The header of a chunk that might still be growing.

use super::ReadError;
use crate::Clock;
use std::num::NonZeroU64;

/// Number of bytes in the header.
pub const HEADER_BYTES: usize = 68;

/// The supported major version.
const MAJOR: u16 = 2;

/// Value of the byte that counts header updates, while the header is being written.
const UPDATING: u8 = 255;

/// Value of the same byte when the chunk is complete.
const COMPLETE: u8 = 0;

/// Flag that indicates compressed integers.
const COMPRESSED_INTEGERS: u8 = 1;

/// Whether a chunk is complete, growing, or being updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkState {
    /// Nothing will be added to the chunk.
    Complete,
    /// The chunk is growing. The size in its header is the readable part.
    Growing,
    /// The header is being written and must be reread.
    Updating,
}

/// The values in a chunk header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// Readable bytes of the chunk, including the header, or 0 before the first flush.
    pub chunk_bytes: u64,
    /// Position of the most recent constant pools within the chunk.
    pub pools_at: u64,
    /// Position of the metadata within the chunk.
    pub metadata_at: u64,
    /// Start of the chunk in nanoseconds since 1970.
    pub start_unix_ns: u64,
    /// Start of the chunk in ticks.
    pub start_ticks: u64,
    /// Frequency of the clock that counts ticks.
    pub ticks_per_second: NonZeroU64,
    /// Whether the chunk is complete, growing, or being updated.
    pub state: ChunkState,
}

impl ChunkHeader {
    /// Reads a header.
    ///
    /// # Errors
    /// Returns an error if the bytes are not a chunk header in a supported version of the format.
    pub fn read(bytes: &[u8; HEADER_BYTES]) -> Result<ChunkHeader, ReadError> {
        if !bytes.starts_with(b"FLR\0") {
            return Err(ReadError::NotARecording);
        }
        let [major, minor] = [4, 6].map(|at| u16::from_be_bytes([bytes[at], bytes[at + 1]]));
        if major != MAJOR {
            return Err(ReadError::Version { major, minor });
        }
        if bytes[67] & COMPRESSED_INTEGERS == 0 {
            return Err(ReadError::Uncompressed);
        }
        let ticks_per_second = NonZeroU64::new(number(bytes, 56))
            .ok_or(ReadError::Invalid("number of ticks in a second"))?;
        let header = ChunkHeader {
            chunk_bytes: number(bytes, 8),
            pools_at: number(bytes, 16),
            metadata_at: number(bytes, 24),
            start_unix_ns: number(bytes, 32),
            start_ticks: number(bytes, 48),
            ticks_per_second,
            state: match bytes[64] {
                COMPLETE => ChunkState::Complete,
                UPDATING => ChunkState::Updating,
                _ => ChunkState::Growing,
            },
        };
        header.readable().check()
    }

    /// Sets the size to 0 if nothing was flushed yet.
    fn readable(self) -> ChunkHeader {
        let has_positions = self.metadata_at != 0 && self.pools_at != 0;
        let is_begun = self.state == ChunkState::Growing && !has_positions;
        ChunkHeader { chunk_bytes: if is_begun { 0 } else { self.chunk_bytes }, ..self }
    }

    /// Checks that the positions are within the chunk.
    fn check(self) -> Result<ChunkHeader, ReadError> {
        let within = HEADER_BYTES as u64..self.chunk_bytes;
        let is_empty = self.chunk_bytes == 0 || self.state == ChunkState::Updating;
        match is_empty || within.contains(&self.metadata_at) && within.contains(&self.pools_at) {
            true => Ok(self),
            false => Err(ReadError::Invalid("position in the header of a chunk")),
        }
    }

    /// Returns the clock for the events.
    pub fn clock(&self) -> Clock {
        Clock {
            ticks_per_second: self.ticks_per_second,
            start_ticks: self.start_ticks,
            start_unix_ns: self.start_unix_ns,
        }
    }
}

fn number(bytes: &[u8; HEADER_BYTES], at: usize) -> u64 {
    bytes[at..at + 8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::Header;

    fn written() -> [u8; HEADER_BYTES] {
        let header = Header {
            chunk_bytes: 1000,
            pools_at: 900,
            start_unix_ns: 5,
            duration_ns: 6,
            start_ticks: 7,
            ticks_per_second: NonZeroU64::new(8).unwrap(),
        };
        header.to_bytes()
    }

    #[test]
    fn a_header_is_read_back() {
        let header = ChunkHeader::read(&written()).unwrap();
        assert_eq!((header.chunk_bytes, header.pools_at, header.metadata_at), (1000, 900, 68));
        assert_eq!((header.start_unix_ns, header.start_ticks), (5, 7));
        assert_eq!((header.ticks_per_second.get(), header.state), (8, ChunkState::Complete));
        for (state, expected) in [(9, ChunkState::Growing), (255, ChunkState::Updating)] {
            let mut bytes = written();
            bytes[64] = state;
            assert_eq!(ChunkHeader::read(&bytes).unwrap().state, expected);
        }
    }

    #[test]
    fn a_chunk_without_pools_is_empty() {
        let mut bytes = written();
        bytes[16..32].fill(0);
        assert!(ChunkHeader::read(&bytes).is_err(), "a complete chunk has pools");
        bytes[64] = 1;
        assert_eq!(ChunkHeader::read(&bytes).unwrap().chunk_bytes, 0);
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let changed = |at: usize, byte: u8| {
            let mut bytes = written();
            bytes[at] = byte;
            ChunkHeader::read(&bytes).unwrap_err()
        };
        assert_eq!(changed(0, b'f'), ReadError::NotARecording);
        assert_eq!(changed(5, 1), ReadError::Version { major: 1, minor: 1 });
        assert_eq!(changed(67, 0), ReadError::Uncompressed);
        assert_eq!(changed(63, 0), ReadError::Invalid("number of ticks in a second"));
        let position = ReadError::Invalid("position in the header of a chunk");
        assert_eq!(changed(16, 1), position);
        assert_eq!(changed(31, 67), position);
    }
}
