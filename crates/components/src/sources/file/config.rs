//! Configuration of source `file`.

use crate::component::Component;
use crate::files::discover::{Exclude, Glob, Pattern, matcher};
use crate::files::line_filter::LineFilter;
use crate::files::open::Symlinks;
use crate::files::range::{BackfillConfig, Range};
use crate::framing::{ContainerFormat, EncodingName, Framing, MultilineConfig, rules};
use millstream_model::{Interval, LongLine, Size};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::Path;
use std::time::Duration;

/// Smallest `max_line`, in bytes. Any UTF-8 character fits, so that none is split.
const MAX_LINE_BYTES_MIN: u64 = 4;

/// Largest `max_line`, in bytes. Bounds the memory of one line.
const MAX_LINE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Options of source `file`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileConfig {
    /// Files to read: absolute paths with `*`, `?`, `[a-z]`, `{a,b}` and `**` for folders at any
    /// depth.
    #[schemars(length(min = 1))]
    pub include: Vec<Glob>,
    /// Files to exclude: patterns as in `include`; one without `/` matches the file name.
    #[serde(default)]
    pub exclude: Vec<Glob>,
    /// Where to start reading files that exist at the very first start; later files are always read
    /// from their beginning.
    #[serde(default)]
    pub read_from: ReadFrom,
    /// At the very first start, files not written to for this long are read from their end.
    pub ignore_older: Option<Interval>,
    /// Which symlinks to files are followed: those to files of the same owner, `never`, or those to
    /// files below the folders of `allow`.
    #[serde(default)]
    pub symlinks: Symlinks,
    /// Maximum number of open files; by default as many as the system allows. The files that have
    /// been quiet the longest are closed, and reopened when they are written to.
    #[schemars(range(min = 1))]
    pub open_files_max: Option<usize>,
    /// How files that are rotated away before they are delivered are held.
    #[serde(default)]
    pub held: HeldConfig,
    /// Reads only events within a time range, from the beginning of every file, then ends.
    pub backfill: Option<BackfillConfig>,
    /// Keeps only matching lines.
    pub keep_lines: Option<LineFilter>,
    /// Drops matching lines.
    pub drop_lines: Option<LineFilter>,
    /// Which lines form one event.
    pub multiline: Option<MultilineConfig>,
    /// Encoding of the files.
    #[serde(default)]
    pub encoding: EncodingName,
    /// Container format that wraps each line: `cri`, `docker`, `auto` or `none`.
    #[serde(default)]
    pub format: ContainerFormat,
    /// Longest line, at most 16MiB.
    #[serde(default = "default_max_line")]
    pub max_line: Size,
    /// What happens to longer lines.
    #[serde(default)]
    pub on_long_line: LongLine,
}

/// How files that are rotated away before they are delivered are held.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HeldConfig {
    /// Whether to keep a hard link to such a file in `data_dir`, so that its data survives
    /// deletion,
    /// a stop and a crash.
    pub link: bool,
    /// Whether a stop copies the unsettled rest of a deleted file without such a link to
    /// `data_dir`.
    pub copy_at_stop: bool,
    /// Maximum disk space of deleted files. Beyond it the files deleted first are dropped, and
    /// their
    /// undelivered data is counted. By default the smaller of 1 GiB and 5 % of the file system of
    /// `data_dir`.
    pub max: Option<Size>,
}

impl Default for HeldConfig {
    fn default() -> HeldConfig {
        HeldConfig { link: true, copy_at_stop: true, max: None }
    }
}

/// Where to start reading a file that exists at the very first start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReadFrom {
    /// At its first byte.
    #[default]
    Beginning,
    /// At its end.
    End,
}

fn default_max_line() -> Size {
    Size(256 * 1024)
}

impl FileConfig {
    /// Returns how the bytes of files become events; `None` if each line is an event.
    pub fn framing(&self) -> Result<Option<Framing>, (String, String)> {
        let rules = rules(self.multiline.as_ref(), &self.encoding, self.format, self.max_line)?;
        let timeout =
            self.multiline.as_ref().map_or(Duration::ZERO, |multiline| multiline.timeout.0);
        Ok(rules.map(|rules| Framing { rules, timeout }))
    }
}

impl FileConfig {
    /// Returns the time range to read, if there is one.
    pub fn range(&self) -> Result<Option<Range>, (String, String)> {
        let by_start = self.multiline.as_ref().is_some_and(|multiline| multiline.format.is_some());
        let finds_times = by_start || self.format != ContainerFormat::None;
        let range =
            self.backfill.as_ref().map(|backfill| Range::new(backfill, finds_times)).transpose();
        range.map_err(|(pointer, message)| (format!("/backfill{pointer}"), message))
    }
}

impl Component for FileConfig {
    fn reads(&self, path: &Path) -> bool {
        let included =
            self.include.iter().any(|glob| matcher(&glob.0).is_ok_and(|m| m.is_match(path)));
        included && Exclude::new(&self.exclude).is_ok_and(|exclude| !exclude.matches(path))
    }

    fn check(&self) -> Vec<(String, String)> {
        let mut errors: Vec<_> =
            self.framing().err().into_iter().chain(self.range().err()).collect();
        for (index, pattern) in self.include.iter().enumerate() {
            if let Err(message) = Pattern::new(&pattern.0) {
                errors.push((format!("/include/{index}"), message));
            }
        }
        if !(MAX_LINE_BYTES_MIN..=MAX_LINE_BYTES_MAX).contains(&self.max_line.0) {
            errors.push(("/max_line".into(), "out of range; write 4B to 16MiB".into()));
        }
        let filters = [("keep_lines", &self.keep_lines), ("drop_lines", &self.drop_lines)];
        for (key, filter) in
            filters.iter().filter_map(|(key, filter)| Some((key, filter.as_ref()?)))
        {
            let named = filter
                .errors()
                .into_iter()
                .map(|(at, what)| (format!("/{key}{at}"), what.to_owned()));
            errors.extend(named);
        }
        errors
    }
}
