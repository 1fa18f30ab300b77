//! Configuration of the `file` source.

use crate::component::Component;
use crate::util::framing::{ContainerFormat, EncodingName, MultilineConfig, TimeFormats, rules};
use crate::util::glob::Glob;
use millstream_framing::TimeSpec;
use millstream_model::{Interval, LongLine, OptionError, Size};
use millstream_tail::discover::{Exclude, Pattern, matcher};
use millstream_tail::{
    Framing, HeldSettings, LineFilter, LineFilters, LineLimits, Range, Symlinks, TailSettings,
};
use millstream_timestamps::Format;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Minimum configurable `max_line`, in bytes. Any UTF-8 character fits, so no character is split.
const MAX_LINE_BYTES_MIN: u64 = 4;

/// Maximum configurable `max_line`, in bytes. The maximum bounds the memory for one line.
const MAX_LINE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Options for the `file` source.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileConfig {
    /// Files to read: absolute paths with `*`, `?`, `[a-z]`, `{a,b}`, and `**` for folders at any
    /// depth.
    #[schemars(length(min = 1))]
    pub include: Vec<Glob>,
    /// Files to exclude: patterns as in `include`. A pattern without `/` is matched against the
    /// file name.
    #[serde(default)]
    pub exclude: Vec<Glob>,
    /// Where to start reading files that exist when the source starts for the first time. Files
    /// that appear later are always read from the beginning.
    #[serde(default)]
    pub read_from: ReadFrom,
    /// Minimum age of files that are read from their end: when the source starts for the first
    /// time, it skips the contents of files that have not been written to for this long. Set it to
    /// avoid a flood of old events.
    pub ignore_older: Option<Interval>,
    /// Which symlinks to files are followed: links to files with the same owner, no links
    /// (`never`), or links to files below the folders in `allow`.
    #[serde(default)]
    pub symlinks: SymlinksConfig,
    /// Maximum number of open files. The default is the system's limit minus 128. Above the
    /// maximum, the source closes the files that have been idle the longest, and reopens them when
    /// they are written to.
    #[schemars(range(min = 1))]
    pub open_files_max: Option<usize>,
    /// Maximum number of idle files that are tracked in full. The default is 4,096. For each
    /// additional idle file, the source keeps only the path, size and modification time, about 400
    /// bytes, and reopens the file when it changes. Raise the maximum if many files are written to
    /// rarely.
    pub idle_files_max: Option<usize>,
    /// How long the file must have stopped growing before a last line without a line ending is
    /// delivered as is. Text that is written later becomes another event. Without this option, the
    /// line waits until its file is gone.
    pub read_timeout: Option<Interval>,
    /// How the source holds files that are rotated away before they are delivered.
    #[serde(default)]
    pub held: HeldConfig,
    /// Time range of the events to read, from the beginning of every file; the source then ends.
    pub backfill: Option<BackfillConfig>,
    /// Filter that a line must match to be kept.
    pub keep_lines: Option<LineFilterConfig>,
    /// Filter for lines to drop.
    pub drop_lines: Option<LineFilterConfig>,
    /// Rules that join several lines into one event. Without them, each line is an event.
    pub multiline: Option<MultilineConfig>,
    /// Character encoding of the files.
    #[serde(default)]
    pub encoding: EncodingName,
    /// Container format that wraps each line: `cri`, `docker`, `auto` or `none`.
    #[serde(default)]
    pub format: ContainerFormat,
    /// Maximum size of a line or event in bytes, without the line ending, 4B to 16MiB. Raise it if
    /// `on_long_line` affects valid lines.
    #[serde(default = "default_max_line")]
    pub max_line: Size,
    /// What happens to lines longer than `max_line`.
    #[serde(default)]
    pub on_long_line: LongLine,
}

/// How the source holds files that are rotated away before they are delivered.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HeldConfig {
    /// Whether the source keeps a hard link to an undelivered rotated file in `data_dir`, so that
    /// the data survives deletion, shutdown and a crash.
    pub link: bool,
    /// Whether the undelivered remainder of a deleted file without a hard link is copied to
    /// `data_dir`, after the deletion and during shutdown.
    pub copy_at_stop: bool,
    /// Whether the undelivered remainder of a deleted file moves to the disk buffers of the sinks
    /// that are behind, which frees the file's disk space. Enable it if deleted files fill the
    /// disk.
    pub spool: bool,
    /// Maximum disk space used by deleted files that are not delivered yet. Above the maximum, the
    /// source drops the files that were deleted first, and counts their undelivered data. The
    /// default is the smaller of 1 GiB and 5% of the file system that contains `data_dir`.
    pub max: Option<Size>,
}

impl Default for HeldConfig {
    fn default() -> HeldConfig {
        HeldConfig { link: true, copy_at_stop: true, spool: false, max: None }
    }
}

/// Where to start reading a file that exists when the source starts for the first time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReadFrom {
    /// At its first byte.
    #[default]
    Beginning,
    /// At its end.
    End,
}

/// Which symlinks to files are followed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SymlinksConfig {
    /// Symlinks to files that belong to the link's owner, and symlinks into the folders of
    /// container logs.
    #[default]
    SameOwner,
    /// No symlinks.
    Never,
    /// Symlinks to files below these folders.
    Allow(Vec<PathBuf>),
}

impl From<SymlinksConfig> for Symlinks {
    fn from(config: SymlinksConfig) -> Symlinks {
        match config {
            SymlinksConfig::SameOwner => Symlinks::SameOwner,
            SymlinksConfig::Never => Symlinks::Never,
            SymlinksConfig::Allow(folders) => Symlinks::Allow(folders),
        }
    }
}

/// Time range of the events to read, after which the source ends. At least one end of the range is
/// required.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackfillConfig {
    /// Start of the range, inclusive, such as `2026-11-22T10:00:00Z`.
    pub from: Option<String>,
    /// End of the range, exclusive.
    pub until: Option<String>,
    /// Format of the timestamp in a line, unless the source's `multiline` or `format` option
    /// already parses it: `strptime` specifiers, or `iso8601`, `rfc3339`, `epoch_s`, `epoch_ms`,
    /// `epoch_us`, `epoch_ns`; or a list of formats. The first format that matches is used.
    pub format: Option<TimeFormats>,
    /// Text directly before the timestamp. Without it, the timestamp is at the start of the line.
    pub after: Option<String>,
    /// Occurrence of `after` to use, counted from 1. The default is the first.
    pub nth: Option<u32>,
    /// Time zone for timestamps without a zone: `UTC` (the default), `+02:00`, `Europe/Berlin`, or
    /// `local` for the host's zone.
    pub timezone: Option<String>,
}

impl BackfillConfig {
    /// Compiles the options. If the source already parses event timestamps (`finds_times`),
    /// `format` can be omitted.
    ///
    /// # Errors
    /// Returns an error for an invalid option.
    fn range(&self, finds_times: bool) -> Result<Range, OptionError> {
        let from_ns = bound("/from", self.from.as_deref(), i64::MIN)?;
        let until_ns = bound("/until", self.until.as_deref(), i64::MAX)?;
        if self.from.is_none() && self.until.is_none() {
            return Err(OptionError::new("", "sets no range; use from: or until:, or both"));
        }
        if from_ns >= until_ns {
            return Err(OptionError::new("/until", "is not later than from:; use a later time"));
        }
        let BackfillConfig { after, nth, timezone, .. } = self.clone();
        let spec = |format: &TimeFormats| TimeSpec {
            formats: format.clone().into(),
            after,
            nth,
            timezone,
        };
        let reader = self.format.as_ref().map(|format| spec(format).reader()).transpose();
        let reader = reader.map_err(|(pointer, message)| OptionError::new(pointer, message))?;
        if reader.is_none() && !finds_times {
            let message = "is required because the source does not parse times; use, for example, \
                           format: iso8601";
            return Err(OptionError::new("/format", message));
        }
        Ok(Range::new(from_ns..until_ns, reader))
    }
}

fn bound(key: &str, text: Option<&str>, default: i64) -> Result<i64, OptionError> {
    let Some(text) = text else { return Ok(default) };
    let format = Format::new("rfc3339", None).map_err(|message| OptionError::new(key, message))?;
    match format.parse(text.as_bytes(), 0) {
        Ok(parsed) if parsed.len == text.len() => Ok(parsed.ns),
        _ => Err(OptionError::new(
            key,
            format!("{text:?} is not a time; use, for example, 2026-11-22T10:00:00Z"),
        )),
    }
}

/// Line filter: a line matches if it contains one of the strings or matches one of the regular
/// expressions.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LineFilterConfig {
    /// Strings to find in the line, compared byte by byte.
    pub contains: Vec<String>,
    /// Regular expressions, which run in linear time: no look-around, no backreferences.
    pub regex: Vec<Regex>,
}

impl LineFilterConfig {
    /// Returns the errors in the filter.
    fn errors(&self) -> Vec<OptionError> {
        let mut errors = Vec::new();
        let mut error = |key: &str, message: &str| errors.push(OptionError::new(key, message));
        if self.contains.is_empty() && self.regex.is_empty() {
            error("", "is empty; add contains: or regex:");
        }
        if self.contains.iter().any(|text| text.contains('\n')) {
            error("/contains", "a string with a newline matches no line; use one string per line");
        }
        if self.contains.iter().any(String::is_empty) {
            error("/contains", "an empty string matches every line; use a longer string");
        }
        errors
    }
}

impl From<&LineFilterConfig> for LineFilter {
    fn from(config: &LineFilterConfig) -> LineFilter {
        let regex = config.regex.iter().map(|regex| regex.0.clone()).collect();
        LineFilter { contains: config.contains.clone(), regex }
    }
}

/// A regular expression as an option.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(inline, extend("format" = "regex"))]
pub struct Regex(pub String);

fn default_max_line() -> Size {
    Size(256 * 1024)
}

impl FileConfig {
    /// Returns the framing of the files; `None` if each line is an event.
    fn framing(&self) -> Result<Option<Framing>, OptionError> {
        let rules = rules(self.multiline.as_ref(), &self.encoding, self.format, self.max_line)?;
        let timeout =
            self.multiline.as_ref().map_or(Duration::ZERO, |multiline| multiline.timeout.0);
        Ok(rules.map(|rules| Framing { rules, timeout }))
    }

    fn excluded(&self) -> Result<Exclude, String> {
        Exclude::new(self.exclude.iter().map(|glob| glob.0.as_str()))
    }

    /// Returns the settings for the source.
    ///
    /// # Errors
    /// Returns an error that says what is wrong with an option.
    pub fn settings(&self) -> Result<TailSettings, String> {
        let keyed = |error: OptionError| error.to_string();
        let filter = |config: &Option<LineFilterConfig>| config.as_ref().map(LineFilter::from);
        let (keep, drop) = (filter(&self.keep_lines), filter(&self.drop_lines));
        let HeldConfig { link, copy_at_stop, spool, max } = self.held.clone();
        let include = self.include.iter().map(|glob| Pattern::new(&glob.0));
        Ok(TailSettings {
            include: include.collect::<Result<Vec<Pattern>, String>>()?,
            exclude: self.excluded()?,
            symlinks: self.symlinks.clone().into(),
            read_from_end: self.read_from == ReadFrom::End,
            ignore_older: self.ignore_older.map(|interval| interval.0),
            open_files_max: self.open_files_max,
            idle_files_max: self.idle_files_max,
            read_timeout: self.read_timeout.map(|interval| interval.0),
            held: HeldSettings { link, copy_at_stop, spool, bytes_max: max.map(|max| max.0) },
            range: self.range().map_err(keyed)?,
            filters: LineFilters::new(keep.as_ref(), drop.as_ref())?,
            framing: self.framing().map_err(keyed)?,
            header: None,
            limits: LineLimits { line_max: self.max_line.0 as usize, long: self.on_long_line },
        })
    }

    /// Returns the time range to read, if there is one.
    fn range(&self) -> Result<Option<Range>, OptionError> {
        let by_start = self.multiline.as_ref().is_some_and(|multiline| multiline.format.is_some());
        let finds_times = by_start || self.format != ContainerFormat::None;
        let range = self.backfill.as_ref().map(|backfill| backfill.range(finds_times)).transpose();
        range.map_err(|error| error.below("/backfill"))
    }
}

impl Component for FileConfig {
    fn reads(&self, path: &Path) -> bool {
        let included =
            self.include.iter().any(|glob| matcher(&glob.0).is_ok_and(|m| m.is_match(path)));
        included && self.excluded().is_ok_and(|exclude| !exclude.matches(path))
    }

    fn check(&self) -> Vec<OptionError> {
        let mut errors: Vec<_> =
            self.framing().err().into_iter().chain(self.range().err()).collect();
        for (index, pattern) in self.include.iter().enumerate() {
            if let Err(message) = Pattern::new(&pattern.0) {
                errors.push(OptionError::new(format!("/include/{index}"), message));
            }
        }
        if !(MAX_LINE_BYTES_MIN..=MAX_LINE_BYTES_MAX).contains(&self.max_line.0) {
            errors.push(OptionError::new("/max_line", "out of range; use 4B to 16MiB"));
        }
        let filters = [("keep_lines", &self.keep_lines), ("drop_lines", &self.drop_lines)];
        for (key, filter) in
            filters.iter().filter_map(|(key, filter)| Some((key, filter.as_ref()?)))
        {
            errors.extend(filter.errors().into_iter().map(|error| error.below(&format!("/{key}"))));
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn error(options: Value, finds_times: bool) -> Option<OptionError> {
        let config: BackfillConfig = serde_json::from_value(options).unwrap();
        config.range(finds_times).err()
    }

    #[test]
    fn an_error_names_the_option_and_says_what_to_write() {
        let (early, late) = ("2026-11-21T00:00:00Z", "2026-11-22T00:00:00+02:00");
        for (options, pointer, advice) in [
            (json!({}), "", "from: or until:"),
            (json!({ "from": late, "until": early, "format": "iso8601" }), "/until", "later"),
            (json!({ "from": "yesterday" }), "/from", "2026-11-22T10:00:00Z"),
            (json!({ "from": early }), "/format", "iso8601"),
            (json!({ "from": early, "format": "%Q" }), "/format", "%Q"),
        ] {
            let error = error(options.clone(), false).unwrap();
            assert!(
                error.pointer == pointer && error.to_string().contains(advice),
                "{options}: {error}"
            );
        }
        assert_eq!(error(json!({ "from": early, "until": late }), true), None);
    }
}
