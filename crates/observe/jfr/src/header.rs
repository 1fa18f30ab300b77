//! The header of a chunk.

use std::num::NonZeroU64;

/// Number of bytes in the header.
pub const HEADER_BYTES: usize = 68;

const MAGIC: [u8; 4] = *b"FLR\0";
const MAJOR: u16 = 2;
const MINOR: u16 = 1;

/// Flag that indicates compressed integers.
const COMPRESSED_INTEGERS: u32 = 1;

/// The values in the header of a complete chunk.
pub struct Header {
    /// Size of the chunk in bytes, including the header.
    pub chunk_bytes: u64,
    /// Position of the constant pools.
    pub pools_at: u64,
    /// Start of the chunk in nanoseconds since 1970.
    pub start_unix_ns: u64,
    /// Time from the start to the end of the chunk in nanoseconds.
    pub duration_ns: u64,
    /// Start of the chunk in ticks.
    pub start_ticks: u64,
    /// Frequency of the clock that counts ticks.
    pub ticks_per_second: NonZeroU64,
}

impl Header {
    /// Returns the encoded header.
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let numbers = [
            self.chunk_bytes,
            self.pools_at,
            // The metadata follows the header.
            HEADER_BYTES as u64,
            self.start_unix_ns,
            self.duration_ns,
            self.start_ticks,
            self.ticks_per_second.get(),
        ];
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&MAJOR.to_be_bytes());
        bytes[6..8].copy_from_slice(&MINOR.to_be_bytes());
        for (place, number) in bytes[8..64].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        bytes[64..].copy_from_slice(&COMPRESSED_INTEGERS.to_be_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_at_its_place() {
        let header = Header {
            chunk_bytes: 0x0102,
            pools_at: 0x0304,
            start_unix_ns: 0x0506,
            duration_ns: 0x0708,
            start_ticks: u64::MAX,
            ticks_per_second: NonZeroU64::new(0x090a).unwrap(),
        };
        let bytes = header.to_bytes();
        assert_eq!(bytes[..8], [b'F', b'L', b'R', 0, 0, 2, 0, 1]);
        assert_eq!(bytes[8..16], [0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(bytes[16..24], [0, 0, 0, 0, 0, 0, 3, 4]);
        assert_eq!(bytes[24..32], [0, 0, 0, 0, 0, 0, 0, 68]);
        assert_eq!(bytes[32..40], [0, 0, 0, 0, 0, 0, 5, 6]);
        assert_eq!(bytes[40..48], [0, 0, 0, 0, 0, 0, 7, 8]);
        assert_eq!(bytes[48..56], [255; 8]);
        assert_eq!(bytes[56..64], [0, 0, 0, 0, 0, 0, 9, 10]);
        assert_eq!(bytes[64..], [0, 0, 0, 1]);
    }
}
