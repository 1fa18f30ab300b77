//! Settings for a source that reads files.

use crate::discover::{Exclude, Pattern};
use crate::{Framing, HeaderLines, LineFilters, LineLimits, Range, Symlinks};
use std::sync::Arc;
use std::time::Duration;

/// Settings for a source that reads files.
pub struct TailSettings {
    /// Patterns that match the files to read.
    pub include: Vec<Pattern>,
    /// Patterns that match the files to exclude.
    pub exclude: Exclude,
    /// Which symlinks to files are followed.
    pub symlinks: Symlinks,
    /// Whether files that exist at the source's very first start are read starting at their end.
    pub read_from_end: bool,
    /// Files that have not been written to for this long are read starting at their end, but only
    /// at the source's very first start.
    pub ignore_older: Option<Duration>,
    /// Maximum number of open files; by default as many as the system allows.
    pub open_files_max: Option<usize>,
    /// Maximum number of idle files that are tracked in full; 4,096 by default.
    pub idle_files_max: Option<usize>,
    /// How long an incomplete last line waits for its line ending before it is delivered
    /// incomplete; `None` means no limit.
    pub read_timeout: Option<Duration>,
    /// How rotated files are held.
    pub held: HeldSettings,
    /// The time range to read. The source ends once it has read all files. `None` for no range.
    pub range: Option<Range>,
    /// Which lines are kept.
    pub filters: LineFilters,
    /// How lines become events; `None` if each line is an event.
    pub framing: Option<Framing>,
    /// Which lines are headers that name columns; `None` if no component uses headers.
    pub header: Option<Arc<HeaderLines>>,
    /// Limits on long lines.
    pub limits: LineLimits,
}

/// How files that are rotated before they are delivered are held.
#[derive(Clone, Copy, Debug)]
pub struct HeldSettings {
    /// Whether such a file gets a hard link in `data_dir`.
    pub link: bool,
    /// Whether the unsettled remainder of a deleted file that has no link is copied to `data_dir`,
    /// after the deletion and during shutdown.
    pub copy_at_stop: bool,
    /// Whether the remainder of a deleted file is written to the disk buffers of sinks that are not
    /// accepting it.
    pub spool: bool,
    /// Maximum size, in bytes, of all held deleted files; by default the smaller of 1 GiB and 5% of
    /// the file system.
    pub bytes_max: Option<u64>,
}
