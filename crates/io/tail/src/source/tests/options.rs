//! Settings for the tests, written as options of the `file` source.

use crate::discover::{Exclude, Pattern};
use crate::{
    Framing, HeaderLines, HeldSettings, LineFilters, LineLimits, Range, Symlinks, TailSettings,
};
use millstream_framing::{Container, LINES_MAX_DEFAULT, Multiline, Rules, Spec, Start, TimeSpec};
use millstream_model::{Interval, LongLine, Size};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    include: Vec<String>,
    #[serde(default)]
    exclude: Vec<String>,
    read_from: Option<String>,
    ignore_older: Option<Interval>,
    symlinks: Option<String>,
    open_files_max: Option<usize>,
    idle_files_max: Option<usize>,
    read_timeout: Option<Interval>,
    /// The column delimiter of `#Fields:` lines.
    header_delimiter: Option<String>,
    #[serde(default)]
    held: HeldOptions,
    backfill: Option<Backfill>,
    multiline: Option<ByTimestamp>,
    encoding: Option<String>,
    format: Option<String>,
    max_line: Option<Size>,
    #[serde(default)]
    on_long_line: LongLine,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeldOptions {
    copy_at_stop: Option<bool>,
    spool: Option<bool>,
    max: Option<Size>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Backfill {
    from: String,
    until: String,
    format: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ByTimestamp {
    start: String,
    format: String,
    timeout: Interval,
}

/// Returns the settings for these options.
pub fn settings(options: &Value) -> TailSettings {
    let options: Options = serde_json::from_value(options.clone()).unwrap();
    let is = |option: &Option<String>, value: &str| {
        assert!(option.as_deref().is_none_or(|option| option == value), "{option:?}");
        option.is_some()
    };
    let line_max = options.max_line.map_or(256 * 1024, |size| size.0 as usize);
    TailSettings {
        include: options.include.iter().map(|pattern| Pattern::new(pattern).unwrap()).collect(),
        exclude: Exclude::new(options.exclude.iter().map(String::as_str)).unwrap(),
        symlinks: if is(&options.symlinks, "never") {
            Symlinks::Never
        } else {
            Symlinks::SameOwner
        },
        read_from_end: is(&options.read_from, "end"),
        ignore_older: options.ignore_older.map(|interval| interval.0),
        open_files_max: options.open_files_max,
        idle_files_max: options.idle_files_max,
        read_timeout: options.read_timeout.map(|interval| interval.0),
        held: HeldSettings {
            link: true,
            copy_at_stop: options.held.copy_at_stop.unwrap_or(true),
            spool: options.held.spool.unwrap_or(false),
            bytes_max: options.held.max.map(|max| max.0),
        },
        range: options.backfill.as_ref().map(range),
        filters: LineFilters::new(None, None).unwrap(),
        framing: framing(&options, is(&options.format, "auto"), line_max),
        header: options.header_delimiter.map(fields_lines),
        limits: LineLimits { line_max, long: options.on_long_line },
    }
}

fn fields_lines(delimiter: String) -> Arc<HeaderLines> {
    Arc::new(HeaderLines::FieldsLine { delimiter })
}

fn range(backfill: &Backfill) -> Range {
    let reader = |format: &str| {
        TimeSpec { formats: vec![format.to_owned()], ..TimeSpec::default() }.reader().unwrap()
    };
    let bound = |text: &str| reader("rfc3339").time(text.as_bytes(), 0).unwrap();
    Range::new(bound(&backfill.from)..bound(&backfill.until), Some(reader(&backfill.format)))
}

fn framing(options: &Options, by_container: bool, line_max: usize) -> Option<Framing> {
    let multiline = options.multiline.as_ref().map(|rule| {
        assert_eq!(rule.start, "timestamp");
        let time = TimeSpec { formats: vec![rule.format.clone()], ..TimeSpec::default() };
        Multiline {
            preset: None,
            start: Some(Start::Timestamp),
            time: Some(time),
            pattern: None,
            more: None,
            end: None,
            lines_max: LINES_MAX_DEFAULT,
        }
    });
    let spec = Spec {
        multiline,
        encoding: Some(options.encoding.clone().unwrap_or_else(|| "utf-8".to_owned())),
        container: if by_container { Container::Auto } else { Container::None },
        bytes_max: line_max,
    };
    let rules = Rules::new(&spec).unwrap();
    let timeout = options.multiline.as_ref().map_or(Duration::ZERO, |rule| rule.timeout.0);
    (!rules.is_plain()).then(|| Framing { rules: Arc::new(rules), timeout })
}
