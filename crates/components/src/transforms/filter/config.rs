//! Configuration of the `filter` transform.

use super::Filter;
use crate::component::{BuildCx, Component, TransformComponent};
use crate::util::condition::Condition;
use millstream_model::{BuildError, Transform};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

/// Options for the `filter` transform.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FilterConfig {
    /// Condition that an event must satisfy to pass through.
    #[serde(rename = "where")]
    pub condition: Condition,
}

impl Component for FilterConfig {}

impl TransformComponent for FilterConfig {
    fn build(&self, _: &BuildCx<'_>) -> Result<Transform, BuildError> {
        let condition = self.condition.clone();
        Ok(Transform::Map(Arc::new(move || Box::new(Filter(condition.clone())))))
    }
}
