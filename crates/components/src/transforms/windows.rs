//! Groups events by window: the shared code of the `rules` and `aggregate` transforms.
//!
//! Both are merge transforms. A worker evaluates all tasks over a batch and aggregates the groups
//! of each task (`encoder`). The lane merges these partial results in order (`lane`, `tasks`), and
//! appends the changes to a snapshot (`snapshot`), which is committed with the checkpoints of the
//! events in it. Each event therefore counts exactly once, even after a crash.

mod definition;
mod delay;
mod emit;
mod encoder;
mod lane;
mod names;
mod result;
#[cfg(test)]
pub mod rig;
mod snapshot;
mod stats;
mod tasks;
#[cfg(test)]
mod tests;

pub use definition::{Definition, TaskDefinition};
pub use emit::{Emit, is_field};
pub use encoder::names as field_names;
pub use names::{check_names, escaped, is_name};
pub use snapshot::rewrite_snapshot;

use encoder::TaskEncoder;
use lane::WindowLane;
use millstream_model::snapshot::TaskSnapshot;
use millstream_model::{BuildError, Encoder, Lane, LaneCx, Sink};
use millstream_rules::Plan;
use stats::Stats;
use std::sync::Arc;

/// Minimum number of bytes that is declared for a payload.
const PAYLOAD_BYTES_MIN: u64 = 64 << 10;

/// A merge transform: tasks over the same events.
pub struct Windows {
    plan: Arc<Plan>,
    definitions: Arc<[Arc<Definition>]>,
    /// Names of the event fields that the tasks read.
    names: Arc<[String]>,
    memory_bytes_max: u64,
    stats: Arc<Stats>,
}

impl Windows {
    /// Plans tasks. Their groups take up to `memory_bytes_max` bytes; additional groups are counted
    /// together.
    ///
    /// # Errors
    ///
    /// Returns an error if a field cannot be computed.
    pub fn new(tasks: Vec<TaskDefinition>, memory_bytes_max: u64) -> Result<Windows, BuildError> {
        let names = encoder::names(&tasks);
        let (tasks, definitions): (Vec<_>, Vec<_>) =
            tasks.into_iter().map(|task| (Arc::new(task.task), Arc::new(task.definition))).unzip();
        let plan = Plan::new(&tasks).map_err(|error| BuildError::Options(error.to_string()))?;
        let stats = Arc::new(Stats::new(tasks.len()));
        Ok(Windows {
            plan: Arc::new(plan),
            definitions: definitions.into(),
            names: names.into(),
            memory_bytes_max,
            stats,
        })
    }
}

impl Sink for Windows {
    fn encoder(&self) -> Box<dyn Encoder> {
        Box::new(TaskEncoder::new(self.plan.clone(), self.names.clone(), self.stats.clone()))
    }

    /// Returns a name that is never stored, because only sinks have a disk buffer, and partial
    /// results belong to this plan.
    fn payload_format(&self) -> String {
        "windows".to_owned()
    }

    fn payload_bytes_max(&self, block_bytes: u64, rows: u64) -> u64 {
        // A payload may exceed this size, because thousands of tasks can match a line, although
        // usually few do. The next read then waits for the difference.
        PAYLOAD_BYTES_MIN.max(block_bytes) + rows * 32
    }

    fn state_bytes_min(&self) -> u64 {
        self.memory_bytes_max
    }

    fn tasks(&self) -> Vec<TaskSnapshot> {
        self.stats.snapshot(&self.definitions)
    }

    fn lane(&self, cx: LaneCx) -> Box<dyn Lane> {
        Box::new(WindowLane::open(self, cx))
    }
}
