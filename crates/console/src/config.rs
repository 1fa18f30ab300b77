//! What is shown of the configuration in use.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Which configuration is in use, and whether the one that was read last is.
#[derive(Debug)]
pub struct ConfigState {
    hash: AtomicU64,
    refused: AtomicBool,
}

impl ConfigState {
    /// The configuration with this hash is in use.
    pub fn new(hash: u64) -> ConfigState {
        ConfigState { hash: AtomicU64::new(hash), refused: AtomicBool::new(false) }
    }

    /// The configuration with this hash is in use from here on.
    pub fn took(&self, hash: u64) {
        self.hash.store(hash, Ordering::Relaxed);
        self.refused.store(false, Ordering::Relaxed);
    }

    /// The one that was read last is not used; the one before goes on.
    pub fn refuse(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash.load(Ordering::Relaxed)
    }

    pub(crate) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }
}
