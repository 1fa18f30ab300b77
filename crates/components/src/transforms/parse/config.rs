//! Configuration of transform `parse`.

use super::build::{Builder, Format};
use super::{Keep, Parse, TimeField};
use crate::component::{Component, TransformComponent};
use crate::framing::TimeFormats;
use crate::on_error::OnError;
use millstream_framing::TimeSpec;
use millstream_model::{BuildError, Transform};
use millstream_parsers::{Parser, TimeField as TimeOfFormat};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Declares the options of `parse`, and those of one of its formats, which can be used alone or as
/// one of several.
macro_rules! options {
    ($($(#[$docs:meta])* $key:ident: $kind:ty,)*) => {
        /// Options of transform `parse`.
        #[derive(Clone, Debug, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct ParseConfig {
            $($(#[$docs])* pub $key: $kind,)*
            /// Formats that are tried in this order, each with its own options; replaces `format`.
            pub formats: Option<Vec<FormatConfig>>,
            /// The field to parse.
            #[serde(default = "message")]
            pub field: String,
            /// Whether that field is kept.
            pub keep: Option<Keep>,
            /// Position and format of a line's own timestamp.
            pub time: Option<TimeConfig>,
            /// What happens to an event that cannot be parsed.
            #[serde(default)]
            pub on_error: OnError,
        }

        /// One of several formats.
        #[derive(Clone, Debug, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct FormatConfig {
            $($(#[$docs])* pub $key: $kind,)*
        }

        impl ParseConfig {
            /// Returns the format used alone.
            fn format_config(&self) -> FormatConfig {
                FormatConfig { $($key: self.$key.clone(),)* }
            }
        }
    };
}

options! {
    /// How a line is parsed; `none` leaves it unchanged.
    #[serde(default)]
    format: Format,
    /// For `nginx` and `apache`: the server's log format.
    log_format: Option<String>,
    /// For `nginx`: how values are escaped, as in `escape=` of the server's `log_format`.
    escape: Option<EscapeName>,
    /// For `regex` and `grok`: the pattern; its named groups become fields.
    pattern: Option<String>,
    /// For `grok`: custom patterns, by name.
    #[serde(default)]
    patterns: BTreeMap<String, String>,
    /// For `delimited`: the names of the fields, in order. For `json`: the only keys that become
    /// fields.
    fields: Option<Vec<FieldConfig>>,
    /// For `delimited`: the delimiter between two fields. For `key_value`: the delimiter between
    /// two pairs.
    delimiter: Option<String>,
    /// For `key_value`: the delimiter between a key and its value.
    key_value_delimiter: Option<String>,
    /// For `delimited` and `key_value`: whether values may be quoted.
    quotes: Option<bool>,
    /// For `delimited`: whether white space around values is removed.
    trim: Option<bool>,
    /// For `delimited`: whether a line with more or fewer fields is an error.
    strict: Option<bool>,
    /// For `syslog`: the zone of timestamps without one.
    timezone: Option<String>,
    /// For `json`: whether members of nested objects become separate fields, such as `a.b`.
    flatten: Option<bool>,
    /// Types of fields, by name.
    #[serde(default)]
    types: BTreeMap<String, TypeConfig>,
}

/// A field and its type.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum FieldConfig {
    /// Its name.
    Name(String),
    /// Name and type.
    Typed(TypedField),
}

/// A field with a type.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedField {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: TypeName,
    /// For `timestamp`: its format.
    pub format: Option<String>,
}

/// The type of a field.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum TypeConfig {
    /// Its name.
    Name(TypeName),
    /// A type with a format.
    Formatted(FormattedType),
}

/// A type with a format.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FormattedType {
    /// The type.
    #[serde(rename = "type")]
    pub kind: TypeName,
    /// For `timestamp`: its format.
    pub format: Option<String>,
}

/// How nginx escapes values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EscapeName {
    /// `\xHH`.
    Default,
    /// As in JSON strings.
    Json,
    /// No escaping.
    None,
}

/// A type by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TypeName {
    /// Unchanged text.
    Text,
    /// An integer.
    Int,
    /// A number.
    Float,
    /// `true` or `false`.
    Bool,
    /// A time, formatted as RFC 3339.
    Timestamp,
    /// An IPv4 or IPv6 address.
    Ip,
}

fn message() -> String {
    "message".to_owned()
}

/// Position and format of a line's own timestamp.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimeConfig {
    /// The field with the timestamp; the line by default. The field is removed once it is parsed.
    pub field: Option<String>,
    /// A `strptime` format, or `iso8601`, `rfc3339`, `epoch_s`, `epoch_ms`, `epoch_us`, `epoch_ns`;
    /// or a list of them, of which the first match is used.
    pub format: TimeFormats,
    /// Text directly before the timestamp; without it, the timestamp starts the text.
    pub after: Option<String>,
    /// Which occurrence of `after` precedes the timestamp, counted from 1; the first by default.
    pub nth: Option<u32>,
    /// Time zone of timestamps without one: `UTC` (the default), `+02:00`, `Europe/Berlin`, or
    /// `local` for the host's.
    pub timezone: Option<String>,
    /// Whether the field is kept after its timestamp is parsed.
    #[serde(default)]
    pub keep: bool,
}

impl TimeConfig {
    fn spec(&self) -> TimeSpec {
        let TimeConfig { format, after, nth, timezone, .. } = self.clone();
        TimeSpec { formats: format.into(), after, nth, timezone }
    }
}

/// Configuration errors, by JSON pointer.
type ConfigErrors = Vec<(String, String)>;

impl ParseConfig {
    /// Returns the formats in the order they are tried, each with its JSON pointer.
    fn format_configs(&self) -> Vec<(String, FormatConfig)> {
        match &self.formats {
            None => vec![(String::new(), self.format_config())],
            Some(list) => {
                let pointer = |(index, config): (usize, &FormatConfig)| {
                    (format!("/formats/{index}"), config.clone())
                };
                // Options beside `formats` apply to none of them.
                let beside =
                    (String::new(), FormatConfig { format: Format::None, ..self.format_config() });
                std::iter::once(beside).chain(list.iter().enumerate().map(pointer)).collect()
            }
        }
    }

    fn parsers(&self) -> (Vec<Box<dyn Parser>>, ConfigErrors) {
        let (mut parsers, mut errors) = (Vec::new(), Vec::new());
        for (pointer, config) in self.format_configs() {
            match Builder(&config).parser() {
                Ok(parser) => parsers.extend(parser),
                Err((key, message)) => errors.push((format!("{pointer}{key}"), message)),
            }
        }
        (parsers, errors)
    }

    /// Returns the names of the formats, in the order they are tried.
    fn names(&self) -> Vec<String> {
        let configs = self.format_configs().into_iter().map(|(_, config)| config.format);
        configs.filter(|format| *format != Format::None).map(|format| format.to_string()).collect()
    }

    /// Returns the configured time, or else those of the formats.
    fn times(&self, parsers: &[Box<dyn Parser>]) -> Result<Vec<TimeField>, (String, String)> {
        let reader = |spec: TimeSpec| {
            spec.reader().map_err(|(key, message)| (format!("/time{key}"), message))
        };
        if let Some(time) = &self.time {
            let field = time.field.as_deref().map(Arc::from);
            let (reader, keep) = (reader(time.spec())?, time.keep);
            let reader = if time.field.is_some() { reader.of_fields() } else { reader };
            return Ok(vec![TimeField { field, reader, keep, is_required: true }]);
        }
        let mut of_formats: Vec<(Arc<str>, Vec<String>)> = Vec::new();
        for TimeOfFormat { name, format } in parsers.iter().filter_map(|parser| parser.time_field())
        {
            match of_formats.iter_mut().find(|(known, _)| *known == name) {
                Some((_, formats)) => formats.push(format.to_string()),
                None => of_formats.push((name, vec![format.to_string()])),
            }
        }
        let of = |(name, formats)| {
            let reader = reader(TimeSpec { formats, ..TimeSpec::default() })?;
            Ok(TimeField { field: Some(name), reader, keep: false, is_required: false })
        };
        of_formats.into_iter().map(of).collect()
    }

    fn time_errors(&self) -> ConfigErrors {
        let Some(time) = &self.time else { return Vec::new() };
        let mut errors: ConfigErrors = time
            .spec()
            .errors()
            .into_iter()
            .map(|(key, message)| (format!("/time{key}"), message))
            .collect();
        if time.keep && time.field.is_none() {
            errors.push(("/time/keep".into(), "applies to a field; set time.field as well".into()));
        }
        errors
    }
}

impl ParseConfig {
    /// Returns the errors of options that require `format` when it is absent.
    fn without_format(&self) -> ConfigErrors {
        let keys = [("/keep", self.keep.is_some()), ("/field", self.field != "message")];
        let message = "needs a format; remove it, or write for example format: json";
        keys.into_iter()
            .filter(|(_, given)| *given)
            .map(|(key, _)| (key.into(), message.into()))
            .collect()
    }
}

impl Component for ParseConfig {
    fn makes_metrics(&self) -> bool {
        true
    }

    fn check(&self) -> Vec<(String, String)> {
        let (parsers, mut errors) = self.parsers();
        errors.extend(self.time_errors());
        if self.formats.is_some() && self.format != Format::None {
            errors.push(("/formats".into(), "conflicts with format; keep one of them".into()));
        }
        if self.field.is_empty() {
            errors.push(("/field".into(), "is empty; write the name of the field".into()));
        }
        if self.formats.as_ref().is_some_and(Vec::is_empty) {
            errors
                .push(("/formats".into(), "is empty; write for example [{ format: json }]".into()));
        }
        if errors.is_empty() && parsers.is_empty() {
            errors.extend(self.without_format());
        }
        if errors.is_empty() && parsers.is_empty() && self.time.is_none() {
            let message =
                "has no effect; write for example format: json, or time: { format: iso8601 }";
            errors.push((String::new(), message.into()));
        }
        errors
    }

    fn outputs(&self) -> Vec<String> {
        self.on_error.outputs()
    }
}

impl TransformComponent for ParseConfig {
    fn build(&self) -> Result<Transform, BuildError> {
        let (parsers, errors) = self.parsers();
        if let Some((key, message)) = errors.into_iter().next() {
            return Err(BuildError(format!("{key}: {message}")));
        }
        let times = self
            .times(&parsers)
            .map_err(|(key, message)| BuildError(format!("{key}: {message}")))?;
        let keep =
            self.keep.unwrap_or(if parsers.is_empty() { Keep::Always } else { Keep::OnError });
        let field = (self.field != "message").then(|| self.field.as_str().into());
        let formats: Arc<[String]> = self.names().into();
        let (parsers, on_error) = (Arc::new(parking_lot::Mutex::new(parsers)), self.on_error);
        Ok(Transform::Map(Arc::new(move || {
            let parsers = parsers.lock();
            let parsers = parsers.iter().map(|parser| parser.clone_boxed()).collect();
            let (formats, field, times) = (formats.clone(), field.clone(), times.clone());
            Box::new(Parse { parsers, formats, field, keep, times, on_error })
        })))
    }
}
