//! The engine's side of a source, driven manually. Time advances only when the test advances it.

use crate::store::MemoryStore;
use millstream_model::{
    BlockPool, Counters, EngineTime, Grant, InternalLogs, InternalMetrics, Ledger, Now, Polled,
    SinkIndex, SinkSet, Source, SourceCx, SourceInfo, SourceOpen, Unreadable,
};
use parking_lot::{Condvar, Mutex};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Initial wall-clock time of a rig: 2026-11-21, in nanoseconds since 1970.
const BEGIN_UNIX_NS: i64 = 1_795_292_986_000_000_000;

/// The resources that a source receives from the engine. A test may change the fields between two
/// polls.
pub struct SourceRig {
    /// The checkpoint store, which survives restarts.
    pub store: Arc<MemoryStore>,
    /// Indexes and ids of the sinks.
    pub sinks: Vec<(SinkIndex, String)>,
    /// The source's ledger.
    pub ledger: Arc<Ledger>,
    /// The source's counters.
    pub counters: Arc<Counters>,
    /// Paths and servers that the source cannot read.
    pub unreadable: Arc<Unreadable>,
    /// Metadata that the source's events share.
    pub info: Arc<SourceInfo>,
    /// The memory allowance.
    pub grant: Arc<Grant>,
    /// The pool of blocks.
    pub pool: Arc<BlockPool>,
    /// Sinks that are ready for payloads; initially all.
    pub ready: SinkSet,
    /// Blocked sinks; initially none.
    pub blocked: SinkSet,
    /// Sinks whose disk buffers have capacity; initially none.
    pub overflow: SinkSet,
    /// Whether the source ends once it has read all existing data.
    pub until_eof: bool,
    /// Monotonic and wall-clock time.
    pub now: Now,
    /// Maximum number of bytes that the transforms may allocate for one block.
    pub expansion: u64,
    /// The agent's internal metrics; initially none.
    pub internal_metrics: InternalMetrics,
    /// The log records that the source receives.
    pub internal_logs: InternalLogs,
    /// Folder of the source's held files below `data_dir`.
    pub held_dir: PathBuf,
    folder: Arc<TempDir>,
    woken: Arc<(Mutex<bool>, Condvar)>,
}

impl SourceRig {
    /// Creates a rig with these sinks, an empty store and a memory allowance of 256 MiB.
    pub fn new(sinks: &[&str]) -> SourceRig {
        SourceRig::with_store(MemoryStore::new(), sinks)
    }

    /// Creates a rig with an existing store, which may already contain origins.
    pub fn with_store(store: Arc<MemoryStore>, sinks: &[&str]) -> SourceRig {
        let memory = Path::new("/dev/shm");
        let folder =
            if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let folder = Arc::new(folder.expect("a folder"));
        SourceRig {
            held_dir: folder.path().join("held/app"),
            folder,
            store,
            sinks: SinkIndex::all().zip(sinks.iter().map(|id| (*id).to_owned())).collect(),
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
            ready: SinkIndex::all().take(sinks.len()).collect(),
            overflow: SinkSet::EMPTY,
            blocked: SinkSet::EMPTY,
            until_eof: false,
            now: Now { since_start: EngineTime::ZERO, unix_ns: BEGIN_UNIX_NS },
            expansion: 0,
            internal_metrics: InternalMetrics::default(),
            internal_logs: InternalLogs::default(),
            woken: Arc::default(),
        }
    }

    /// Returns the arguments for opening the source.
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
            internal_logs: self.internal_logs.clone(),
            pressure: Arc::default(),
            until_eof: self.until_eof,
        }
    }

    /// Returns the set of all sinks.
    pub fn all(&self) -> SinkSet {
        self.sinks.iter().map(|(index, _)| *index).collect()
    }

    /// Polls the source once.
    pub fn poll(&self, source: &mut dyn Source) -> Polled {
        source.poll(&mut self.cx())
    }

    /// Returns the context of a poll.
    pub fn cx(&self) -> SourceCx<'_> {
        SourceCx {
            now: self.now,
            info: &self.info,
            sinks: self.all(),
            ready: self.ready,
            blocked: self.blocked,
            overflow: self.overflow,
            ledger: &self.ledger,
            counters: &self.counters,
            until_eof: self.until_eof,
            has_input_ended: false,
            grant: &self.grant,
            pool: &self.pool,
            expansion: self.expansion,
        }
    }

    /// Advances both clocks.
    pub fn advance(&mut self, time: Duration) {
        self.now.since_start += time;
        self.now.unix_ns += time.as_nanos() as i64;
    }

    /// Waits in real time, at most `limit`, until the source wakes the engine. For sources that run
    /// a thread.
    pub fn wait_for_wake(&self, limit: Duration) {
        let mut woken = self.woken.0.lock();
        self.woken.1.wait_while_for(&mut woken, |woken| !*woken, limit);
        *woken = false;
    }

    /// Commits the advanced checkpoints.
    pub fn commit(&self) {
        self.store.commit(&self.ledger, &self.sinks);
    }

    /// Returns a rig that restarts with the same store, a second later. Uncommitted changes are
    /// lost, as after a crash.
    pub fn restart(&self) -> SourceRig {
        self.store.crash();
        let sinks: Vec<&str> = self.sinks.iter().map(|(_, id)| id.as_str()).collect();
        let mut next = SourceRig::with_store(self.store.clone(), &sinks);
        (next.info, next.until_eof, next.expansion) =
            (self.info.clone(), self.until_eof, self.expansion);
        (next.held_dir, next.folder) = (self.held_dir.clone(), self.folder.clone());
        next.now.unix_ns = self.now.unix_ns + 1_000_000_000;
        next
    }
}
