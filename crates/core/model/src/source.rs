//! The contract between a source and the engine.

use crate::batch::{Batch, SourceInfo};
use crate::block::{Block, BlockPool};
use crate::counters::Counters;
use crate::grant::{Grant, Permit};
use crate::internal_logs::InternalLogs;
use crate::internal_metrics::InternalMetrics;
use crate::ledger::Ledger;
use crate::limits::BLOCK_BYTES;
use crate::origin::Unreadable;
use crate::pressure::MemoryPressure;
use crate::sinkset::{SinkIndex, SinkSet};
use crate::store::OriginStore;
use crate::time::Now;
use std::ops::AddAssign;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Reads data from outside the agent.
///
/// One worker thread at a time polls the source and runs the chain on the batch while it is in
/// cache; meanwhile, another worker may poll the next batch. The order of the returned batches is
/// the order of the source's tickets. A poll must be short. It reads the available data and never
/// waits.
pub trait Source: Send {
    /// Returns the next batch, or the time of the next poll.
    fn poll(&mut self, cx: &mut SourceCx<'_>) -> Polled;

    /// Replaces the source's sinks, given as indices and ids, after a reload. The next poll is the
    /// first to use the new sinks. Remaining sinks keep their index and id; the ledger has
    /// forgotten the removed sinks. A source that can read data twice gives each new sink a cursor
    /// and an account in the ledger. Other sources do nothing, and a new sink gets only the data
    /// read after the change.
    fn set_sinks(&mut self, _: &[(SinkIndex, String)]) {}

    /// Stops reading, because the agent is stopping (`for_good`), or because a reload removes or
    /// replaces the source. Returns whether the source still keeps data back. If so, the source is
    /// polled until it has ended.
    fn close(&mut self, _for_good: bool) -> bool {
        false
    }

    /// Returns whether data arrives even if the source is not polled. If so, delaying the polls
    /// saves nothing.
    fn is_live(&self) -> bool {
        false
    }

    /// Returns whether the source can leave data unread and read it later without loss. If so, each
    /// sink queues only the data that it will deliver soon, so that a quiet origin does not wait
    /// behind a busy one.
    fn can_wait(&self) -> bool {
        false
    }

    /// Returns whether a disk buffer takes the source's data when a sink's queue is full.
    /// Otherwise, the data waits in the source. A source that overflows although its data can wait
    /// uses [`SourceCx::overflow`] to choose the data to read for disk buffers.
    fn overflows(&self) -> bool {
        !self.can_wait()
    }

    /// Returns whether the source, after it is reopened, rereads the data that its sinks have not
    /// settled.
    fn reads_again(&self) -> bool {
        self.can_wait()
    }

    /// Continues after [`Source::close`], because the reload failed.
    fn reopen(&mut self) {}

    /// Makes durable, before `deadline`, the data that the sinks have not settled and that the
    /// agent could not reread after a restart. Called when the source is no longer polled, because
    /// the agent is stopping or a reload removes the source, while sinks are still delivering. The
    /// call may block. If the reload fails, the source is polled again.
    fn hold(&mut self, _deadline: Instant) {}

    /// Returns the unsettled remainder, counts the part of it that is lost, and releases data that
    /// no longer needs to be held. Called once, after the last commit of checkpoints. Returns
    /// `None` if the source cannot read data twice. In that case, all data that its sinks have not
    /// settled is lost.
    fn leave(&mut self) -> Option<Leftover> {
        None
    }
}

/// Unsettled data that a source leaves when it stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leftover {
    /// Data on disk, which the agent reads after a restart.
    pub waiting: Remainder,
    /// Lost data, which the agent cannot read after a restart.
    pub lost: Remainder,
}

/// An amount of data, as a number of files, bytes and events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remainder {
    /// Number of files.
    pub files: u64,
    /// Bytes in these files.
    pub bytes: u64,
    /// Events in these bytes, if they were counted.
    pub events: u64,
}

impl Remainder {
    /// Adds a file with `bytes` and `events`.
    pub fn add_file(&mut self, bytes: u64, events: u64) {
        *self += Remainder { files: 1, bytes, events };
    }
}

impl AddAssign for Remainder {
    fn add_assign(&mut self, other: Remainder) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.events += other.events;
    }
}

impl AddAssign for Leftover {
    fn add_assign(&mut self, other: Leftover) {
        self.waiting += other.waiting;
        self.lost += other.lost;
    }
}

/// Wakes a waiting source, from any thread.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// Resources that a source gets when it opens, before its first poll.
#[derive(Clone)]
pub struct SourceOpen {
    /// Properties that this source's events share.
    pub info: Arc<SourceInfo>,
    /// The source's sinks: indices and ids.
    pub sinks: Vec<(SinkIndex, String)>,
    /// State saved before the restart.
    pub store: Arc<dyn OriginStore>,
    /// The source's folder in `data_dir`, for data that must outlive its file; created on demand.
    pub held_dir: PathBuf,
    /// Ledger of the source.
    pub ledger: Arc<Ledger>,
    /// Counters of the source.
    pub counters: Arc<Counters>,
    /// Collects reports about paths and servers that cannot be read.
    pub unreadable: Arc<Unreadable>,
    /// Wakes the source, so that it is polled soon.
    pub wake: Wake,
    /// The agent's internal metrics.
    pub internal_metrics: InternalMetrics,
    /// The agent's log records.
    pub internal_logs: InternalLogs,
    /// The memory pressure of the process.
    pub pressure: Arc<MemoryPressure>,
    /// Whether to read only the existing data and then end.
    pub until_eof: bool,
}

/// The result of a poll.
pub enum Polled {
    /// A batch, and the permit for the chain's output. The engine polls again as soon as possible.
    Batch(Box<Batch>, Permit),
    /// No data. The engine polls again after this time, or when woken.
    Wait(Duration),
    /// There is data, but the grant or a sink has no capacity. The engine polls again once there is
    /// capacity.
    Backpressure,
    /// All data was read, and no more will come.
    Ended,
}

/// Resources that the engine passes to a poll.
pub struct SourceCx<'a> {
    /// The current time, on both clocks.
    pub now: Now,
    /// Properties that this source's events share.
    pub info: &'a Arc<SourceInfo>,
    /// All sinks of this source.
    pub sinks: SinkSet,
    /// The sinks with capacity for more data.
    pub ready: SinkSet,
    /// Sinks that have lacked capacity for so long that the other sinks continue without them.
    pub blocked: SinkSet,
    /// Sinks whose disk buffers have capacity for this source. Only set if the source
    /// [`Source::overflows`] although its data could wait.
    pub overflow: SinkSet,
    /// Ledger of the source.
    pub ledger: &'a Arc<Ledger>,
    /// Counters of the source.
    pub counters: &'a Counters,
    /// Whether to read only the existing data and then end.
    pub until_eof: bool,
    /// Whether the sink that feeds this source, if any, will create no more events.
    pub has_input_ended: bool,
    /// The memory allowance.
    pub grant: &'a Arc<Grant>,
    /// Provides blocks to read into.
    pub pool: &'a Arc<BlockPool>,
    /// Maximum bytes that the chain produces for one block, as declared by its sinks.
    pub expansion: u64,
}

impl SourceCx<'_> {
    /// Takes a block of at least `bytes` bytes, and the permit for its chain. Returns `None` if the
    /// grant has no capacity.
    pub fn block(&self, bytes: usize) -> Option<(Block, Permit)> {
        let bytes = bytes.max(BLOCK_BYTES);
        let mut permit = self.grant.try_take(bytes as u64 + self.expansion)?;
        let own = permit.split(bytes as u64);
        Some((self.pool.block(bytes, own), permit))
    }
}
