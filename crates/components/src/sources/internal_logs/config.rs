//! Configuration of source `internal_logs`.

use super::InternalLogsSource;
use crate::component::{Component, SourceComponent};
use crate::sources::points::metric_emitter::MetricEmitter;
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
    /// Returns whether a record of this level is emitted.
    pub fn includes(self, level: &str) -> bool {
        let names = ["error", "warn", "info", "debug", "trace"];
        names.iter().position(|name| *name == level).is_some_and(|place| place <= self as usize)
    }
}

impl Component for InternalLogsConfig {}

impl SourceComponent for InternalLogsConfig {
    fn open(&self, open: SourceOpen) -> Result<Box<dyn Source>, BuildError> {
        let emitter = MetricEmitter::new(&open)?;
        Ok(Box::new(InternalLogsSource::new(open.internal_logs, self.level, emitter)))
    }
}
