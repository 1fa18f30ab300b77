//! Settings of a source.

use crate::discover::{Exclude, Pattern};
use crate::{Framing, HeaderLines, LineFilters, LineLimits, Range, Symlinks};
use std::sync::Arc;
use std::time::Duration;

/// Settings of a source of files.
pub struct TailSettings {
    /// Patterns of the files to read.
    pub include: Vec<Pattern>,
    /// Patterns of files to exclude.
    pub exclude: Exclude,
    /// Which symlinks to files are followed.
    pub symlinks: Symlinks,
    /// Whether files that exist at the very first start are read from their end.
    pub read_from_end: bool,
    /// At the very first start, files not written to for this long are read from their end.
    pub ignore_older: Option<Duration>,
    /// Most open files; by default as many as the system allows.
    pub open_files_max: Option<usize>,
    /// Most idle files that are tracked in full; by default 4,096.
    pub idle_files_max: Option<usize>,
    /// How long an incomplete last line waits for its line end before it is delivered incomplete;
    /// `None` means without limit.
    pub read_timeout: Option<Duration>,
    /// How rotated files are held.
    pub held: HeldSettings,
    /// The time range to read, after which the source ends.
    pub range: Option<Range>,
    /// Which lines are kept.
    pub filters: LineFilters,
    /// How lines become events; `None` if each line is an event.
    pub framing: Option<Framing>,
    /// Which lines are headers, which name columns; `None` if no component uses headers.
    pub header: Option<Arc<HeaderLines>>,
    /// Limits on long lines.
    pub limits: LineLimits,
}

/// How files that are rotated before they are delivered are held.
#[derive(Clone, Copy, Debug)]
pub struct HeldSettings {
    /// Whether such a file gets a hard link in `data_dir`.
    pub link: bool,
    /// Whether a stop copies the unsettled rest of a deleted file without a link to `data_dir`.
    pub copy_at_stop: bool,
    /// Whether the rest of a deleted file goes to the disk buffers of sinks that cannot take it.
    pub spool: bool,
    /// Most bytes of deleted files; by default the smaller of 1 GiB and 5 % of the file system.
    pub bytes_max: Option<u64>,
}
