//! An in-memory checkpoint store of one source, which survives the agent like the real store.

use millstream_model::{Ledger, OriginId, OriginRecord, OriginStore, SinkIndex};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::sync::Arc;

/// Number of origins per page. It is small, so that tests read several pages.
const PAGE_ORIGINS: usize = 2;

/// The stored origins of one source.
#[derive(Default)]
pub struct MemoryStore {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ran_before: bool,
    failing: bool,
    /// Whether new origins are rejected.
    full: bool,
    stored: BTreeMap<OriginId, Stored>,
    /// Descriptors that the next commit stores.
    pending: BTreeMap<OriginId, Vec<u8>>,
}

#[derive(Default)]
struct Stored {
    descriptor: Vec<u8>,
    checkpoints: BTreeMap<String, u64>,
}

impl Stored {
    fn record((id, stored): (&OriginId, &Stored)) -> OriginRecord {
        let checkpoints = stored.checkpoints.iter();
        OriginRecord {
            id: *id,
            descriptor: stored.descriptor.clone(),
            checkpoints: checkpoints.map(|(sink, offset)| (sink.clone(), *offset)).collect(),
        }
    }
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

    /// Sets whether new origins are rejected.
    pub fn fill(&self, full: bool) {
        self.lock().full = full;
    }

    /// Commits the pending descriptors and the advanced checkpoints, like the engine once a second.
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
        Ok((state.stored.iter().map(Stored::record).collect(), state.ran_before))
    }

    fn has_run(&self) -> io::Result<bool> {
        Ok(self.lock().ran_before)
    }

    fn origins_after(&self, after: Option<OriginId>) -> io::Result<Vec<OriginRecord>> {
        let state = self.lock();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let later = state.stored.range((from, Bound::Unbounded));
        Ok(later.take(PAGE_ORIGINS).map(Stored::record).collect())
    }

    fn origin(&self, origin: OriginId) -> io::Result<Option<OriginRecord>> {
        let state = self.lock();
        if state.failing {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut record = state.stored.get_key_value(&origin).map(Stored::record);
        if let (Some(record), Some(pending)) = (&mut record, state.pending.get(&origin)) {
            record.descriptor.clone_from(pending);
        }
        Ok(record)
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
        let checkpoints =
            state.stored.get(&origin).into_iter().flat_map(|record| &record.checkpoints);
        Ok(checkpoints.map(|(sink, offset)| (sink.clone(), *offset)).collect())
    }

    fn forget(&self, origins: &[OriginId]) -> io::Result<()> {
        origins.iter().for_each(|id| _ = self.lock().stored.remove(id));
        Ok(())
    }
}
