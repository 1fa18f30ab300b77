//! Configuration of the `blackhole` sink.

use super::{Blackhole, Reporter};
use crate::component::{Component, SinkComponent};
use millstream_model::{BuildError, Interval, Sink};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

/// Options for the `blackhole` sink.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BlackholeConfig {
    /// Interval at which the sink prints events/s, MB/s and the total to standard output; it also
    /// prints them at shutdown. Without it, the sink prints nothing.
    pub report: Option<Interval>,
}

impl Component for BlackholeConfig {}

impl SinkComponent for BlackholeConfig {
    fn build(&self) -> Result<Arc<dyn Sink>, BuildError> {
        let reporter =
            |interval: Interval| Arc::new(Reporter { interval: interval.0, ..Reporter::default() });
        Ok(Arc::new(Blackhole { reporter: self.report.map(reporter) }))
    }
}
