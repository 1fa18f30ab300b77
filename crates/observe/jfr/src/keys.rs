//! Keys of the values in constant pools.

/// Key of an unknown value.
pub const NO_KEY: u64 = 0;

/// Maximum bytes of a key: up to 2^32.
pub const KEY_BYTES_MAX: usize = 5;

/// Returns the key of an entry. A key must be the same in all chunks, because the JDK's parser
/// takes an entry of the previous chunk if it has the same key.
#[inline]
pub fn key(id: u32) -> u64 {
    u64::from(id) + 1
}
