//! An in-memory checkpoint store of one source, which survives the agent like the real one.

use millstream_model::{Ledger, OriginId, OriginRecord, OriginStore, SinkIndex};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// The stored origins of one source.
#[derive(Default)]
pub struct MemoryStore {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ran_before: bool,
    failing: bool,
    /// Whether to reject further origins.
    full: bool,
    stored: BTreeMap<OriginId, Stored>,
    /// Descriptors pending for the next commit.
    pending: BTreeMap<OriginId, Vec<u8>>,
}

#[derive(Default)]
struct Stored {
    descriptor: Vec<u8>,
    checkpoints: BTreeMap<String, u64>,
}

impl MemoryStore {
    /// Creates the store of a source that has never run.
    pub fn new() -> Arc<MemoryStore> {
        Arc::default()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Sets whether all writes fail.
    pub fn fail(&self, failing: bool) {
        self.lock().failing = failing;
    }

    /// Sets whether further origins are rejected.
    pub fn fill(&self, full: bool) {
        self.lock().full = full;
    }

    /// Commits the pending descriptors and the advanced checkpoints, as the engine does once a
    /// second.
    pub fn commit(&self, ledger: &Ledger, sinks: &[(SinkIndex, String)]) {
        let moved = ledger.take_moved();
        let mut state = self.lock();
        for (origin, descriptor) in std::mem::take(&mut state.pending) {
            if let Some(stored) = state.stored.get_mut(&origin) {
                stored.descriptor = descriptor;
            }
        }
        for (origin, checkpoints) in moved {
            let Some(stored) = state.stored.get_mut(&origin) else { continue };
            for (sink, offset) in checkpoints {
                let id = sinks.iter().find(|(index, _)| *index == sink).map(|(_, id)| id.clone());
                stored.checkpoints.extend(id.map(|id| (id, offset)));
            }
        }
    }

    /// Simulates a crash: discards the pending descriptors.
    pub fn crash(&self) {
        self.lock().pending.clear();
    }

    /// Returns the ids of the stored origins.
    pub fn ids(&self) -> Vec<OriginId> {
        self.lock().stored.keys().copied().collect()
    }
}

impl OriginStore for MemoryStore {
    fn origins(&self) -> io::Result<(Vec<OriginRecord>, bool)> {
        let state = self.lock();
        let record = |(id, stored): (&OriginId, &Stored)| OriginRecord {
            id: *id,
            descriptor: stored.descriptor.clone(),
            checkpoints: stored
                .checkpoints
                .iter()
                .map(|(sink, offset)| (sink.clone(), *offset))
                .collect(),
        };
        Ok((state.stored.iter().map(record).collect(), state.ran_before))
    }

    fn keep(&self, origins: &[(OriginId, Vec<u8>)]) -> io::Result<()> {
        let mut state = self.lock();
        let is_new = |(id, _): &(OriginId, Vec<u8>)| !state.stored.contains_key(id);
        if state.failing || state.full && origins.iter().any(is_new) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.ran_before = true;
        for (id, descriptor) in origins {
            state.pending.remove(id);
            state.stored.entry(*id).or_default().descriptor.clone_from(descriptor);
        }
        Ok(())
    }

    fn note(&self, origin: OriginId, descriptor: Vec<u8>) {
        self.lock().pending.insert(origin, descriptor);
    }

    fn committed(&self, origin: OriginId) -> io::Result<Vec<(String, u64)>> {
        let state = self.lock();
        let checkpoints = state.stored.get(&origin).into_iter().flat_map(|of| &of.checkpoints);
        Ok(checkpoints.map(|(sink, offset)| (sink.clone(), *offset)).collect())
    }

    fn forget(&self, origins: &[OriginId]) -> io::Result<()> {
        origins.iter().for_each(|id| _ = self.lock().stored.remove(id));
        Ok(())
    }
}
