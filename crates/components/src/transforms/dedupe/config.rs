//! Configuration of the `dedupe` transform.

use super::Dedupe;
use crate::component::{BuildCx, Component, TransformComponent};
use crate::util::template::TextTemplate;
use millstream_model::{BuildError, Interval, OptionError, Transform};
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;

/// Options for the `dedupe` transform.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DedupeConfig {
    /// Template that identifies an event: events with the same text are duplicates. The default is
    /// the message.
    pub key: Option<TextTemplate>,
    /// How long an event is remembered after it is first seen. Duplicates do not extend this time.
    #[serde(default = "minute")]
    pub window: Interval,
    /// Maximum number of remembered events; beyond this number, the oldest event is evicted. An
    /// event takes about 100 bytes.
    #[serde(default = "keys_max")]
    pub keys_max: usize,
}

fn minute() -> Interval {
    Interval(Duration::from_secs(60))
}

fn keys_max() -> usize {
    100_000
}

impl Component for DedupeConfig {
    fn check(&self) -> Vec<OptionError> {
        let message = "must be at least 1; use, for example, 100000";
        let error = || OptionError::new("/keys_max", message);
        (self.keys_max == 0).then(error).into_iter().collect()
    }
}

impl TransformComponent for DedupeConfig {
    fn build(&self, _: &BuildCx<'_>) -> Result<Transform, BuildError> {
        Ok(Transform::Serial(Box::new(Dedupe::new(self.clone()))))
    }
}
