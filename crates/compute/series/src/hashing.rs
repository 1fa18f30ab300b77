//! Hash functions for keys and set members.

use foldhash::SharedSeed;
use foldhash::fast::FoldHasher;
use millstream_scan::{KeySecrets, Keys, hash_key};
use std::fmt;
use std::hash::Hasher;

/// Seeded hash functions. A client that does not know the seed cannot construct names that collide.
#[derive(Clone)]
pub struct Hashing {
    seed: u64,
    shared: SharedSeed,
    secrets: KeySecrets,
}

impl Hashing {
    pub fn new(seed: u64) -> Hashing {
        let shared = SharedSeed::from_u64(seed);
        Hashing { seed, secrets: KeySecrets::new(seed), shared }
    }

    /// Hashes a key that is given in parts. The header contains the length of the name.
    #[inline]
    pub fn of(&self, header: &[u8; 4], name: &[u8], tags: &[u8]) -> u64 {
        hash_key(&self.secrets, u32::from_le_bytes(*header), name, tags)
    }

    /// Like [`Hashing::of`], for use within a SIMD kernel that the caller runs.
    #[inline(always)]
    pub fn by(&self, keys: impl Keys, header: &[u8; 4], name: &[u8], tags: &[u8]) -> u64 {
        keys.hash(&self.secrets, u32::from_le_bytes(*header), name, tags)
    }

    /// Hashes a series id and a timestamp.
    #[inline]
    pub fn of_place(&self, id: u32, timestamp: i64) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.seed, &self.shared);
        hasher.write_u32(id);
        hasher.write_i64(timestamp);
        hasher.finish()
    }

    /// Hashes a byte string.
    #[inline]
    pub fn of_text(&self, text: &[u8]) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.seed, &self.shared);
        hasher.write(text);
        hasher.finish()
    }
}

/// Prints the type name only, because the seed is secret.
impl fmt::Debug for Hashing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hashing")
    }
}

/// A hasher that returns its input, for keys that are already hashes.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
