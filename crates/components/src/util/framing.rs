//! Options that define how the bytes of files become events.

use millstream_framing::{
    Container, LINES_MAX_DEFAULT, Multiline, Preset, Rules, Spec, Start, TIME_UNKNOWN as UNKNOWN,
    TimeSpec,
};
use millstream_model::{Interval, OptionError, Size, TIME_UNKNOWN};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;

// Both crates use the same value for an unknown time, although neither depends on the other.
const _: () = assert!(UNKNOWN == TIME_UNKNOWN);

/// Rules that join several lines into one event.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MultilineConfig {
    /// Predefined rules for the output of a language runtime, instead of `start`, `format`,
    /// `after`, `nth`, `timezone`, `pattern`, `continue` and `end`.
    pub preset: Option<PresetName>,
    /// How the first line of an event is recognized.
    pub start: Option<StartName>,
    /// With `start: timestamp`: format of the timestamp, as `strptime` specifiers, or `iso8601`,
    /// `rfc3339`, `epoch_s`, `epoch_ms`, `epoch_us`, `epoch_ns`; or a list of formats. The first
    /// format that matches is used. The timestamp becomes the event time.
    pub format: Option<TimeFormats>,
    /// Text directly before the timestamp. Without it, the timestamp is at the start of the line.
    pub after: Option<String>,
    /// Occurrence of `after` that precedes the timestamp, counted from 1. The default is the first.
    pub nth: Option<u32>,
    /// Time zone for timestamps without a zone: `UTC` (the default), `+02:00`, `Europe/Berlin`, or
    /// `local` for the host's zone.
    pub timezone: Option<String>,
    /// With `start: regex`: regular expression that matches the first line of an event.
    pub pattern: Option<String>,
    /// Regular expression that matches lines that continue the previous event.
    #[serde(rename = "continue")]
    pub more: Option<String>,
    /// Regular expression that matches the last line of an event.
    pub end: Option<String>,
    /// Maximum number of lines per event. Raise it for longer stack traces.
    #[serde(default = "default_lines_max")]
    pub lines_max: usize,
    /// How long the file must have stopped growing before an event ends.
    #[serde(default = "default_timeout")]
    pub timeout: Interval,
}

/// One or more timestamp formats.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum TimeFormats {
    /// A single format.
    One(String),
    /// Several formats; the first that matches is used.
    Several(Vec<String>),
}

impl From<TimeFormats> for Vec<String> {
    fn from(formats: TimeFormats) -> Vec<String> {
        match formats {
            TimeFormats::One(format) => vec![format],
            TimeFormats::Several(formats) => formats,
        }
    }
}

/// Multi-line rules for the output of a language runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PresetName {
    /// Java stack traces.
    Java,
    /// Python tracebacks.
    Python,
    /// Go panics and fatal errors with their goroutines.
    Go,
    /// JSON objects and arrays.
    Json,
}

/// How the first line of an event is recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StartName {
    /// The line contains a timestamp; see `format`.
    Timestamp,
    /// The line matches `pattern`.
    Regex,
    /// The line does not start with a space or tab.
    Indentation,
}

/// A character encoding.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct EncodingName(pub String);

impl Default for EncodingName {
    fn default() -> EncodingName {
        EncodingName("utf-8".into())
    }
}

/// Container log format of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContainerFormat {
    /// No container format: plain lines.
    #[default]
    None,
    /// The CRI format of containerd and CRI-O: time, stream and tags.
    Cri,
    /// The JSON objects of Docker's `json-file` driver.
    Docker,
    /// CRI, Docker or none, detected from the first line of each file.
    Auto,
}

fn default_lines_max() -> usize {
    LINES_MAX_DEFAULT
}

fn default_timeout() -> Interval {
    Interval(Duration::from_secs(1))
}

/// Compiles the rules; returns `None` if every line is an event.
///
/// # Errors
///
/// Returns a JSON pointer below the options that contain `multiline`, `encoding` and `format`, and
/// a message with the error and what to use instead.
pub fn rules(
    multiline: Option<&MultilineConfig>,
    encoding: &EncodingName,
    format: ContainerFormat,
    max_line: Size,
) -> Result<Option<Arc<Rules>>, OptionError> {
    let container = match format {
        ContainerFormat::None => Container::None,
        ContainerFormat::Cri => Container::Cri,
        ContainerFormat::Docker => Container::Docker,
        ContainerFormat::Auto => Container::Auto,
    };
    let multiline = multiline.map(MultilineConfig::spec);
    let spec = Spec {
        multiline,
        encoding: Some(encoding.0.clone()),
        container,
        bytes_max: max_line.0 as usize,
    };
    let rules =
        Rules::new(&spec).map_err(|(pointer, message)| OptionError::new(pointer, message))?;
    Ok((!rules.is_plain()).then(|| Arc::new(rules)))
}

impl MultilineConfig {
    fn spec(&self) -> Multiline {
        let preset = self.preset.map(|preset| match preset {
            PresetName::Java => Preset::Java,
            PresetName::Python => Preset::Python,
            PresetName::Go => Preset::Go,
            PresetName::Json => Preset::Json,
        });
        let start = self.start.map(|start| match start {
            StartName::Timestamp => Start::Timestamp,
            StartName::Regex => Start::Regex,
            StartName::Indentation => Start::Indentation,
        });
        let MultilineConfig { pattern, more, end, lines_max, .. } = self.clone();
        Multiline { preset, start, time: self.time(), pattern, more, end, lines_max }
    }

    /// Returns the position and format of the timestamp in a line, if they are configured.
    fn time(&self) -> Option<TimeSpec> {
        let MultilineConfig { format, after, nth, timezone, .. } = self.clone();
        let has_time = format.is_some() || after.is_some() || nth.is_some() || timezone.is_some();
        has_time.then(|| TimeSpec {
            formats: format.map(Vec::from).unwrap_or_default(),
            after,
            nth,
            timezone,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn compiled(multiline: Value, encoding: &str, format: &str) -> Result<bool, OptionError> {
        let multiline: Option<MultilineConfig> = serde_json::from_value(multiline).unwrap();
        let format = serde_json::from_value(json!(format)).unwrap();
        rules(multiline.as_ref(), &EncodingName(encoding.into()), format, Size(1000))
            .map(|rules| rules.is_some())
    }

    #[test]
    fn plain_lines_need_no_rules() {
        assert_eq!(compiled(Value::Null, "utf-8", "none"), Ok(false));
        assert_eq!(compiled(Value::Null, "UTF8", "none"), Ok(false));
        assert_eq!(compiled(Value::Null, "gbk", "none"), Ok(true));
        assert_eq!(compiled(Value::Null, "utf-8", "auto"), Ok(true));
        assert_eq!(compiled(json!({ "preset": "go" }), "utf-16", "none"), Ok(true));
    }

    #[test]
    fn valid_rules_are_accepted() {
        for multiline in [
            json!({ "start": "timestamp", "format": "%F %T", "after": "[", "nth": 2, "timezone": "+02:00" }),
            json!({ "start": "timestamp", "format": "%F %T", "continue": "^ " }),
            json!({ "start": "timestamp", "format": ["%F %T", "iso8601"], "timezone": "Europe/Berlin" }),
            json!({ "start": "regex", "pattern": "^a", "end": "z$" }),
            json!({ "start": "indentation", "lines_max": 20, "timeout": "5s" }),
            json!({ "continue": "^ " }),
            json!({ "end": ";$" }),
            json!({ "preset": "java" }),
        ] {
            assert_eq!(compiled(multiline.clone(), "utf-8", "cri"), Ok(true), "{multiline}");
        }
    }

    #[test]
    fn errors_have_a_pointer_and_advice() {
        let cases = [
            (json!({}), "/multiline", "set preset:"),
            (json!({ "preset": "go", "end": "x" }), "/multiline/preset", "remove it"),
            (json!({ "start": "regex" }), "/multiline/pattern", "is required by"),
            (json!({ "pattern": "x" }), "/multiline/pattern", "start: regex"),
            (json!({ "start": "timestamp" }), "/multiline/format", "is required by"),
            (json!({ "start": "timestamp", "format": [] }), "/multiline/format", "is required by"),
            (json!({ "start": "timestamp", "after": "[" }), "/multiline/format", "is required by"),
            (
                json!({ "start": "regex", "pattern": "x", "format": "%T" }),
                "/multiline/format",
                "only start",
            ),
            (json!({ "start": "timestamp", "format": "%Q" }), "/multiline/format", "%Q"),
            (
                json!({ "start": "timestamp", "format": "%F %T", "nth": 1 }),
                "/multiline/nth",
                "after",
            ),
            (
                json!({ "start": "timestamp", "format": "%F %T", "timezone": "XYT" }),
                "/multiline/timezone",
                "+02:00",
            ),
            (json!({ "start": "indentation", "end": "x" }), "/multiline/start", "remove"),
            (json!({ "continue": "x", "end": "x" }), "/multiline/end", "remove"),
            (json!({ "end": "(" }), "/multiline/end", "regular expression"),
            (json!({ "end": "x", "lines_max": 0 }), "/multiline/lines_max", "1 or more"),
        ];
        for (multiline, pointer, advice) in cases {
            let error = compiled(multiline.clone(), "utf-8", "none").unwrap_err();
            let (at, message) = (&error.pointer, error.message());
            assert!(at == pointer && message.contains(advice), "{multiline}: {at}: {message}");
        }
        for (encoding, format, advice) in [
            ("latin-7x", "none", "gb18030"),
            ("iso-2022-jp", "none", "utf-8"),
            ("gbk", "cri", "remove"),
        ] {
            let error = compiled(Value::Null, encoding, format).unwrap_err();
            let (at, message) = (&error.pointer, error.message());
            assert!(at == "/encoding" && message.contains(advice), "{encoding}: {at}: {message}");
        }
    }
}
