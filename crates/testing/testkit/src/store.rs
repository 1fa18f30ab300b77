//! The checkpoint store of one source, in memory. It survives the agent, like the real one.

use millstream_model::{Ledger, OriginRecord, OriginStore};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// What is kept for one source.
#[derive(Default)]
pub struct MemoryStore {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ran_before: bool,
    failing: bool,
    /// There is room for no more origins.
    full: bool,
    kept: BTreeMap<u64, Kept>,
    /// Descriptors that wait for the next commit.
    noted: BTreeMap<u64, Vec<u8>>,
}

#[derive(Default)]
struct Kept {
    descriptor: Vec<u8>,
    checkpoints: BTreeMap<String, u64>,
}

impl MemoryStore {
    /// A store in which the source never ran.
    pub fn new() -> Arc<MemoryStore> {
        Arc::default()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// From here on nothing can be kept, or it can again.
    pub fn fail(&self, failing: bool) {
        self.lock().failing = failing;
    }

    /// From here on no more origins can be kept than there are, or they can again.
    pub fn fill(&self, full: bool) {
        self.lock().full = full;
    }

    /// Commits what was noted and the checkpoints that have moved, as the engine does once a
    /// second.
    pub fn commit(&self, ledger: &Ledger, sinks: &[(usize, String)]) {
        let moved = ledger.take_moved();
        let mut state = self.lock();
        for (origin, descriptor) in std::mem::take(&mut state.noted) {
            if let Some(kept) = state.kept.get_mut(&origin) {
                kept.descriptor = descriptor;
            }
        }
        for (origin, checkpoints) in moved {
            let Some(kept) = state.kept.get_mut(&origin) else { continue };
            for (sink, offset) in checkpoints {
                let id = sinks.iter().find(|(index, _)| *index == sink).map(|(_, id)| id.clone());
                kept.checkpoints.extend(id.map(|id| (id, offset)));
            }
        }
    }

    /// What a crash takes: everything that was noted and not committed.
    pub fn crash(&self) {
        self.lock().noted.clear();
    }

    /// Ids of the origins that are kept.
    pub fn ids(&self) -> Vec<u64> {
        self.lock().kept.keys().copied().collect()
    }
}

impl OriginStore for MemoryStore {
    fn origins(&self) -> io::Result<(Vec<OriginRecord>, bool)> {
        let state = self.lock();
        let record = |(id, kept): (&u64, &Kept)| OriginRecord {
            id: *id,
            descriptor: kept.descriptor.clone(),
            checkpoints: kept
                .checkpoints
                .iter()
                .map(|(sink, offset)| (sink.clone(), *offset))
                .collect(),
        };
        Ok((state.kept.iter().map(record).collect(), state.ran_before))
    }

    fn keep(&self, origins: &[(u64, Vec<u8>)]) -> io::Result<()> {
        let mut state = self.lock();
        let is_new = |(id, _): &(u64, Vec<u8>)| !state.kept.contains_key(id);
        if state.failing || state.full && origins.iter().any(is_new) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.ran_before = true;
        for (id, descriptor) in origins {
            state.noted.remove(id);
            state.kept.entry(*id).or_default().descriptor.clone_from(descriptor);
        }
        Ok(())
    }

    fn note(&self, origin: u64, descriptor: Vec<u8>) {
        self.lock().noted.insert(origin, descriptor);
    }

    fn forget(&self, origins: &[u64]) -> io::Result<()> {
        origins.iter().for_each(|id| _ = self.lock().kept.remove(id));
        Ok(())
    }
}
