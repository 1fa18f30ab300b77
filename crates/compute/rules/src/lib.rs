//! Evaluates thousands of tasks on batches of lines. The cost per line depends on the tasks that
//! match.
//!
//! A separate crate because it is pure and fuzzed alone.
//!
//! A [`Plan`] is created once for all tasks. It extracts each distinct field once per row, and
//! reuses the position of a string after which several extractions begin. It assigns every task a
//! *gate*: an equality that an index looks up by value, or a literal that one search finds together
//! with the literals of all other tasks. An [`Evaluator`] runs the plan on a batch. It evaluates
//! the remaining conditions of a task only on rows that pass the task's gate, and aggregates the
//! matching rows into one partial result per task, window and group.

#![forbid(unsafe_code)]

mod batch;
mod bits;
mod explain;
mod frequent;
mod partial;
mod plan;
mod task;

pub use batch::{BatchRows, Evaluator, Sampling, TaskCounts};
pub use explain::Explanation;
pub use frequent::{FrequentKeys, KeyGroups};
pub use millstream_groups::Accumulator;
pub use partial::{
    MergeBuffers, MergeTarget, Merged, Partial, PartialReader, TaskPartial, has_sections,
};
pub use plan::{InvalidField, Plan, TaskPlan};
pub use task::{Extraction, Field, FieldType, Input, Task};

#[cfg(test)]
mod tests;
