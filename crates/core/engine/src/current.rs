//! Which core the threads work with: a reload puts another in the place of the one that runs.

use crate::core::Core;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The core that runs.
pub(crate) struct Current {
    core: Mutex<Arc<Core>>,
    /// Its generation, to be looked at without a lock.
    generation: AtomicU64,
    /// Held by a commit and by the change to another core: a commit by the sinks of a core that was
    /// replaced would leave out the checkpoints of those that were added.
    turning: Mutex<()>,
}

impl Current {
    /// Begins with `core`.
    pub fn new(core: Core) -> Current {
        let generation = AtomicU64::new(core.generation);
        Current { core: Mutex::new(Arc::new(core)), generation, turning: Mutex::default() }
    }

    /// The core that runs.
    pub fn core(&self) -> Arc<Core> {
        self.core.lock().clone()
    }

    /// Brings `core` up to date; whether it was behind.
    pub fn renew(&self, core: &mut Arc<Core>) -> bool {
        let is_behind = self.generation.load(Ordering::Acquire) != core.generation;
        if is_behind {
            *core = self.core();
        }
        is_behind
    }

    /// Puts another core in the place of the one that runs, which `turn` makes of it. No commit
    /// runs meanwhile. The caller has reached the barrier.
    pub fn replace<E>(&self, turn: impl FnOnce(&Core) -> Result<Core, E>) -> Result<Arc<Core>, E> {
        let _turning = self.turning.lock();
        let next = Arc::new(turn(&self.core())?);
        *self.core.lock() = next.clone();
        self.generation.store(next.generation, Ordering::Release);
        Ok(next)
    }

    /// Commits the checkpoints that moved.
    pub fn commit(&self) -> std::io::Result<()> {
        let _turning = self.turning.lock();
        self.core().commit()
    }
}
