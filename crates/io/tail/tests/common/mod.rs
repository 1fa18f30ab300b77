//! Settings that the tests share.

use millstream_model::LongLine;
use millstream_tail::discover::{Exclude, Pattern};
use millstream_tail::{HeldSettings, LineFilters, LineLimits, Symlinks, TailSettings};
use std::path::Path;

/// Returns settings for the files in a folder whose names match this pattern. Other settings have
/// their defaults.
pub fn settings(folder: &Path, names: &str) -> TailSettings {
    TailSettings {
        include: vec![Pattern::new(&format!("{}/{names}", folder.display())).unwrap()],
        exclude: Exclude::new([]).unwrap(),
        symlinks: Symlinks::SameOwner,
        read_from_end: false,
        ignore_older: None,
        open_files_max: None,
        idle_files_max: None,
        read_timeout: None,
        held: HeldSettings { link: true, copy_at_stop: true, spool: false, bytes_max: None },
        range: None,
        filters: LineFilters::new(None, None).unwrap(),
        framing: None,
        header: None,
        limits: LineLimits { line_max: 256 * 1024, long: LongLine::Truncate },
    }
}
