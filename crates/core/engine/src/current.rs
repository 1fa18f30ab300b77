//! The core that the threads use. A reload replaces it.

use crate::core::Core;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The current core.
pub(crate) struct Current {
    core: Mutex<Arc<Core>>,
    /// The core's generation, which can be read without the lock.
    generation: AtomicU64,
    /// Locked during a commit and during a replacement. A commit for the sinks of a replaced core
    /// would leave out the checkpoints of the new sinks.
    turning: Mutex<()>,
}

impl Current {
    /// Starts with `core`.
    pub fn new(core: Core) -> Current {
        let generation = AtomicU64::new(core.generation());
        Current { core: Mutex::new(Arc::new(core)), generation, turning: Mutex::default() }
    }

    /// Returns the current core.
    pub fn core(&self) -> Arc<Core> {
        self.core.lock().clone()
    }

    /// Updates `core` if a newer core exists; returns whether it was outdated.
    pub fn renew(&self, core: &mut Arc<Core>) -> bool {
        let is_behind = self.generation.load(Ordering::Acquire) != core.generation();
        if is_behind {
            *core = self.core();
        }
        is_behind
    }

    /// Replaces the core with the core that `make` derives from it. No commit runs in the meantime.
    /// The caller has reached the barrier.
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
