//! The store's health: whether it can be written, and how old its uncommitted changes are.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

/// An operation of the store that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Operation {
    /// Committing checkpoints and lane states.
    Commit,
    /// Saving the ids of new files.
    Keep,
    /// Forgetting vanished files.
    Forget,
    /// Reading saved data.
    Read,
    /// Writing the second copy of the identities.
    Copy,
}

impl Operation {
    const ALL: [Operation; 5] =
        [Operation::Commit, Operation::Keep, Operation::Forget, Operation::Read, Operation::Copy];

    fn name(self) -> &'static str {
        self.into()
    }

    fn failure(self) -> &'static str {
        match self {
            Operation::Commit => "checkpoints cannot be committed",
            Operation::Keep => "ids of new files cannot be saved, so these files are not read",
            Operation::Forget => "ids of deleted files cannot be removed",
            Operation::Read => "saved data cannot be read",
            Operation::Copy => "the second copy of the file ids cannot be written",
        }
    }
}

/// The health of the store at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreHealth {
    /// The failing operations and their errors; `None` if the last attempt of every operation
    /// succeeded.
    pub error: Option<String>,
    /// Seconds since the last successful commit; a commit with nothing to write counts.
    pub committed_seconds: f64,
    /// Upper bound on the age of the oldest uncommitted change in seconds: the time since the last
    /// successful commit, or 0 if all changes are committed.
    pub age_seconds: f64,
    /// Number of failures since the start, for every operation.
    pub errors: BTreeMap<&'static str, u64>,
}

/// Tracks the store's successes and failures.
pub struct Watch(Mutex<State>);

struct State {
    committed: Instant,
    error: BTreeMap<Operation, String>,
    errors: BTreeMap<&'static str, u64>,
}

impl Watch {
    /// Creates a watch in the healthy state.
    pub fn new() -> Watch {
        let errors = Operation::ALL.map(|operation| (operation.name(), 0)).into();
        Watch(Mutex::new(State { committed: Instant::now(), error: BTreeMap::new(), errors }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// Records the result of an operation.
    pub fn done<T>(&self, operation: Operation, done: &io::Result<T>) {
        match done {
            Ok(_) => self.state().error.remove(&operation),
            Err(error) => {
                *self.state().errors.entry(operation.name()).or_default() += 1;
                self.state().error.insert(operation, error.to_string())
            }
        };
    }

    /// Records that every change made before `begun` is committed.
    pub fn committed(&self, begun: Instant) {
        let mut state = self.state();
        state.committed = begun;
        // All operations share one file, so a successful commit clears the errors from all
        // operations except the copy.
        state.error.retain(|operation, _| *operation == Operation::Copy);
    }

    /// Records the error from the copy, or that the copy is complete. A lasting error counts once.
    pub fn copy(&self, error: Option<&str>) {
        let known = self.state().error.contains_key(&Operation::Copy);
        match error {
            Some(error) if !known => {
                self.done::<()>(Operation::Copy, &Err(io::Error::other(error)))
            }
            Some(_) => {}
            None => _ = self.state().error.remove(&Operation::Copy),
        }
    }

    /// Returns the health. `waits` says whether changes are waiting for a commit.
    pub fn health(&self, waits: bool) -> StoreHealth {
        let state = self.state();
        let error = state
            .error
            .iter()
            .map(|(operation, error)| format!("{}: {error}", operation.failure()));
        let error = error.collect::<Vec<_>>().join("; ");
        let committed_seconds = state.committed.elapsed().as_secs_f64();
        StoreHealth {
            error: Some(error).filter(|error| !error.is_empty()),
            committed_seconds,
            age_seconds: if waits { committed_seconds } else { 0.0 },
            errors: state.errors.clone(),
        }
    }
}
