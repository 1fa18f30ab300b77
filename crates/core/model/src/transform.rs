//! The four kinds of transform.
//!
//! A transform is a pure function: time and randomness are arguments. Output 0 is the main output;
//! side outputs follow in the order of the transform's registry row.

use crate::batch::Batch;
use crate::counters::Counters;
use crate::error::ComponentError;
use crate::limits::BLOCK_BYTES;
use crate::sink::Sink;
use crate::snapshot::TaskSnapshot;
use crate::time::Now;
use std::sync::Arc;
use std::time::Duration;

/// A transform, in the form in which the registry builds it.
pub enum Transform {
    /// Fused into the worker's chain, with one instance per worker.
    Map(Arc<dyn Fn() -> Box<dyn Map> + Send + Sync>),
    /// One instance, fed in ticket order.
    Serial(Box<dyn Serial>),
    /// A sink for the transform's input. Its lane folds the payloads that workers have encoded, and
    /// [`LaneCx::feed`] takes the results.
    ///
    /// [`LaneCx::feed`]: crate::LaneCx::feed
    Merge(Arc<dyn Sink>),
    /// Runs on a pool of threads, out of order.
    Offload(Arc<dyn Offload>),
}

/// The output of a transform, and the treatment of events that it drops or rejects.
#[derive(Default)]
pub struct Outputs {
    /// Batches sent, each with the index of its output, in order.
    pub batches: Vec<(usize, Batch)>,
    /// The transform's counters, for events that it drops or passes on incomplete.
    pub counters: Arc<Counters>,
    /// A message for the agent's log; the transform's name is prepended.
    pub warning: Option<String>,
    /// Index of the output for rejected events, if there is one.
    pub rejected: Option<usize>,
    /// How long to pause the source, if the transform's rate limit has been exceeded.
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
    /// Transforms `batch`. The result for a row must not depend on how rows are divided into
    /// batches.
    fn apply(&mut self, batch: Batch, out: &mut Outputs) -> Result<(), ComponentError>;
}

/// Transforms batches in ticket order, with state.
pub trait Serial: Send {
    /// Transforms `batch`. Called with all batches of a source, in read order.
    fn apply(&mut self, now: Now, batch: Batch, out: &mut Outputs) -> Result<(), ComponentError>;
}

/// Transforms batches on the engine's thread pool, for calls that are long or may block.
pub trait Offload: Send + Sync {
    /// Returns how many calls may run at the same time, including abandoned calls.
    fn concurrency(&self) -> usize;

    /// Returns the maximum duration of a call; `None` for no limit. After that time the call is
    /// abandoned: [`Offload::expired`] handles its batches, and the call's result is ignored.
    fn deadline(&self) -> Option<Duration> {
        None
    }

    /// Returns the number of hanging calls at which no more calls are made; `None` for no limit. At
    /// this number, batches expire immediately until a call returns.
    fn hanging_max(&self) -> Option<usize> {
        None
    }

    /// Returns the maximum bytes that the transform produces for one block.
    fn output_bytes_max(&self) -> u64 {
        BLOCK_BYTES as u64
    }

    /// Returns the maximum number of tickets whose batches are passed to one call.
    fn tickets_max(&self) -> usize {
        1
    }

    /// Returns the tasks that users have configured in the transform, if any.
    fn tasks(&self) -> Vec<TaskSnapshot> {
        Vec::new()
    }

    /// Transforms batches. `outputs` contains one item for each batch; `now` is the time at which
    /// the call begins.
    fn apply(
        &self,
        now: Now,
        batches: Vec<Batch>,
        outputs: &mut [Outputs],
    ) -> Result<(), ComponentError>;

    /// Ends calls that are waiting for something outside the agent; these calls then fail. Other
    /// calls continue. Called when a reload or shutdown cannot wait any longer. Returns
    /// immediately.
    fn let_go(&self) {}

    /// Handles a batch whose call has exceeded its deadline. By default the batch is dropped and
    /// counted. Returns immediately.
    fn expired(&self, batch: Batch, out: &mut Outputs) {
        out.counters.dropped("deadline", batch.events() as u64);
    }
}
