//! The contract between a source and the engine.

use crate::batch::{Batch, SourceInfo};
use crate::block::{Block, BlockPool};
use crate::counters::Counters;
use crate::grant::{Grant, Permit};
use crate::internal_metrics::InternalMetrics;
use crate::ledger::Ledger;
use crate::limits::BLOCK_BYTES;
use crate::origin::Unreadable;
use crate::sinkset::SinkSet;
use crate::store::OriginStore;
use crate::time::Now;
use std::ops::AddAssign;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Takes data in.
///
/// A worker thread polls it, one at a time, and runs the chain on the batch it gets while that is
/// in cache; meanwhile another worker may poll the next batch. The order of the batches returned
/// is the order of the source's tickets. A poll must be short: it reads what is there and never
/// waits for more.
pub trait Source: Send {
    /// Produces the next batch, or says when to ask again.
    fn poll(&mut self, cx: &mut SourceCx<'_>) -> Polled;

    /// From the next poll on the source reaches these sinks, with their ids: a reload. Those that
    /// it reached before, under the same index and id, go on; the ledger has forgotten the others.
    /// A source that can read twice gives each that comes a cursor and an account in the ledger.
    /// Without one, which is all that other sources can do, it gets what is read from here on.
    fn set_sinks(&mut self, _: &[(usize, String)]) {}

    /// Nothing more is to be taken in: the agent stops (`for_good`), or a reload takes the source
    /// out and may put another in its place. A source that holds back some of what it has taken in
    /// answers `true`; then it is polled until it has ended.
    fn close(&mut self, _for_good: bool) -> bool {
        false
    }

    /// Whether it takes things in on its own, polled or not: to hold its polls back would save
    /// nothing.
    fn is_live(&self) -> bool {
        false
    }

    /// Whether what it does not read now stays where it is, and can be read later at no loss. Then
    /// only as much waits for each of its sinks as is delivered soon, so that a quiet origin is not
    /// behind a flood.
    fn can_wait(&self) -> bool {
        false
    }

    /// Goes on after [`Source::close`]: the reload was refused.
    fn reopen(&mut self) {}

    /// Makes durable what the sinks have not settled and the next start could not read again,
    /// before `deadline`. Called when the source is no longer polled, at a stop or because a reload
    /// takes it out, while sinks still deliver; it may block. A refused reload polls the source
    /// again.
    fn hold(&mut self, _deadline: Instant) {}

    /// Says what is left unsettled, counts what is lost of it, and releases what need not be held
    /// any more. Called once, after the last commit of checkpoints. `None` if the source cannot
    /// read twice: what its sinks have not settled is lost.
    fn leave(&mut self) -> Option<Leftover> {
        None
    }
}

/// What a source leaves unsettled at a stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leftover {
    /// On disk, and read at the next start.
    pub waiting: Remainder,
    /// Nowhere that the next start could read it.
    pub lost: Remainder,
}

/// A part of some files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remainder {
    /// Number of files.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Events in these bytes, as far as they were counted.
    pub events: u64,
}

impl Remainder {
    /// Adds `bytes` of one more file.
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

/// Wakes a source that waits, from any thread.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// What a source gets when it is opened, before its first poll.
#[derive(Clone)]
pub struct SourceOpen {
    /// What the events of this source share.
    pub info: Arc<SourceInfo>,
    /// The sinks it reaches, with their ids.
    pub sinks: Vec<(usize, String)>,
    /// What it kept over the restart.
    pub store: Arc<dyn OriginStore>,
    /// Its own folder below `data_dir`, for data that must outlive its file; made when it is
    /// needed.
    pub held_dir: PathBuf,
    /// Its ledger.
    pub ledger: Arc<Ledger>,
    /// Its counters.
    pub counters: Arc<Counters>,
    /// Where it says what it cannot read.
    pub unreadable: Arc<Unreadable>,
    /// Wakes it.
    pub wake: Wake,
    /// The agent's own metrics.
    pub internal_metrics: InternalMetrics,
    /// Read what is there, then end.
    pub until_eof: bool,
}

/// What a poll gave.
pub enum Polled {
    /// A batch, and the permit for what the chain will make of it. Polled again as soon as
    /// possible.
    Batch(Box<Batch>, Permit),
    /// Nothing now; poll again after this long, or earlier when woken.
    Wait(Duration),
    /// There is data, but the grant or a sink has no capacity: poll again when it has.
    Backpressure,
    /// Everything was read and nothing more will come.
    Ended,
}

/// What the engine hands to a poll.
pub struct SourceCx<'a> {
    /// Both clocks.
    pub now: Now,
    /// What the events of this source share.
    pub info: &'a Arc<SourceInfo>,
    /// The sinks this source reaches.
    pub sinks: SinkSet,
    /// The sinks with capacity for more.
    pub ready: SinkSet,
    /// Sinks without capacity for so long that the others continue without them.
    pub blocked: SinkSet,
    /// This source's ledger.
    pub ledger: &'a Arc<Ledger>,
    /// This source's counters.
    pub counters: &'a Counters,
    /// Read what is there, then end.
    pub until_eof: bool,
    /// The memory allowance.
    pub grant: &'a Arc<Grant>,
    /// Where blocks come from.
    pub pool: &'a Arc<BlockPool>,
    /// Bytes the chain may make of one block, as its sinks declared them.
    pub expansion: u64,
}

impl SourceCx<'_> {
    /// Takes a block of at least `bytes` and the permit for its chain, if the grant has room.
    pub fn block(&self, bytes: usize) -> Option<(Block, Permit)> {
        let bytes = bytes.max(BLOCK_BYTES);
        let mut permit = self.grant.try_take(bytes as u64 + self.expansion)?;
        let own = permit.split(bytes as u64);
        Some((self.pool.block(bytes, own), permit))
    }
}
