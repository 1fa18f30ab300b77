//! Resources that all of an engine's topologies share.

use crate::clock::EngineClock;
use crate::governor::MemoryState;
use crate::offload::OffloadPool;
use crate::removed::{RemovedCounters, RemovedSources};
use crate::scheduler::Scheduler;
use millstream_model::{BlockPool, EngineTime, Grant, Now};
use millstream_store::Store;
use std::sync::Arc;

/// Resources that all of an engine's topologies share. A reload keeps them.
pub(crate) struct Resources {
    pub clock: EngineClock,
    pub until_eof: bool,
    pub memory: Arc<MemoryState>,
    pub grant: Arc<Grant>,
    pub pool: Arc<BlockPool>,
    pub store: Arc<Store>,
    pub scheduler: Arc<Scheduler>,
    /// Threads that run offload transforms.
    pub offload: Arc<OffloadPool>,
    /// Number of worker threads.
    pub threads: usize,
    /// Sources that reloads have removed.
    pub removed: RemovedSources,
    /// The counters of components that reloads have removed.
    pub removed_counters: RemovedCounters,
}

impl Resources {
    /// Reads both clocks.
    pub fn now(&self) -> Now {
        self.clock.now()
    }

    /// Reads the monotonic clock.
    pub fn engine_time(&self) -> EngineTime {
        self.clock.engine_time()
    }
}
