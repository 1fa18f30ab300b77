//! A transform's tasks.

use serde::Serialize;

/// A task in a transform, with its counts and its cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TaskSnapshot {
    /// Name of the task.
    pub task: String,
    /// Events that passed the task's index or search; all events if the task has neither.
    pub examined: u64,
    /// Events that matched.
    pub matched: u64,
    /// The task's share of the time of all tasks in the transform, from 0 to 1, measured on a
    /// sample of batches.
    pub time_share: f64,
    /// Events for which an operator's script failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<u64>,
    /// Time spent in an operator's script, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Groups in the open windows.
    pub groups: u64,
    /// Memory used by these groups, in bytes.
    pub memory_bytes: u64,
    /// Maximum time from the end of a window until its last result was emitted, in seconds.
    pub emit_delay_seconds_max: f64,
    /// Windows whose last result was emitted late.
    pub overdue_windows: u64,
}
