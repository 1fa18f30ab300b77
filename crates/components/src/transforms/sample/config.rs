//! Configuration of the `sample` transform.

use super::Sample;
use crate::component::{BuildCx, Component, TransformComponent};
use crate::util::template::TextTemplate;
use millstream_model::{BuildError, OptionError, Transform};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

/// Options for the `sample` transform.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SampleConfig {
    /// Sampling ratio: one event in this many is kept.
    pub one_in: u64,
    /// Template for the sampling key. Events with the same key are kept or dropped together, such
    /// as all events of a request. Without a key, each event is sampled separately.
    pub key: Option<TextTemplate>,
}

impl Component for SampleConfig {
    fn check(&self) -> Vec<OptionError> {
        match self.one_in {
            0 => {
                vec![OptionError::new(
                    "/one_in",
                    "must be at least 1; use 1 for all events, 10 for one in ten",
                )]
            }
            _ => Vec::new(),
        }
    }
}

impl TransformComponent for SampleConfig {
    fn build(&self, _: &BuildCx<'_>) -> Result<Transform, BuildError> {
        let key = self.key.clone().map(|key| key.0);
        let one_in = self.one_in.max(1);
        Ok(Transform::Map(Arc::new(move || Box::new(Sample::new(one_in, key.clone())))))
    }
}
