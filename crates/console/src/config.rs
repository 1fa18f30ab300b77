//! Status of the configuration.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The hash of the configuration in use, and whether the last reload succeeded.
#[derive(Debug)]
pub struct ConfigState {
    hash: AtomicU64,
    refused: AtomicBool,
}

impl ConfigState {
    /// Starts with the configuration with this hash.
    pub fn new(hash: u64) -> ConfigState {
        ConfigState { hash: AtomicU64::new(hash), refused: AtomicBool::new(false) }
    }

    /// Records a successful reload and the hash of its configuration.
    pub fn took(&self, hash: u64) {
        self.hash.store(hash, Ordering::Relaxed);
        self.refused.store(false, Ordering::Relaxed);
    }

    /// Records a failed reload; the previous configuration stays in use.
    pub fn refuse(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash.load(Ordering::Relaxed)
    }

    /// Returns whether the last reload failed.
    pub fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }
}
