//! The core that the threads currently use. A reload replaces it.

use crate::core::Core;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Holds the current core.
pub(crate) struct Current {
    core: Mutex<Arc<Core>>,
    /// The core's generation, which can be read without the lock.
    generation: AtomicU64,
    /// Locked while checkpoints are committed and while the core is replaced. A commit for the
    /// sinks of a replaced core would omit the checkpoints of the new sinks.
    turning: Mutex<()>,
}

impl Current {
    /// Creates the holder of `core`.
    pub fn new(core: Core) -> Current {
        let generation = AtomicU64::new(core.generation());
        Current { core: Mutex::new(Arc::new(core)), generation, turning: Mutex::default() }
    }

    /// Returns the current core.
    pub fn core(&self) -> Arc<Core> {
        self.core.lock().clone()
    }

    /// Sets `core` to the current core if a reload has replaced it; returns whether that was the
    /// case.
    pub fn renew(&self, core: &mut Arc<Core>) -> bool {
        let is_behind = self.generation.load(Ordering::Acquire) != core.generation();
        if is_behind {
            *core = self.core();
        }
        is_behind
    }

    /// Replaces the current core with the core that `make` derives from it. No commit runs during
    /// the call. The caller has reached the barrier.
    pub fn replace<E>(&self, make: impl FnOnce(&Core) -> Result<Core, E>) -> Result<Arc<Core>, E> {
        let _turning = self.turning.lock();
        let next = Arc::new(make(&self.core())?);
        *self.core.lock() = next.clone();
        self.generation.store(next.generation(), Ordering::Release);
        Ok(next)
    }

    /// Commits the checkpoints that moved.
    pub fn commit(&self) -> std::io::Result<()> {
        let _turning = self.turning.lock();
        self.core().commit()
    }
}
