//! The engine's side of a source, driven by hand: time stands still until the test moves it.

use crate::store::MemoryStore;
use millstream_model::{
    BlockPool, Counters, Grant, InternalMetrics, Ledger, Now, Polled, SinkSet, Source, SourceCx,
    SourceInfo, SourceOpen, Unreadable,
};
use parking_lot::{Condvar, Mutex};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Wall clock of a rig when it is made: 2026-11-21, in nanoseconds since 1970.
const BEGIN_UNIX_NS: i64 = 1_795_292_986_000_000_000;

/// Everything a source gets from the engine. A test changes the fields between two polls.
pub struct SourceRig {
    /// What is kept over a restart.
    pub store: Arc<MemoryStore>,
    /// The sinks, with their ids.
    pub sinks: Vec<(usize, String)>,
    /// The source's ledger.
    pub ledger: Arc<Ledger>,
    /// The source's counters.
    pub counters: Arc<Counters>,
    /// What it cannot read.
    pub unreadable: Arc<Unreadable>,
    /// What its events share.
    pub info: Arc<SourceInfo>,
    /// The memory allowance.
    pub grant: Arc<Grant>,
    /// Where blocks come from.
    pub pool: Arc<BlockPool>,
    /// Sinks that have ready: all, to begin with.
    pub ready: SinkSet,
    /// Sinks that have had no ready for too long: none, to begin with.
    pub blocked: SinkSet,
    /// Read what is there, then end.
    pub until_eof: bool,
    /// Both clocks.
    pub now: Now,
    /// Bytes the chain may make of one block.
    pub expansion: u64,
    /// The agent's own metrics: none, to begin with.
    pub internal_metrics: InternalMetrics,
    /// Folder of the source below `data_dir`.
    pub held_dir: PathBuf,
    folder: Arc<TempDir>,
    woken: Arc<(Mutex<bool>, Condvar)>,
}

impl SourceRig {
    /// A rig with these sinks, an empty store and 256 MiB of memory.
    pub fn new(sinks: &[&str]) -> SourceRig {
        SourceRig::over(MemoryStore::new(), sinks)
    }

    /// A rig over a store that may know origins from before.
    pub fn over(store: Arc<MemoryStore>, sinks: &[&str]) -> SourceRig {
        let memory = Path::new("/dev/shm");
        let folder =
            if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let folder = Arc::new(folder.expect("a folder"));
        SourceRig {
            held_dir: folder.path().join("held/app"),
            folder,
            store,
            sinks: sinks.iter().enumerate().map(|(index, id)| (index, (*id).to_owned())).collect(),
            ledger: Ledger::new(),
            counters: Arc::default(),
            unreadable: Arc::default(),
            info: Arc::new(SourceInfo {
                id: "app".into(),
                host: "here".into(),
                ..SourceInfo::default()
            }),
            grant: Grant::new(256 << 20),
            pool: BlockPool::new(),
            ready: (0..sinks.len()).collect(),
            blocked: SinkSet::EMPTY,
            until_eof: false,
            now: Now { since_start: Duration::ZERO, unix_ns: BEGIN_UNIX_NS },
            expansion: 0,
            internal_metrics: InternalMetrics::default(),
            woken: Arc::default(),
        }
    }

    /// What the source is opened with.
    pub fn open(&self) -> SourceOpen {
        let woken = self.woken.clone();
        SourceOpen {
            info: self.info.clone(),
            sinks: self.sinks.clone(),
            store: self.store.clone(),
            held_dir: self.held_dir.clone(),
            ledger: self.ledger.clone(),
            counters: self.counters.clone(),
            unreadable: self.unreadable.clone(),
            wake: Arc::new(move || {
                *woken.0.lock() = true;
                woken.1.notify_all();
            }),
            internal_metrics: self.internal_metrics.clone(),
            until_eof: self.until_eof,
        }
    }

    /// Every sink.
    pub fn all(&self) -> SinkSet {
        self.sinks.iter().map(|(index, _)| *index).collect()
    }

    /// Polls the source once.
    pub fn poll(&self, source: &mut dyn Source) -> Polled {
        source.poll(&mut SourceCx {
            now: self.now,
            info: &self.info,
            sinks: self.all(),
            ready: self.ready,
            blocked: self.blocked,
            ledger: &self.ledger,
            counters: &self.counters,
            until_eof: self.until_eof,
            grant: &self.grant,
            pool: &self.pool,
            expansion: self.expansion,
        })
    }

    /// Moves both clocks.
    pub fn advance(&mut self, time: Duration) {
        self.now.since_start += time;
        self.now.unix_ns += time.as_nanos() as i64;
    }

    /// Waits until the source wakes the engine, but no longer than `limit` of real time: for
    /// sources that have a thread of their own.
    pub fn wait_for_wake(&self, limit: Duration) {
        let mut woken = self.woken.0.lock();
        self.woken.1.wait_while_for(&mut woken, |woken| !*woken, limit);
        *woken = false;
    }

    /// Commits the checkpoints that have moved.
    pub fn commit(&self) {
        self.store.commit(&self.ledger, &self.sinks);
    }

    /// The rig of the next start over the same store, some time later. What was not committed is
    /// lost, as after a crash.
    pub fn restart(&self) -> SourceRig {
        self.store.crash();
        let sinks: Vec<&str> = self.sinks.iter().map(|(_, id)| id.as_str()).collect();
        let mut next = SourceRig::over(self.store.clone(), &sinks);
        (next.info, next.until_eof, next.expansion) =
            (self.info.clone(), self.until_eof, self.expansion);
        (next.held_dir, next.folder) = (self.held_dir.clone(), self.folder.clone());
        next.now.unix_ns = self.now.unix_ns + 1_000_000_000;
        next
    }
}
