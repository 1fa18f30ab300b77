//! The properties of a task that determine its results.

use super::emit::Emit;
use millstream_groups::{Accumulator, Layout};
use millstream_rules::{Input, Task};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Longest window in seconds, chosen so that the length in nanoseconds fits into an integer
/// timestamp.
pub const WINDOW_S_MAX: u64 = i64::MAX as u64 / 1_000_000_000;

/// Field that the samples are taken from.
const SAMPLED: &str = "message";

/// A task with its definition.
pub struct TaskDefinition {
    /// The task that aggregates events.
    pub task: Task,
    /// The definition of its results.
    pub definition: Definition,
}

/// The definition of a task's results. It is part of every snapshot: a window that began with
/// another definition also ends with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    /// Name of the task; empty to use the name of the transform.
    pub name: String,
    /// All other properties that select events, as text. Two definitions with the same text select
    /// the same events.
    pub selection: String,
    /// Fields whose values form a group.
    pub group_by: Vec<String>,
    /// Functions with their names.
    pub emit: Vec<(String, Emit)>,
    /// Number of sample messages per group; 0 for none.
    pub samples: u16,
    /// Window length in seconds.
    pub window_s: u64,
    /// Time that an event-time window waits for late events, in nanoseconds; `None` for
    /// arrival-time windows.
    pub lateness_ns: Option<i64>,
    /// Time after the end of a window at which its results are due, in nanoseconds.
    pub due_ns: Option<i64>,
    /// Priority of the task under overload. Higher numbers come first.
    pub priority: i32,
    /// Maximum number of groups in a window.
    pub groups_max: usize,
}

impl Definition {
    /// Returns the inputs of the functions, without duplicates.
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

    /// Returns the length of the windows.
    pub fn window(&self) -> Duration {
        Duration::from_secs(self.window_s)
    }

    /// Returns the length of the windows in nanoseconds.
    pub fn window_ns(&self) -> i64 {
        window_ns(self.window_s)
    }
}

/// Returns the window length in nanoseconds for this many seconds.
pub fn window_ns(window_s: u64) -> i64 {
    Duration::from_secs(window_s).as_nanos() as i64
}
