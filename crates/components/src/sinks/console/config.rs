//! Configuration of the `console` sink.

use super::Console;
use crate::codec::Encoding;
use crate::component::{Component, SinkComponent};
use millstream_model::{BuildError, OptionError, Sink};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

/// Options for the `console` sink.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConsoleConfig {
    /// Event encoding.
    pub encoding: Encoding,
    /// Standard stream to write events to.
    pub target: Target,
}

/// A standard stream.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Standard output.
    #[default]
    Stdout,
    /// Standard error.
    Stderr,
}

impl Component for ConsoleConfig {
    fn check(&self) -> Vec<OptionError> {
        self.encoding.check_lines()
    }
}

impl SinkComponent for ConsoleConfig {
    fn build(&self) -> Result<Arc<dyn Sink>, BuildError> {
        Ok(Arc::new(Console { encoding: self.encoding.clone(), target: self.target }))
    }
}
