//! Configuration of source `internal_logs`.

use super::InternalLogsSource;
use crate::component::{Component, SourceComponent};
use millstream_model::{BuildError, Source, SourceOpen};
use schemars::JsonSchema;
use serde::Deserialize;

/// Options of source `internal_logs`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct InternalLogsConfig {
    /// Least severe level that is emitted; `log.level` limits what there is.
    pub level: EmittedLevel,
}

/// Severity of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EmittedLevel {
    /// Failures.
    Error,
    /// Also what may need attention.
    Warn,
    /// Also what the agent does.
    #[default]
    Info,
    /// Also details.
    Debug,
    /// Everything.
    Trace,
}

impl EmittedLevel {
    /// Returns its name in records.
    pub fn name(self) -> &'static str {
        match self {
            EmittedLevel::Error => "error",
            EmittedLevel::Warn => "warn",
            EmittedLevel::Info => "info",
            EmittedLevel::Debug => "debug",
            EmittedLevel::Trace => "trace",
        }
    }
}

impl Component for InternalLogsConfig {}

impl SourceComponent for InternalLogsConfig {
    fn open(&self, open: SourceOpen) -> Result<Box<dyn Source>, BuildError> {
        Ok(Box::new(InternalLogsSource::open(open, self.level)?))
    }
}
