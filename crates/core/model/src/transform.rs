//! The four kinds of transform.
//!
//! A transform is a function: time and randomness are given, never read. Its output 0 is the main
//! one; side outputs follow in the order its registry row names them.

use crate::batch::Batch;
use crate::counters::Counters;
use crate::error::ComponentError;
use crate::time::Now;
use std::sync::Arc;

/// A transform as the registry builds it.
pub enum Transform {
    /// Fused into the worker's chain; each worker has an instance of its own.
    Map(Arc<dyn Fn() -> Box<dyn Map> + Send + Sync>),
    /// One instance, fed in ticket order.
    Serial(Box<dyn Serial>),
    /// A shard per worker, merged on flush.
    Merge(Box<dyn Merge>),
    /// Runs on a pool of its own, out of order.
    Offload(Arc<dyn Offload>),
}

/// Where a transform puts what it makes, and says what became of the rest.
#[derive(Default)]
pub struct Outputs {
    /// Everything sent, with its output, in order.
    pub batches: Vec<(usize, Batch)>,
    /// Counters of the transform: it counts there what it drops, and what goes through incomplete.
    pub counters: Arc<Counters>,
    /// What is to be said in the agent's log, behind the transform's name.
    pub warning: Option<String>,
    /// The output to which it sends what it refuses.
    pub rejected: Option<usize>,
    /// How long the source is not to be read: what came of it is more than it should be.
    pub pause: Option<std::time::Duration>,
}

impl Outputs {
    /// Sends `batch` to `output`.
    pub fn send(&mut self, output: usize, batch: Batch) {
        self.batches.push((output, batch));
    }
}

/// Changes one batch at a time, in any order.
pub trait Map: Send {
    /// Must give the same for the same rows, however they are cut into batches.
    fn apply(&mut self, batch: Batch, out: &mut Outputs) -> Result<(), ComponentError>;
}

/// Changes batches in ticket order, with state.
pub trait Serial: Send {
    /// Sees every batch of a source in the order it was read.
    fn apply(&mut self, now: Now, batch: Batch, out: &mut Outputs) -> Result<(), ComponentError>;
}

/// Aggregates: workers fold into shards, a flush merges them.
pub trait Merge: Send {
    /// A shard for one worker.
    fn shard(&self) -> Box<dyn Shard>;

    /// Merges what the shards hold into batches. The shards are empty afterwards.
    fn flush(
        &mut self,
        now: Now,
        shards: &mut [Box<dyn Shard>],
        out: &mut Outputs,
    ) -> Result<(), ComponentError>;
}

/// One worker's part of an aggregate.
pub trait Shard: Send + std::any::Any {
    /// Takes a batch in; holds what it owes until the flush.
    fn fold(&mut self, batch: &Batch) -> Result<(), ComponentError>;
}

/// Changes batches on threads of its own: calls that are long or may block.
pub trait Offload: Send + Sync {
    /// Threads that may be inside [`Offload::apply`] at once.
    fn threads(&self) -> usize;

    /// Called from those threads.
    fn apply(&self, batch: Batch, out: &mut Outputs) -> Result<(), ComponentError>;
}
