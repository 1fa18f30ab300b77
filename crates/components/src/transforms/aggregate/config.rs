//! Configuration of the `aggregate` transform.

use crate::component::{BuildCx, Component, TransformComponent};
use crate::transforms::windows::{Definition, Emit, TaskDefinition, Windows, check_names};
use indexmap::IndexMap;
use millstream_model::{BuildError, Interval, OptionError, Size, Transform};
use millstream_rules::Task;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;

/// Shortest window.
const WINDOW_MIN: Duration = Duration::from_secs(1);

/// Longest window.
const WINDOW_MAX: Duration = Duration::from_secs(24 * 3600);

/// Maximum configurable number of groups. Each group takes memory in addition to `limits.memory`.
const GROUPS_MAX: usize = 1_000_000;

/// Options for the `aggregate` transform.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AggregateConfig {
    /// Aggregates by name: `count()`, or `count`, `sum`, `min`, `max` or `avg` of a field. Each
    /// aggregate of a group becomes one metric event per window.
    pub emit: IndexMap<String, Emit>,
    /// Fields whose values form a group; without any fields, all events form one group.
    #[serde(default)]
    pub group_by: Vec<String>,
    /// Window length: whole seconds, 1s to 24h. Windows are aligned to the clock.
    #[serde(default = "ten_seconds")]
    pub window: Interval,
    /// Maximum number of groups in a window, up to a million. Events in additional groups are
    /// counted together under the `overflow` tag. The limit bounds the number of metric series.
    #[serde(default = "groups_max")]
    pub groups_max: usize,
    /// Maximum memory for all groups combined, taken from `limits.memory`. Above the maximum,
    /// events in additional groups are counted together under the `overflow` tag.
    #[serde(default = "memory")]
    pub memory: Size,
}

fn memory() -> Size {
    Size(4 << 20)
}

fn ten_seconds() -> Interval {
    Interval(Duration::from_secs(10))
}

fn groups_max() -> usize {
    10_000
}

impl AggregateConfig {
    /// Returns the only task, named like the transform.
    fn definition(&self) -> TaskDefinition {
        let definition = Definition {
            name: String::new(),
            selection: String::new(),
            group_by: self.group_by.clone(),
            emit: self.emit.iter().map(|(name, emit)| (name.clone(), emit.clone())).collect(),
            samples: 0,
            window_s: self.window.0.as_secs(),
            lateness_ns: None,
            due_ns: None,
            priority: 0,
            groups_max: self.groups_max,
        };
        let task = Task {
            name: "".into(),
            fields: Vec::new(),
            condition: None,
            keys: self.group_by.clone(),
            inputs: definition.inputs(),
            window_ns: None,
        };
        TaskDefinition { task, definition }
    }
}

impl Component for AggregateConfig {
    fn check(&self) -> Vec<OptionError> {
        let mut errors = check_names(&self.emit, &self.group_by);
        let mut error = |key: String, message: &str| errors.push(OptionError::new(key, message));
        let window = self.window.0;
        if window.subsec_nanos() > 0 || window < WINDOW_MIN || window > WINDOW_MAX {
            error("/window".into(), "must be whole seconds, from 1s to 24h; use, for example, 10s");
        }
        if !(1..=GROUPS_MAX).contains(&self.groups_max) {
            error("/groups_max".into(), "must be from 1 to 1000000; use, for example, 10000");
        }
        errors
    }

    fn makes_metrics(&self) -> bool {
        true
    }
}

impl TransformComponent for AggregateConfig {
    fn build(&self, _: &BuildCx<'_>) -> Result<Transform, BuildError> {
        Ok(Transform::Merge(Arc::new(Windows::new(vec![self.definition()], self.memory.0)?)))
    }
}
