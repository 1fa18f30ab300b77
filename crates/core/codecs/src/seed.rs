//! A secret seed for hash functions.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

/// Returns a random seed that stays the same for the lifetime of the process. Seeding hashes with
/// it prevents hash flooding.
pub fn secret_seed() -> u64 {
    static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().build_hasher().finish());
    *SEED
}
