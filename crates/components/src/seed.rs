//! The seed of hashes.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

/// A number that nobody outside can tell, the same while the process runs. Hashes that depend on it
/// keep others from sending texts that all fall into one place of a table.
pub fn secret_seed() -> u64 {
    static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().build_hasher().finish());
    *SEED
}
