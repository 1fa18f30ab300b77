//! The tasks of a transform.

use serde::Serialize;

/// A task of a transform, and what it costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TaskSnapshot {
    /// Its name.
    pub task: String,
    /// Events that passed its index or search, or all without one.
    pub examined: u64,
    /// Events that matched.
    pub matched: u64,
    /// Its share of the time of all tasks of the transform, from 0 to 1, measured in some batches.
    pub time_share: f64,
    /// Events for which it failed, of an operator's script.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<u64>,
    /// Time that it took, of an operator's script, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Groups of its open windows.
    pub groups: u64,
    /// Memory of these in bytes.
    pub memory_bytes: u64,
    /// Longest time from the end of a window until its last result was emitted, in seconds.
    pub emit_delay_seconds_max: f64,
    /// Windows whose last result was emitted after it was due.
    pub overdue_windows: u64,
}
