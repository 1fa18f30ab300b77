//! The `rules` transform counts and measures events with thousands of tasks at the same time.

mod config;
mod task;

pub use config::RulesConfig;

use crate::transforms::windows::{TaskDefinition, field_names};
use millstream_rules::{InvalidField, Plan};
use std::sync::Arc;

/// The plan of the tasks, for tools that do not run an agent.
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// Names of the event fields that the tasks read.
    pub names: Vec<String>,
}

impl RulesConfig {
    /// Plans the tasks.
    ///
    /// # Errors
    ///
    /// Returns an error if a field cannot be computed.
    pub fn plan(&self) -> Result<Planned, InvalidField> {
        let tasks: Vec<TaskDefinition> = self.definitions();
        let names = field_names(&tasks);
        let tasks: Vec<_> = tasks.into_iter().map(|task| Arc::new(task.task)).collect();
        Ok(Planned { plan: Plan::new(&tasks)?, names })
    }
}

#[cfg(test)]
mod tests;
