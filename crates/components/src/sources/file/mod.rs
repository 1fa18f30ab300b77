//! Source `file`: tails files and follows them through rotation without skipping a line.
//!
//! - `source` schedules reads; `source/discovery` identifies files.
//! - `tail` is one open file: its cursors, and reading its lines into a block.
//!
//! The building blocks are in `files`: discovery, inotify, opening, identity, line filters.

mod config;
mod source;
mod tail;

pub use config::{FileConfig, ReadFrom};
pub use source::FileSource;

use crate::component::SourceComponent;
use millstream_model::{BuildError, Source, SourceOpen};

impl SourceComponent for FileConfig {
    fn open(&self, open: SourceOpen) -> Result<Box<dyn Source>, BuildError> {
        Ok(Box::new(FileSource::open(self.clone(), open)?))
    }
}
