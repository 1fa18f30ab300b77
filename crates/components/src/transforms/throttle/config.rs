//! Configuration of the `throttle` transform.

use super::Throttle;
use crate::component::{BuildCx, Component, TransformComponent};
use crate::util::template::TextTemplate;
use millstream_model::{BuildError, Interval, OptionError, Transform};
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;

/// Options for the `throttle` transform.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThrottleConfig {
    /// Maximum number of events per window.
    pub events: u64,
    /// Window length.
    #[serde(default = "second")]
    pub window: Interval,
    /// Template for an event's key. Each key has a separate window; without `key`, all events share
    /// one window.
    pub key: Option<TextTemplate>,
    /// What happens to events beyond the limit.
    #[serde(default)]
    pub on_excess: OnExcess,
    /// Maximum number of tracked keys; additional keys share one window.
    #[serde(default = "keys_max")]
    pub keys_max: usize,
}

/// What happens to events beyond the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnExcess {
    /// The events are dropped and counted.
    #[default]
    Drop,
    /// The events pass through, and the source is slowed down, so that no file data is lost.
    Slow,
}

fn second() -> Interval {
    Interval(Duration::from_secs(1))
}

fn keys_max() -> usize {
    10_000
}

impl Component for ThrottleConfig {
    fn check(&self) -> Vec<OptionError> {
        let mut errors = Vec::new();
        let mut error = |key: &str, message: &str| errors.push(OptionError::new(key, message));
        if self.events == 0 {
            error(
                "/events",
                "must be at least 1; use the number of events that may pass per window",
            );
        }
        if self.keys_max == 0 {
            error("/keys_max", "must be at least 1; use, for example, 10000");
        }
        if self.on_excess == OnExcess::Slow && self.key.is_some() {
            error(
                "/on_excess",
                "cannot slow down the events for a single key; use on_excess: drop, or remove key",
            );
        }
        errors
    }
}

impl TransformComponent for ThrottleConfig {
    fn build(&self, _: &BuildCx<'_>) -> Result<Transform, BuildError> {
        Ok(Transform::Serial(Box::new(Throttle::new(self.clone()))))
    }
}
