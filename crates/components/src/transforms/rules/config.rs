//! Configuration of the `rules` transform.

use super::task::TaskConfig;
use crate::component::{BuildCx, Component, TransformComponent};
use crate::transforms::windows::{TaskDefinition, Windows};
use millstream_model::{BuildError, OptionError, Size, Transform};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::HashSet;
use std::sync::Arc;

/// Maximum number of tasks in a transform.
const TASKS_MAX: usize = 100_000;

/// Smallest configurable memory limit for all groups.
const MEMORY_MIN: u64 = 1 << 20;

/// Options for the `rules` transform.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RulesConfig {
    /// Tasks, and patterns such as `tasks/*.yaml` for files with additional tasks.
    #[schemars(with = "Vec<TaskOrFiles>")]
    pub tasks: Vec<TaskConfig>,
    /// Maximum memory for all groups combined, taken from `limits.memory`, which must be at least
    /// four times as large. Above the maximum, events in additional groups are counted together
    /// under the `overflow` tag.
    #[serde(default = "memory")]
    pub memory: Size,
}

/// An entry of `tasks`. The program replaces each pattern with the tasks in the matching files
/// before it decodes the options.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum TaskOrFiles {
    #[schemars(extend("format" = "task-files"))]
    Files(String),
    Task(Box<TaskConfig>),
}

fn memory() -> Size {
    Size(16 << 20)
}

impl Component for RulesConfig {
    fn check(&self) -> Vec<OptionError> {
        let mut errors = Vec::new();
        if self.memory.0 < MEMORY_MIN {
            errors.push(OptionError::new("/memory", "is too small; use 1MiB or more"));
        }
        if self.tasks.len() > TASKS_MAX {
            errors.push(OptionError::new("/tasks", "are more than 100000; use several transforms"));
        }
        let mut names = HashSet::new();
        for (index, task) in self.tasks.iter().enumerate() {
            let at = format!("/tasks/{index}");
            if !names.insert(&task.name) {
                let message =
                    format!("another task is already named `{}`; rename one of them", task.name);
                errors.push(OptionError::new(format!("{at}/name"), message));
            }
            errors.extend(task.check().into_iter().map(|error| error.below(&at)));
        }
        errors
    }

    fn makes_metrics(&self) -> bool {
        true
    }
}

impl RulesConfig {
    pub(super) fn definitions(&self) -> Vec<TaskDefinition> {
        self.tasks.iter().map(TaskConfig::definition).collect()
    }
}

impl TransformComponent for RulesConfig {
    fn build(&self, _: &BuildCx<'_>) -> Result<Transform, BuildError> {
        Ok(Transform::Merge(Arc::new(Windows::new(self.definitions(), self.memory.0)?)))
    }
}
