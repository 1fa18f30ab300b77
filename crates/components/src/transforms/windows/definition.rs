//! What decides the results of a task.

use super::emit::Emit;
use millstream_groups::{Accumulator, Layout};
use millstream_rules::{Input, Task};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Longest window in seconds: its nanoseconds fit into the integers of times.
pub const WINDOW_S_MAX: u64 = i64::MAX as u64 / 1_000_000_000;

/// The field that samples are taken from.
const SAMPLED: &str = "message";

/// A task, and what decides its results.
pub struct TaskDefinition {
    /// What is added up.
    pub task: Task,
    /// What is made of it.
    pub definition: Definition,
}

/// What decides the results of a task. Part of every snapshot: a window that began under another
/// definition ends under that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    /// Name of the task; empty for that of the transform.
    pub name: String,
    /// Everything else that decides which events it takes, as text: two definitions with the same
    /// text are the same.
    pub selection: String,
    /// The fields whose values make a group.
    pub group_by: Vec<String>,
    /// The functions, with their names.
    pub emit: Vec<(String, Emit)>,
    /// Number of sample lines per group; 0 for none.
    pub samples: u16,
    /// Length of the windows in seconds.
    pub window_s: u64,
    /// How long a window by the time of events is kept open for late ones, in nanoseconds; `None`
    /// for windows by arrival.
    pub lateness_ns: Option<i64>,
    /// Time after the end of a window at which its results are due, in nanoseconds.
    pub due_ns: Option<i64>,
    /// Importance of the task under overload; a higher one comes first.
    pub priority: i32,
    /// Maximum number of groups of a window.
    pub groups_max: usize,
}

impl Definition {
    /// Returns the inputs of its functions, each once.
    pub fn inputs(&self) -> Vec<Input> {
        let mut inputs: Vec<Input> = Vec::new();
        let sampled = (self.samples > 0).then(|| Input {
            accumulator: Accumulator::Samples { size: self.samples },
            field: Some(SAMPLED.to_owned()),
        });
        for input in self.emit.iter().flat_map(|(_, emit)| emit.inputs()).chain(sampled) {
            if !inputs.contains(&input) {
                inputs.push(input);
            }
        }
        inputs
    }

    /// Returns the layout of a group.
    pub fn layout(&self) -> Arc<Layout> {
        let accumulators: Vec<Accumulator> =
            self.inputs().iter().map(|input| input.accumulator).collect();
        Arc::new(Layout::new(&accumulators))
    }

    /// Returns the length of its windows.
    pub fn window(&self) -> Duration {
        Duration::from_secs(self.window_s)
    }

    /// Returns the length of its windows in nanoseconds.
    pub fn window_ns(&self) -> i64 {
        window_ns(self.window_s)
    }
}

/// Returns the length of windows of this many seconds in nanoseconds.
pub fn window_ns(window_s: u64) -> i64 {
    Duration::from_secs(window_s).as_nanos() as i64
}
