//! Thousands of tasks over batches of lines: the cost of a line grows with the tasks that match it.
//!
//! A separate crate because it is pure and fuzzed alone.
//!
//! A [`Plan`] is made once from all tasks. It extracts each distinct field once per row, reuses the
//! position of a string that several extractions begin with, and gives every task a *gate*: an
//! equality that is looked up in an index by value, or a literal that one search finds together
//! with those of all other tasks. An [`Evaluator`] runs the plan on a batch: the remaining
//! conditions of a task are evaluated only for the rows that pass its gate, and the rows that match
//! are added up to one partial result per task, window and group.

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
pub use partial::{MergeBuffers, Merged, Partial, PartialReader, TaskPartial, has_sections};
pub use plan::{InvalidField, Plan, TaskPlan};
pub use task::{Extraction, Field, FieldType, Input, Task};

#[cfg(test)]
mod tests;
