//! Keys of values in constant pools.

/// Key that represents an unknown value.
pub const NO_KEY: u64 = 0;

/// Maximum encoded size, in bytes, of a key, which is at most 2^32.
pub const KEY_BYTES_MAX: usize = 5;

/// Returns the key for an entry. The key must be the same in all chunks, because the JDK's parser
/// uses an entry from the previous chunk if it has the same key.
#[inline]
pub fn key(id: u32) -> u64 {
    u64::from(id) + 1
}
