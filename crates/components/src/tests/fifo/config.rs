//! Configuration of the `fifo` sink.

use super::Fifo;
use crate::codec::Encoding;
use crate::component::{Component, SinkComponent};
use millstream_model::{BuildError, OptionError, Sink};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::Arc;

/// Options for the `fifo` sink.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FifoConfig {
    /// Path of the named pipe. The sink waits until a reader has opened the pipe.
    pub path: PathBuf,
    /// How events are encoded.
    #[serde(default)]
    pub encoding: Encoding,
}

impl Component for FifoConfig {
    fn check(&self) -> Vec<OptionError> {
        self.encoding.check_lines()
    }
}

impl SinkComponent for FifoConfig {
    fn build(&self) -> Result<Arc<dyn Sink>, BuildError> {
        Ok(Arc::new(Fifo { encoding: self.encoding.clone(), path: self.path.clone() }))
    }
}
