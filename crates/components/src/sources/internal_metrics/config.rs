//! Configuration of the `internal_metrics` source.

use super::InternalMetricsSource;
use crate::component::{Component, SourceComponent};
use crate::sources::points::config::check_period;
use crate::sources::points::numbers::Numbers;
use millstream_model::{BuildError, Interval, OptionError, Source, SourceOpen};
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;

/// Options for the `internal_metrics` source.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct InternalMetricsConfig {
    /// Collection interval: whole seconds, 1s to 1d, aligned to the clock.
    pub period: Interval,
}

impl Default for InternalMetricsConfig {
    fn default() -> Self {
        InternalMetricsConfig { period: Interval(Duration::from_secs(10)) }
    }
}

impl Component for InternalMetricsConfig {
    fn makes_metrics(&self) -> bool {
        true
    }

    fn check(&self) -> Vec<OptionError> {
        check_period(self.period.0).into_iter().collect()
    }
}

impl SourceComponent for InternalMetricsConfig {
    fn open(&self, open: SourceOpen) -> Result<Box<dyn Source>, BuildError> {
        let numbers = Numbers::new(&open, self.period.0)?;
        Ok(Box::new(InternalMetricsSource { metrics: open.internal_metrics, numbers }))
    }
}
