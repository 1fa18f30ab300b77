//! Configuration of transform `parse`.

use super::Keep;
use crate::transforms::on_error::OnError;
use crate::util::framing::TimeFormats;
use millstream_framing::TimeSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
            /// Position and format of a line's own timestamp. With `formats`, of the lines that are parsed
            /// by a format without a time.
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
            /// Position and format of the timestamp of a line in this format.
            pub time: Option<TimeConfig>,
        }

        impl ParseConfig {
            /// Returns the format used alone.
            pub fn format_config(&self) -> FormatConfig {
                FormatConfig { $($key: self.$key.clone(),)* time: None }
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
    /// For `delimited`: the names of the fields, in order; with `header`, the only columns that become
    /// fields. For `json`: the only keys that become fields.
    fields: Option<Vec<FieldConfig>>,
    /// For `delimited`: the delimiter between two fields. For `key_value`: the delimiter between
    /// two pairs. For `leef`: the delimiter between two attributes, instead of that of the line.
    delimiter: Option<String>,
    /// For `key_value`: the delimiter between a key and its value.
    key_value_delimiter: Option<String>,
    /// For `delimited` and `key_value`: whether values may be quoted, or the characters that quote
    /// them.
    quotes: Option<Quotes>,
    /// For `delimited` and `key_value`: whether a backslash escapes quotes, delimiters, and other
    /// characters as in JSON. For `cef` and `leef`: whether `\=`, `\\`, `\n` and `\r` in values are
    /// decoded.
    escapes: Option<bool>,
    /// For `delimited` and `key_value`: whether white space around keys and values is removed.
    trim: Option<bool>,
    /// For `delimited` and `key_value`: values without quotes that yield no field, such as `-`. For
    /// `cef` and `leef`: values that yield no field, which may be empty.
    #[serde(default)]
    null_values: Vec<String>,
    /// For `delimited`: whether a line with more or fewer fields is an error.
    strict: Option<bool>,
    /// For `delimited`: which lines of the file name the columns.
    header: Option<Header>,
    /// For `syslog`: the zone of timestamps without one.
    timezone: Option<String>,
    /// For `json`: whether members of nested objects become separate fields, such as `a.b`.
    flatten: Option<bool>,
    /// Types of fields, by name.
    #[serde(default)]
    types: BTreeMap<String, TypeConfig>,
}

/// Which lines of a file name the columns of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Header {
    /// None: `fields` has the names in order.
    None,
    /// Lines that begin with `#Fields:`; other lines that begin with `#` are comments.
    FieldsLine,
    /// The first line of each file, and lines with the same columns in any order.
    FirstLine,
}

/// The quotes around values.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Quotes {
    /// Whether values may be quoted, by the quotes of the format.
    Enabled(bool),
    /// Characters that quote values.
    Characters(String),
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
    /// Returns the options of the reader.
    pub fn spec(&self) -> TimeSpec {
        let TimeConfig { format, after, nth, timezone, .. } = self.clone();
        TimeSpec { formats: format.into(), after, nth, timezone }
    }
}

/// How a line is parsed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Not parsed.
    #[default]
    None,
    /// A JSON object.
    Json,
    /// Named groups of a regular expression.
    Regex,
    /// A Logstash pattern.
    Grok,
    /// Values in a fixed order, with a delimiter.
    Delimited,
    /// Like `delimited`, with the defaults of CSV.
    Csv,
    /// Like `delimited`, with tabs.
    Tsv,
    /// Keys with values.
    KeyValue,
    /// Like `key_value`, with the defaults of `logfmt`.
    Logfmt,
    /// Like `key_value`, with colons and tabs.
    Ltsv,
    /// An nginx access log.
    Nginx,
    /// An access log of the Apache HTTP Server.
    Apache,
    /// Syslog: RFC 3164 and RFC 5424.
    Syslog,
    /// CEF, the Common Event Format.
    Cef,
    /// LEEF, the Log Event Extended Format.
    Leef,
    /// The CRI log format of container runtimes.
    Cri,
    /// Docker's `json-file` format.
    Docker,
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.serialize(f)
    }
}
