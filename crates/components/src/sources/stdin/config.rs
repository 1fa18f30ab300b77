//! Configuration of the `stdin` source.

use super::Stdin;
use crate::component::{Component, SourceComponent};
use millstream_model::{BuildError, LongLine, OptionError, Size, Source, SourceOpen};
use schemars::JsonSchema;
use serde::Deserialize;

/// Options for the `stdin` source.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StdinConfig {
    /// Maximum size of a line in bytes, without the line ending, 4B to 16MiB.
    #[serde(default = "default_max_line")]
    pub max_line: Size,
    /// What happens to lines longer than `max_line`.
    #[serde(default)]
    pub on_long_line: LongLine,
}

fn default_max_line() -> Size {
    Size(256 * 1024)
}

impl Component for StdinConfig {
    fn claims(&self) -> Vec<String> {
        vec!["standard input".into()]
    }

    fn check(&self) -> Vec<OptionError> {
        match (4..=16 * 1024 * 1024).contains(&self.max_line.0) {
            true => Vec::new(),
            false => vec![OptionError::new("/max_line", "out of range; use 4B to 16MiB")],
        }
    }
}

impl SourceComponent for StdinConfig {
    fn open(&self, open: SourceOpen) -> Result<Box<dyn Source>, BuildError> {
        Ok(Box::new(Stdin::start(self, open)?))
    }
}
