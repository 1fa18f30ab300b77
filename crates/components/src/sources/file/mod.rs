//! The `file` source tails files and follows them through rotation without skipping a line.
//!
//! `config` defines the options; the `millstream-tail` crate implements the source.

mod config;

pub use config::{FileConfig, ReadFrom};

use crate::component::{BuildCx, OpenSource, SourceComponent};
use millstream_model::{BuildError, Source, SourceOpen};
use millstream_tail::{FileSource, TailSettings};
use std::sync::Arc;

impl SourceComponent for FileConfig {
    fn open(&self, open: SourceOpen) -> Result<Box<dyn Source>, BuildError> {
        let settings = self.settings().map_err(BuildError::Options)?;
        Ok(Box::new(FileSource::open(settings, open)?))
    }

    fn build(&self, cx: &BuildCx<'_>) -> Result<Option<OpenSource>, BuildError> {
        let settings = self.settings().map_err(BuildError::Options)?;
        let settings = TailSettings { header: cx.header.clone().map(Arc::new), ..settings };
        Ok(Some(Box::new(|open| Ok(Box::new(FileSource::open(settings, open)?)))))
    }
}
