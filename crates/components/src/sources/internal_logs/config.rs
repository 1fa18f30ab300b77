//! Configuration of the `internal_logs` source.

use super::InternalLogsSource;
use crate::component::{Component, SourceComponent};
use millstream_model::{BuildError, Source, SourceOpen};
use schemars::JsonSchema;
use serde::Deserialize;

/// Options for the `internal_logs` source.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct InternalLogsConfig {
    /// Minimum severity of emitted records. The `log.level` setting limits which records are
    /// created.
    pub level: EmittedLevel,
}

/// Severity of a record.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, strum::IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "snake_case")]
pub enum EmittedLevel {
    /// Only failures.
    Error,
    /// Failures, and problems that may need attention.
    Warn,
    /// Records of level `warn`, and normal operation.
    #[default]
    Info,
    /// Records of level `info`, and details for debugging.
    Debug,
    /// All records.
    Trace,
}

impl EmittedLevel {
    /// Returns the name of the level in records.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl Component for InternalLogsConfig {}

impl SourceComponent for InternalLogsConfig {
    fn open(&self, open: SourceOpen) -> Result<Box<dyn Source>, BuildError> {
        Ok(Box::new(InternalLogsSource::open(open, self.level)?))
    }
}
