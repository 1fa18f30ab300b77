//! Configuration of transform `parse`.

use super::form::{Form, Format};
use super::{Keep, Parse, TimeField};
use crate::framing::TimeFormats;
use crate::on_error::OnError;
use crate::registry::{Component, TransformComponent};
use millstream_framing::TimeSpec;
use millstream_model::{BuildError, Transform};
use millstream_parsers::{Parser, TimeField as TimeOfFormat};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Declares the options of `parse` and those of one of its formats: a format can be given alone, or
/// as one of several.
macro_rules! options {
    ($($(#[$docs:meta])* $key:ident: $kind:ty,)*) => {
        /// Options of transform `parse`.
        #[derive(Clone, Debug, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct ParseConfig {
            $($(#[$docs])* pub $key: $kind,)*
            /// Formats that are tried in this order, each with its own options; instead of
            /// `format`.
            pub formats: Option<Vec<FormConfig>>,
            /// The field that is taken apart.
            #[serde(default = "message")]
            pub field: String,
            /// Whether that field is kept.
            pub keep: Option<Keep>,
            /// Where a line says its own time, and how.
            pub time: Option<TimeConfig>,
            /// What becomes of an event whose line does not fit.
            #[serde(default)]
            pub on_error: OnError,
        }

        /// One of several formats.
        #[derive(Clone, Debug, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct FormConfig {
            $($(#[$docs])* pub $key: $kind,)*
        }

        impl ParseConfig {
            /// The format that is given alone.
            fn form(&self) -> FormConfig {
                FormConfig { $($key: self.$key.clone(),)* }
            }
        }
    };
}

options! {
    /// How a line is taken apart: `none` leaves it as it is.
    #[serde(default)]
    format: Format,
    /// Of `nginx` and `apache`: the format as the server has it.
    log_format: Option<String>,
    /// Of `nginx`: how values are escaped, as `escape=` of the server's `log_format` says.
    escape: Option<EscapeName>,
    /// Of `regex` and `grok`: the pattern; its named groups become fields.
    pattern: Option<String>,
    /// Of `grok`: patterns of your own, by name.
    #[serde(default)]
    patterns: BTreeMap<String, String>,
    /// Of `delimited`: the names of the fields in their order. Of `json`: the only keys that become
    /// fields.
    fields: Option<Vec<FieldConfig>>,
    /// Of `delimited`: what stands between two fields. Of `key_value`: what stands between two
    /// pairs.
    delimiter: Option<String>,
    /// Of `key_value`: what stands between a key and its value.
    key_value_delimiter: Option<String>,
    /// Of `delimited` and `key_value`: whether values may stand in quotes.
    quotes: Option<bool>,
    /// Of `delimited`: whether white space around values is left out.
    trim: Option<bool>,
    /// Of `delimited`: whether a line with more or fewer fields does not fit.
    strict: Option<bool>,
    /// Of `syslog`: the zone of times that do not say theirs.
    timezone: Option<String>,
    /// Of `json`: whether members of nested objects become fields of their own, such as `a.b`.
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
    /// Of `timestamp`: how it is written.
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
    /// Of `timestamp`: how it is written.
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
    /// Not at all.
    None,
}

/// A type by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TypeName {
    /// As it stands in the line.
    Text,
    /// A whole number.
    Int,
    /// A number.
    Float,
    /// `true` or `false`.
    Bool,
    /// A time, written as RFC 3339.
    Timestamp,
    /// An IPv4 or IPv6 address.
    Ip,
}

fn message() -> String {
    "message".to_owned()
}

/// Where a line says its own time, and how.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimeConfig {
    /// The field that has the time; without it, the line. Once it was read, the field is left out.
    pub field: Option<String>,
    /// Pieces as `strptime` has them, or `iso8601`, `rfc3339`, `epoch_s`, `epoch_ms`, `epoch_us`,
    /// `epoch_ns`; or a list of them, of which the first that fits is taken.
    pub format: TimeFormats,
    /// The time begins right behind this text; without it, at the beginning of the line.
    pub after: Option<String>,
    /// Behind which occurrence of `after` it begins, counted from 1; the first if left out.
    pub nth: Option<u32>,
    /// Time zone of times that do not say it: `UTC`, which it is without this option, `+02:00`,
    /// `Europe/Berlin`, or `local` for the host's.
    pub timezone: Option<String>,
    /// Whether the field is kept although its time was read.
    #[serde(default)]
    pub keep: bool,
}

impl TimeConfig {
    fn spec(&self) -> TimeSpec {
        let TimeConfig { format, after, nth, timezone, .. } = self.clone();
        TimeSpec { formats: format.into(), after, nth, timezone }
    }
}

/// What is wrong, by JSON pointer.
type Faults = Vec<(String, String)>;

impl ParseConfig {
    /// The formats in the order they are tried, each with its JSON pointer.
    fn forms(&self) -> Vec<(String, FormConfig)> {
        match &self.formats {
            None => vec![(String::new(), self.form())],
            Some(list) => {
                let pointer = |(index, form): (usize, &FormConfig)| {
                    (format!("/formats/{index}"), form.clone())
                };
                // What stands beside them belongs to none of them.
                let beside = (String::new(), FormConfig { format: Format::None, ..self.form() });
                std::iter::once(beside).chain(list.iter().enumerate().map(pointer)).collect()
            }
        }
    }

    fn parsers(&self) -> (Vec<Box<dyn Parser>>, Faults) {
        let (mut parsers, mut faults) = (Vec::new(), Vec::new());
        for (pointer, form) in self.forms() {
            match Form(&form).parser() {
                Ok(parser) => parsers.extend(parser),
                Err((key, message)) => faults.push((format!("{pointer}{key}"), message)),
            }
        }
        (parsers, faults)
    }

    /// What the formats are called, in the order they are tried.
    fn names(&self) -> Vec<String> {
        let forms = self.forms().into_iter().map(|(_, form)| form.format);
        forms.filter(|format| *format != Format::None).map(|format| format.to_string()).collect()
    }

    /// The time as it is configured, or else as the formats have it.
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

    fn time_faults(&self) -> Faults {
        let Some(time) = &self.time else { return Vec::new() };
        let mut faults: Faults = time
            .spec()
            .faults()
            .into_iter()
            .map(|(key, message)| (format!("/time{key}"), message))
            .collect();
        if time.keep && time.field.is_none() {
            faults.push(("/time/keep".into(), "keeps a field; write time.field as well".into()));
        }
        faults
    }
}

impl ParseConfig {
    /// What says how lines are taken apart where none is.
    fn without_format(&self) -> Faults {
        let keys = [("/keep", self.keep.is_some()), ("/field", self.field != "message")];
        let message = "is of what is taken apart; remove it, or write for example format: json";
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
        let (parsers, mut faults) = self.parsers();
        faults.extend(self.time_faults());
        if self.formats.is_some() && self.format != Format::None {
            faults.push(("/formats".into(), "stands beside format; write only one of them".into()));
        }
        if self.field.is_empty() {
            faults.push((
                "/field".into(),
                "a field without a name cannot be taken apart; write its name".into(),
            ));
        }
        if self.formats.as_ref().is_some_and(Vec::is_empty) {
            faults.push((
                "/formats".into(),
                "has no format; write for example [{ format: json }]".into(),
            ));
        }
        if faults.is_empty() && parsers.is_empty() {
            faults.extend(self.without_format());
        }
        if faults.is_empty() && parsers.is_empty() && self.time.is_none() {
            let message =
                "does nothing; write for example format: json, or time: { format: iso8601 }";
            faults.push((String::new(), message.into()));
        }
        faults
    }

    fn outputs(&self) -> Vec<String> {
        self.on_error.outputs()
    }
}

impl TransformComponent for ParseConfig {
    fn build(self) -> Result<Transform, BuildError> {
        let (parsers, faults) = self.parsers();
        if let Some((key, message)) = faults.into_iter().next() {
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
            let parsers = parsers.iter().map(|parser| parser.again()).collect();
            let (formats, field, times) = (formats.clone(), field.clone(), times.clone());
            Box::new(Parse { parsers, formats, field, keep, times, on_error })
        })))
    }
}
