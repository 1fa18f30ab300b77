//! The four kinds of transform.
//!
//! A transform is a pure function: time and randomness are arguments. Output 0 is the main one;
//! side outputs follow in the order of its registry row.

use crate::batch::Batch;
use crate::counters::Counters;
use crate::error::ComponentError;
use crate::limits::BLOCK_BYTES;
use crate::sink::Sink;
use crate::snapshot::TaskSnapshot;
use crate::time::Now;
use std::sync::Arc;
use std::time::Duration;

/// A transform, as the registry builds it.
pub enum Transform {
    /// Fused into the worker's chain; each worker has its own instance.
    Map(Arc<dyn Fn() -> Box<dyn Map> + Send + Sync>),
    /// One instance, fed in ticket order.
    Serial(Box<dyn Serial>),
    /// A sink of its input, whose lane folds what workers have encoded, and whose [`LaneCx::feed`]
    /// takes the results.
    ///
    /// [`LaneCx::feed`]: crate::LaneCx::feed
    Merge(Arc<dyn Sink>),
    /// Runs on a pool of threads, out of order.
    Offload(Arc<dyn Offload>),
}

/// Collects the output of a transform, and what happened to the rest.
#[derive(Default)]
pub struct Outputs {
    /// Batches sent, each with its output, in order.
    pub batches: Vec<(usize, Batch)>,
    /// The transform's counters, for what it drops or passes incomplete.
    pub counters: Arc<Counters>,
    /// A message for the agent's log; the transform's name is prepended.
    pub warning: Option<String>,
    /// The output for rejected events.
    pub rejected: Option<usize>,
    /// How long to pause the source, if it exceeds its rate.
    pub pause: Option<Duration>,
}

impl Outputs {
    /// Sends `batch` to `output`.
    pub fn send(&mut self, output: usize, batch: Batch) {
        self.batches.push((output, batch));
    }
}

/// Transforms one batch at a time, in any order.
pub trait Map: Send {
    /// Transforms `batch`. Must give the same result for the same rows, however they are cut into
    /// batches.
    fn apply(&mut self, batch: Batch, out: &mut Outputs) -> Result<(), ComponentError>;
}

/// Transforms batches in ticket order, with state.
pub trait Serial: Send {
    /// Transforms `batch`; sees every batch of a source in read order.
    fn apply(&mut self, now: Now, batch: Batch, out: &mut Outputs) -> Result<(), ComponentError>;
}

/// Transforms batches on the engine's pool of threads: calls that are long or may block.
pub trait Offload: Send + Sync {
    /// Returns how many calls may run at once, abandoned ones included.
    fn concurrency(&self) -> usize;

    /// Returns how long a call may take. After that it is abandoned: [`Offload::expired`] decides
    /// about its batches, and what it returns is ignored. `None` for any time.
    fn deadline(&self) -> Option<Duration> {
        None
    }

    /// Returns how many of its calls may hang before no more are made: from then on its batches are
    /// handed back at once, until a call returns. `None` for any number.
    fn hanging_max(&self) -> Option<usize> {
        None
    }

    /// Returns the most bytes that it makes of one block.
    fn output_bytes_max(&self) -> u64 {
        BLOCK_BYTES as u64
    }

    /// Returns the most tickets whose batches one call gets.
    fn tickets_max(&self) -> usize {
        1
    }

    /// Returns its tasks, if it has any that users can name.
    fn tasks(&self) -> Vec<TaskSnapshot> {
        Vec::new()
    }

    /// Transforms batches. `outputs` has one item per batch; `now` is when the call begins.
    fn apply(
        &self,
        now: Now,
        batches: Vec<Batch>,
        outputs: &mut [Outputs],
    ) -> Result<(), ComponentError>;

    /// Ends the calls that wait for something outside of the agent, which then fail; calls that run
    /// continue. Called when a reload or a stop cannot wait any longer. Returns at once.
    fn let_go(&self) {}

    /// Decides about a batch whose call has exceeded its deadline: by default the batch is dropped
    /// and counted. Returns at once.
    fn expired(&self, batch: Batch, out: &mut Outputs) {
        out.counters.dropped("deadline", batch.events() as u64);
    }
}
