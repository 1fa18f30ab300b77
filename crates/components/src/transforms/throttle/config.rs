//! Configuration of transform `throttle`.

use super::Throttle;
use crate::registry::{Component, TransformComponent};
use crate::template::TextTemplate;
use millstream_model::{BuildError, Interval, Transform};
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;

/// Options of transform `throttle`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThrottleConfig {
    /// Events that may pass in each window.
    pub events: u64,
    /// The window.
    #[serde(default = "second")]
    pub window: Interval,
    /// Each key has a window of its own; without it all events share one.
    pub key: Option<TextTemplate>,
    /// What becomes of what is too much.
    #[serde(default)]
    pub on_excess: OnExcess,
    /// Keys that are remembered at most.
    #[serde(default = "keys_max")]
    pub keys_max: usize,
}

/// What becomes of what is too much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnExcess {
    /// It is dropped and counted.
    #[default]
    Drop,
    /// It passes, and the source is read more slowly.
    Slow,
}

fn second() -> Interval {
    Interval(Duration::from_secs(1))
}

fn keys_max() -> usize {
    10_000
}

impl Component for ThrottleConfig {
    fn check(&self) -> Vec<(String, String)> {
        let mut faults = Vec::new();
        let mut fault =
            |key: &str, message: &str| faults.push((key.to_owned(), message.to_owned()));
        if self.events == 0 {
            fault("/events", "lets nothing pass; write how many events may pass in a window");
        }
        if self.keys_max == 0 {
            fault("/keys_max", "remembers no key; write for example 10000");
        }
        if self.on_excess == OnExcess::Slow && self.key.is_some() {
            fault(
                "/on_excess",
                "a source has no keys that could wait alone; write on_excess: drop, or remove key",
            );
        }
        faults
    }
}

impl TransformComponent for ThrottleConfig {
    fn build(self) -> Result<Transform, BuildError> {
        Ok(Transform::Serial(Box::new(Throttle::new(self))))
    }
}
