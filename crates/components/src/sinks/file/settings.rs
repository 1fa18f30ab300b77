//! Settings for the open files.

use crate::sinks::file::compress::Compression;
use crate::sinks::file::rotation::Rotate;
use std::time::Duration;

/// Settings shared by all files of a sink.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub compression: (Compression, u32),
    /// Maximum number of compressed members in progress.
    pub members_max: u64,
    /// Whether the last component of a path may be a symbolic link.
    pub follow_links: bool,
    pub rotate: Rotate,
    pub open_files_max: usize,
    pub idle_timeout: Duration,
}
