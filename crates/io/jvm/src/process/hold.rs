//! Prevents collectors from being called while a call must run alone in the child.

use parking_lot::{Mutex, MutexGuard};

/// The number of calls that currently prevent a process's collectors from being called in a new
/// child.
#[derive(Default)]
pub struct Holds(Mutex<u32>);

impl Holds {
    /// Adds a hold.
    pub fn add(&self) {
        *self.0.lock() += 1;
    }

    /// Removes a hold; returns whether it was the last one.
    pub fn remove(&self) -> bool {
        let mut count = self.0.lock();
        *count -= 1;
        *count == 0
    }

    /// Returns a guard that prevents new holds; `None` if there is a hold.
    pub fn none(&self) -> Option<MutexGuard<'_, u32>> {
        Some(self.0.lock()).filter(|count| **count == 0)
    }
}
