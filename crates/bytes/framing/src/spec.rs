//! What can be configured, and what is refused.

use crate::container::Kind;
use crate::encoding::{Coding, Name};
use crate::group::Limits;
use crate::pattern::Pattern;
use crate::rule::{Matcher, Rule};
use crate::{TimeReader, TimeSpec};
use millstream_timestamps::Format;
use std::sync::Arc;

/// Lines of an event, where nothing else is said.
pub const LINES_MAX_DEFAULT: usize = 1000;

/// What is wrong with a configuration: a JSON pointer below the options; what is wrong, and what to
/// write instead.
pub type Fault = (&'static str, String);

/// How the bytes of files become events.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Which lines belong together; without it, each is an event.
    pub multiline: Option<Multiline>,
    /// A label of the WHATWG Encoding Standard, or `utf-16`; without it UTF-8.
    pub encoding: Option<String>,
    /// What the lines are wrapped in.
    pub container: Container,
    /// Most bytes of an event of several lines.
    pub bytes_max: usize,
}

impl Default for Spec {
    fn default() -> Spec {
        Spec { multiline: None, encoding: None, container: Container::None, bytes_max: 256 * 1024 }
    }
}

/// What the lines of files are wrapped in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Container {
    /// Nothing.
    #[default]
    None,
    /// Time, stream and tags, as the Container Runtime Interface has them.
    Cri,
    /// A JSON object, as Docker's `json-file` writes it.
    Docker,
    /// Either, or nothing, as the first line of a file says.
    Auto,
}

/// Which lines belong together.
#[derive(Clone, Debug)]
pub struct Multiline {
    /// A whole rule for what a language prints.
    pub preset: Option<Preset>,
    /// What the first line of an event looks like.
    pub start: Option<Start>,
    /// Where it says its time, for [`Start::Timestamp`].
    pub time: Option<TimeSpec>,
    /// The expression for [`Start::Regex`].
    pub pattern: Option<String>,
    /// Lines that match it belong to the event before them.
    pub more: Option<String>,
    /// An event ends with a line that matches it.
    pub end: Option<String>,
    /// Most lines of an event.
    pub lines_max: usize,
}

impl Default for Multiline {
    fn default() -> Multiline {
        let (preset, start, time, pattern, more, end) = (None, None, None, None, None, None);
        Multiline { preset, start, time, pattern, more, end, lines_max: LINES_MAX_DEFAULT }
    }
}

/// What the first line of an event looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// It has a time.
    Timestamp,
    /// It matches a regular expression.
    Regex,
    /// It does not begin with white space.
    Indentation,
}

/// What a language prints over several lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Stack traces.
    Java,
    /// Tracebacks.
    Python,
    /// Panics and fatal errors with their goroutines.
    Go,
    /// Objects and arrays.
    Json,
}

/// How lines are found, as it is configured.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    Plain,
    Coded(Coding),
    /// The file's byte order mark says which.
    Utf16,
    Container(Kind),
    /// The file's first line says which.
    Auto,
}

/// How the bytes of files become events, compiled.
#[derive(Clone, Debug)]
pub struct Rules {
    pub(crate) form: Form,
    pub(crate) rule: Option<Rule>,
    pub(crate) time: Option<TimeReader>,
    pub(crate) limits: Limits,
    /// Of the times that containers write.
    pub(crate) container_time: Arc<Format>,
}

impl Rules {
    /// Compiles rules.
    ///
    /// # Errors
    ///
    /// The first fault; its pointer counts from the object that has `multiline`, `encoding` and
    /// `format`.
    pub fn new(spec: &Spec) -> Result<Rules, Fault> {
        let form = form(spec)?;
        let (rule, time) = match &spec.multiline {
            Some(multiline) => (Some(rule(multiline)?), time(multiline)?),
            None => (None, None),
        };
        let lines =
            spec.multiline.as_ref().map_or(LINES_MAX_DEFAULT, |multiline| multiline.lines_max);
        let limits = Limits { lines, bytes: spec.bytes_max };
        let container_time =
            Format::new("rfc3339", None).map_err(|message| ("/format", message))?;
        Ok(Rules { form, rule, time, limits, container_time: Arc::new(container_time) })
    }

    /// Whether every line is an event as it stands: no framer is needed.
    pub fn is_plain(&self) -> bool {
        matches!(self.form, Form::Plain) && self.rule.is_none()
    }
}

fn form(spec: &Spec) -> Result<Form, Fault> {
    let name = spec.encoding.as_deref().map(Name::new).transpose();
    let name = name.map_err(|message| ("/encoding", message))?.unwrap_or(Name::Utf8);
    let wrapped = match spec.container {
        Container::None => None,
        Container::Cri => Some(Form::Container(Kind::Cri)),
        Container::Docker => Some(Form::Container(Kind::Docker)),
        Container::Auto => Some(Form::Auto),
    };
    match (name, wrapped) {
        (Name::Utf8, None) => Ok(Form::Plain),
        (Name::Utf8, Some(form)) => Ok(form),
        (Name::Utf16, None) => Ok(Form::Utf16),
        (Name::Coding(coding), None) => Ok(Form::Coded(coding)),
        (_, Some(_)) => {
            Err(("/encoding", "container runtimes write utf-8; leave out encoding".into()))
        }
    }
}

fn rule(multiline: &Multiline) -> Result<Rule, Fault> {
    if multiline.lines_max == 0 {
        return Err((
            "/multiline/lines_max",
            "an event has one line at least; write 1 or more".into(),
        ));
    }
    let pattern = |text: &Option<String>, key| {
        let pattern = text.as_deref().map(Pattern::new).transpose();
        pattern.map_err(|message| (key, format!("no regular expression: {message}")))
    };
    let more = pattern(&multiline.more, "/multiline/continue")?;
    let end = pattern(&multiline.end, "/multiline/end")?;
    if let Some(preset) = multiline.preset {
        return preset_rule(multiline, preset);
    }
    let start = start(multiline, pattern(&multiline.pattern, "/multiline/pattern")?)?;
    Ok(match (start, more, end) {
        (_, Some(_), Some(_)) => {
            let message = "which one decides where an event ends? leave out end or continue";
            return Err(("/multiline/end", message.into()));
        }
        (Some(First::Indentation), None, None) => Rule::Indentation,
        (Some(First::Indentation), ..) => {
            let message =
                "indentation says it all; leave out continue and end, or write start: regex";
            return Err(("/multiline/start", message.into()));
        }
        (Some(First::Matcher(start)), Some(more), None) => Rule::StartContinue(start, more),
        (Some(First::Matcher(start)), None, Some(end)) => Rule::StartEnd(start, end),
        (Some(First::Matcher(start)), None, None) => Rule::Start(start),
        (None, Some(more), None) => Rule::Continue(more),
        (None, None, Some(end)) => Rule::End(end),
        (None, None, None) => {
            return Err((
                "/multiline",
                "joins nothing; write preset:, start:, continue: or end:".into(),
            ));
        }
    })
}

/// What the first line looks like, compiled.
enum First {
    Indentation,
    Matcher(Matcher),
}

fn start(multiline: &Multiline, pattern: Option<Pattern>) -> Result<Option<First>, Fault> {
    if multiline.time.is_some() && multiline.start != Some(Start::Timestamp) {
        let message =
            "says where a time is, which only start: timestamp reads; write that, or leave it out";
        return Err(("/multiline/format", message.into()));
    }
    if pattern.is_some() && multiline.start != Some(Start::Regex) {
        let message = "is the expression of start: regex; write that as well, or leave it out";
        return Err(("/multiline/pattern", message.into()));
    }
    Ok(match multiline.start {
        None => None,
        Some(Start::Indentation) => Some(First::Indentation),
        Some(Start::Regex) => {
            let missing =
                || ("/multiline/pattern", "start: regex needs it; write for example '^\\['".into());
            Some(First::Matcher(Matcher::Pattern(pattern.ok_or_else(missing)?)))
        }
        Some(Start::Timestamp)
            if multiline.time.as_ref().is_none_or(|time| time.formats.is_empty()) =>
        {
            let message = "start: timestamp needs it; write for example iso8601";
            return Err(("/multiline/format", message.into()));
        }
        Some(Start::Timestamp) => Some(First::Matcher(Matcher::Time)),
    })
}

fn time(multiline: &Multiline) -> Result<Option<TimeReader>, Fault> {
    multiline.time.as_ref().map(TimeSpec::reader).transpose().map_err(below)
}

/// A fault of the time, as one of `multiline`.
fn below((key, message): Fault) -> Fault {
    let keys = ["/multiline/format", "/multiline/after", "/multiline/nth", "/multiline/timezone"];
    (keys.into_iter().find(|whole| whole.ends_with(key)).unwrap_or("/multiline"), message)
}

fn preset_rule(multiline: &Multiline, preset: Preset) -> Result<Rule, Fault> {
    let Multiline { start, time, pattern, more, end, .. } = multiline;
    if start.is_some() || time.is_some() || [pattern, more, end].iter().any(|text| text.is_some()) {
        let message =
            "a preset is a whole rule; leave it out, or start, pattern, format, continue and end";
        return Err(("/multiline/preset", message.into()));
    }
    Ok(match preset {
        Preset::Java => Rule::Java,
        Preset::Python => Rule::Python,
        Preset::Go => Rule::Go,
        Preset::Json => Rule::Json,
    })
}
