//! Configuration of sink `file`.

use super::FileSink;
use crate::codec::Encoding;
use crate::registry::{Component, SinkComponent};
use millstream_model::{BuildError, Interval, Sink};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Options of sink `file`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileConfig {
    /// File to append to; missing folders are made.
    #[schemars(with = "String", length(min = 1))]
    pub path: PathBuf,
    /// How events are encoded.
    #[serde(default)]
    pub encoding: Encoding,
    /// Longest time until what is written is synced to the disk and counts as delivered.
    #[serde(default = "default_sync")]
    pub sync: Interval,
}

fn default_sync() -> Interval {
    Interval(Duration::from_secs(1))
}

impl Component for FileConfig {
    fn writes(&self) -> Vec<PathBuf> {
        vec![std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone())]
    }

    fn check(&self) -> Vec<(String, String)> {
        let text = self.path.as_os_str().to_string_lossy();
        let mut faults = self.encoding.check();
        if text.ends_with('/') || text.contains('\0') {
            faults.push(("/path".into(), "names no file; write a folder and a file name".into()));
        }
        faults
    }
}

impl SinkComponent for FileConfig {
    fn build(self) -> Result<Arc<dyn Sink>, BuildError> {
        Ok(Arc::new(FileSink { path: self.path, encoding: self.encoding, sync: self.sync.0 }))
    }
}
