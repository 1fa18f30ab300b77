//! Configuration of the `generate` source.

use super::Generate;
use super::weblog::LINE_BYTES_MIN;
use crate::component::{Component, SourceComponent};
use millstream_model::{BuildError, OptionError, Size, Source, SourceOpen};
use schemars::JsonSchema;
use serde::Deserialize;

/// Longest line, in bytes.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// Options for the `generate` source.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GenerateConfig {
    /// Number of lines per second. The default is unlimited.
    #[schemars(range(min = 1))]
    pub rate: Option<u64>,
    /// Average size of a line, 120B to 64KiB.
    pub size: Size,
    /// Random seed. The same seed generates the same lines, except for their timestamps.
    pub seed: u64,
    /// Total number of lines, after which the source ends. The default is unlimited.
    #[schemars(range(min = 1))]
    pub count: Option<u64>,
}

impl Default for GenerateConfig {
    fn default() -> Self {
        GenerateConfig { rate: None, size: Size(178), seed: 1, count: None }
    }
}

impl Component for GenerateConfig {
    fn check(&self) -> Vec<OptionError> {
        match (LINE_BYTES_MIN as u64..=LINE_BYTES_MAX).contains(&self.size.0) {
            true => Vec::new(),
            false => vec![OptionError::new("/size", "out of range; use 120B to 64KiB")],
        }
    }
}

impl SourceComponent for GenerateConfig {
    fn open(&self, open: SourceOpen) -> Result<Box<dyn Source>, BuildError> {
        Ok(Box::new(Generate::new(self, &open)?))
    }
}
