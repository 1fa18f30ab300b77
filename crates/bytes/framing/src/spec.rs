//! The configuration and its validation.

use crate::container::Kind;
use crate::encoding::{Name, TextDecoder};
use crate::group::Limits;
use crate::pattern::Pattern;
use crate::presets::slow_log;
use crate::rule::{Matcher, Rule};
use crate::{TimeReader, TimeSpec};
use millstream_timestamps::Format;
use std::sync::Arc;

/// Default maximum number of lines per event.
pub const LINES_MAX_DEFAULT: usize = 1000;

/// A configuration error: a JSON pointer relative to the options, and a message that says what is
/// wrong and what to use instead.
pub type SpecError = (&'static str, String);

/// Rules for splitting files into events.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Rules for multi-line events. Without rules, each line is an event.
    pub multiline: Option<Multiline>,
    /// A label of the WHATWG Encoding Standard, or `utf-16`. The default is UTF-8.
    pub encoding: Option<String>,
    /// The container log format of the lines.
    pub container: Container,
    /// Maximum number of bytes per event.
    pub bytes_max: usize,
}

impl Default for Spec {
    fn default() -> Spec {
        Spec { multiline: None, encoding: None, container: Container::None, bytes_max: 256 * 1024 }
    }
}

/// The container log format of a file, as configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Container {
    /// Plain lines.
    #[default]
    None,
    /// The CRI format: timestamp, stream, tags, text.
    Cri,
    /// The JSON objects of Docker's `json-file` driver.
    Docker,
    /// CRI, Docker or plain lines, detected from the first line of each file.
    Auto,
}

/// Rules for multi-line events.
#[derive(Clone, Debug)]
pub struct Multiline {
    /// A complete rule for the output of a language.
    pub preset: Option<Preset>,
    /// How to recognize the first line of an event.
    pub start: Option<Start>,
    /// Position and format of the timestamp in the first line, for [`Start::Timestamp`].
    pub time: Option<TimeSpec>,
    /// The regular expression for [`Start::Regex`].
    pub pattern: Option<String>,
    /// Expression for lines that belong to the previous event.
    pub more: Option<String>,
    /// Expression for lines that end an event.
    pub end: Option<String>,
    /// Maximum number of lines per event.
    pub lines_max: usize,
}

impl Default for Multiline {
    fn default() -> Multiline {
        let (preset, start, time, pattern, more, end) = (None, None, None, None, None, None);
        Multiline { preset, start, time, pattern, more, end, lines_max: LINES_MAX_DEFAULT }
    }
}

/// A way to recognize the first line of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The line has a timestamp.
    Timestamp,
    /// The line matches a regular expression.
    Regex,
    /// The line does not begin with whitespace.
    Indentation,
}

/// A language or format with multi-line output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Stack traces.
    Java,
    /// Tracebacks.
    Python,
    /// Panics and fatal errors, with their goroutines.
    Go,
    /// Objects and arrays.
    Json,
}

/// The configured input format.
#[derive(Clone, Copy, Debug)]
pub enum InputFormat {
    Plain,
    Encoded(TextDecoder),
    /// UTF-16; the file's byte order mark selects the byte order.
    Utf16,
    Container(Kind),
    /// Detected from the file's first line.
    Auto,
}

/// Compiled rules.
#[derive(Clone, Debug)]
pub struct Rules {
    pub(crate) format: InputFormat,
    pub(crate) rule: Option<Rule>,
    pub(crate) time: Option<TimeReader>,
    pub(crate) limits: Limits,
    /// The format of the timestamps in container logs.
    pub(crate) container_time: Arc<Format>,
}

impl Rules {
    /// Compiles the rules.
    ///
    /// # Errors
    ///
    /// Returns the first error in `spec`. The pointer is relative to the object that contains
    /// `multiline`, `encoding` and `format`.
    pub fn new(spec: &Spec) -> Result<Rules, SpecError> {
        let format = format(spec)?;
        let (rule, time) = match &spec.multiline {
            Some(multiline) => (Some(rule(multiline)?), time(multiline)?),
            None => (None, None),
        };
        let lines =
            spec.multiline.as_ref().map_or(LINES_MAX_DEFAULT, |multiline| multiline.lines_max);
        let limits = Limits { lines, bytes: spec.bytes_max };
        let container_time =
            Format::new("rfc3339", None).map_err(|message| ("/format", message))?;
        Ok(Rules { format, rule, time, limits, container_time: Arc::new(container_time) })
    }

    /// Returns whether every line is an unchanged event, so that no framer is needed.
    pub fn is_plain(&self) -> bool {
        matches!(self.format, InputFormat::Plain) && self.rule.is_none()
    }
}

fn format(spec: &Spec) -> Result<InputFormat, SpecError> {
    let name = spec.encoding.as_deref().map(Name::new).transpose();
    let name = name.map_err(|message| ("/encoding", message))?.unwrap_or(Name::Utf8);
    let container = match spec.container {
        Container::None => None,
        Container::Cri => Some(InputFormat::Container(Kind::Cri)),
        Container::Docker => Some(InputFormat::Container(Kind::Docker)),
        Container::Auto => Some(InputFormat::Auto),
    };
    match (name, container) {
        (Name::Utf8, None) => Ok(InputFormat::Plain),
        (Name::Utf8, Some(format)) => Ok(format),
        (Name::Utf16, None) => Ok(InputFormat::Utf16),
        (Name::TextDecoder(decoder), None) => Ok(InputFormat::Encoded(decoder)),
        (_, Some(_)) => {
            Err(("/encoding", "container logs are always utf-8; remove encoding".into()))
        }
    }
}

fn rule(multiline: &Multiline) -> Result<Rule, SpecError> {
    if multiline.lines_max == 0 {
        return Err((
            "/multiline/lines_max",
            "an event has at least one line; use 1 or more".into(),
        ));
    }
    let pattern = |text: &Option<String>, key| {
        let pattern = text.as_deref().map(Pattern::new).transpose();
        pattern.map_err(|message| (key, format!("invalid regular expression: {message}")))
    };
    let more = pattern(&multiline.more, "/multiline/continue")?;
    let end = pattern(&multiline.end, "/multiline/end")?;
    if let Some(preset) = multiline.preset {
        return preset_rule(multiline, preset);
    }
    let start = start(multiline, pattern(&multiline.pattern, "/multiline/pattern")?)?;
    Ok(match (start, more, end) {
        (_, Some(_), Some(_)) => {
            let message = "end and continue both define where an event ends; remove one of them";
            return Err(("/multiline/end", message.into()));
        }
        (Some(FirstLine::Indentation), None, None) => Rule::Indentation,
        (Some(FirstLine::Indentation), ..) => {
            let message =
                "indentation is a complete rule; remove continue and end, or use start: regex";
            return Err(("/multiline/start", message.into()));
        }
        (Some(FirstLine::Matcher(start)), Some(more), None) => Rule::StartContinue(start, more),
        (Some(FirstLine::Matcher(start)), None, Some(end)) => Rule::StartEnd(start, end),
        (Some(FirstLine::Matcher(start)), None, None) => started_by(start),
        (None, Some(more), None) => Rule::Continue(more),
        (None, None, Some(end)) => Rule::End(end),
        (None, None, None) => {
            return Err((
                "/multiline",
                "contains no rule that joins lines; set preset:, start:, continue: or end:".into(),
            ));
        }
    })
}

/// Returns the rule for events of which only the first line can be recognized.
fn started_by(start: Matcher) -> Rule {
    match start {
        Matcher::Pattern(start) if slow_log::is_started_by(|line| start.is_match(line)) => {
            Rule::SlowLog(start)
        }
        start => Rule::Start(start),
    }
}

/// The compiled form of [`Start`].
enum FirstLine {
    Indentation,
    Matcher(Matcher),
}

fn start(multiline: &Multiline, pattern: Option<Pattern>) -> Result<Option<FirstLine>, SpecError> {
    if multiline.time.is_some() && multiline.start != Some(Start::Timestamp) {
        let message = "locates a timestamp, which only start: timestamp reads; set start: \
                       timestamp, or remove this option";
        return Err(("/multiline/format", message.into()));
    }
    if pattern.is_some() && multiline.start != Some(Start::Regex) {
        let message = "is the expression for start: regex; set start: regex, or remove this option";
        return Err(("/multiline/pattern", message.into()));
    }
    Ok(match multiline.start {
        None => None,
        Some(Start::Indentation) => Some(FirstLine::Indentation),
        Some(Start::Regex) => {
            let missing = || {
                (
                    "/multiline/pattern",
                    "is required by start: regex; use, for example, '^\\['".into(),
                )
            };
            Some(FirstLine::Matcher(Matcher::Pattern(pattern.ok_or_else(missing)?)))
        }
        Some(Start::Timestamp)
            if multiline.time.as_ref().is_none_or(|time| time.formats.is_empty()) =>
        {
            let message = "is required by start: timestamp; use, for example, iso8601";
            return Err(("/multiline/format", message.into()));
        }
        Some(Start::Timestamp) => Some(FirstLine::Matcher(Matcher::Time)),
    })
}

fn time(multiline: &Multiline) -> Result<Option<TimeReader>, SpecError> {
    multiline.time.as_ref().map(TimeSpec::reader).transpose().map_err(below_multiline)
}

/// Maps the key of a timestamp error to the key below `multiline`.
fn below_multiline((key, message): SpecError) -> SpecError {
    let keys = ["/multiline/format", "/multiline/after", "/multiline/nth", "/multiline/timezone"];
    (keys.into_iter().find(|path| path.ends_with(key)).unwrap_or("/multiline"), message)
}

fn preset_rule(multiline: &Multiline, preset: Preset) -> Result<Rule, SpecError> {
    let Multiline { start, time, pattern, more, end, .. } = multiline;
    if start.is_some() || time.is_some() || [pattern, more, end].iter().any(|text| text.is_some()) {
        let message =
            "is a complete rule; remove it, or remove start, pattern, format, continue and end";
        return Err(("/multiline/preset", message.into()));
    }
    Ok(match preset {
        Preset::Java => Rule::Java,
        Preset::Python => Rule::Python,
        Preset::Go => Rule::Go,
        Preset::Json => Rule::Json,
    })
}
