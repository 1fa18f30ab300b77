//! Configuration of the `parse` transform.

use super::Keep;
use crate::transforms::on_error::OnError;
use crate::util::framing::TimeFormats;
use millstream_framing::TimeSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Declares the options for `parse` and for one entry of its `formats`. The format options are the
/// same whether the format is used alone or as one of several.
macro_rules! options {
    ($($(#[$docs:meta])* $key:ident: $kind:ty,)*) => {
        /// Options for the `parse` transform.
        #[derive(Clone, Debug, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct ParseConfig {
            $($(#[$docs])* pub $key: $kind,)*
            /// Formats to try in order, each with separate options, instead of `format`.
            pub formats: Option<Vec<FormatConfig>>,
            /// Field to parse; `message` is the line unless a field has this name.
            #[serde(default = "message")]
            pub field: String,
            /// Whether the parsed field is kept. By default, it is kept only in events that cannot
            /// be parsed.
            pub keep: Option<Keep>,
            /// Position and format of the timestamp in a line. With `formats`, it applies to lines
            /// that are parsed by a format without `time`.
            pub time: Option<TimeConfig>,
            /// What happens to an event that cannot be parsed.
            #[serde(default)]
            pub on_error: OnError,
        }

        /// Options for one of several formats.
        #[derive(Clone, Debug, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct FormatConfig {
            $($(#[$docs])* pub $key: $kind,)*
            /// Position and format of the timestamp in a line of this format.
            pub time: Option<TimeConfig>,
        }

        impl ParseConfig {
            /// Returns the options for the single `format`.
            pub fn format_config(&self) -> FormatConfig {
                FormatConfig { $($key: self.$key.clone(),)* time: None }
            }
        }
    };
}

options! {
    /// Format of a line; `none` leaves it unchanged.
    #[serde(default)]
    format: Format,
    /// For `nginx` and `apache`: log format from the server's configuration.
    log_format: Option<String>,
    /// For `nginx`: how values are escaped, as in the `escape=` parameter of the server's
    /// `log_format`.
    escape: Option<EscapeName>,
    /// For `regex` and `grok`: the pattern. Named groups become fields.
    pattern: Option<String>,
    /// For `grok`: additional patterns, by name.
    #[serde(default)]
    patterns: BTreeMap<String, String>,
    /// For `delimited`: field names, in order; with `header`, the only columns that become fields.
    /// For `json`: the only keys that become fields.
    fields: Option<Vec<FieldConfig>>,
    /// For `delimited`: the delimiter between fields. For `key_value`: between pairs. For `leef`:
    /// between attributes; overrides the delimiter declared in the line.
    delimiter: Option<String>,
    /// For `key_value`: delimiter between a key and a value.
    key_value_delimiter: Option<String>,
    /// For `delimited` and `key_value`: whether values may be quoted, or the characters that quote
    /// values.
    quotes: Option<Quotes>,
    /// For `delimited` and `key_value`: whether a backslash escapes quotes, delimiters and other
    /// characters as in JSON. For `cef` and `leef`: whether `\=`, `\\`, `\n` and `\r` in values are
    /// decoded.
    escapes: Option<bool>,
    /// For `delimited` and `key_value`: whether whitespace around keys and values is removed.
    trim: Option<bool>,
    /// For `delimited` and `key_value`: unquoted values that yield no field, such as `-`. For `cef`
    /// and `leef`: values that yield no field; the list may contain the empty value.
    #[serde(default)]
    null_values: Vec<String>,
    /// For `delimited`: whether a line with more or fewer fields than expected is an error.
    strict: Option<bool>,
    /// For `delimited`: lines of the file that name the columns.
    header: Option<Header>,
    /// For `syslog`: time zone for timestamps without a zone. The default is `UTC`.
    timezone: Option<String>,
    /// For `json`: whether members of nested objects become separate fields, such as `a.b`.
    flatten: Option<bool>,
    /// Field types, by name, for formats whose fields have no types.
    #[serde(default)]
    types: BTreeMap<String, TypeConfig>,
}

/// Lines of a file that name the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Header {
    /// No line; `fields` lists the names in order.
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
    /// Whether values may be quoted, with the usual quotes of the format.
    Enabled(bool),
    /// Characters that quote values.
    Characters(String),
}

/// A field, with an optional type.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum FieldConfig {
    /// Name of the field.
    Name(String),
    /// Name and type of the field.
    Typed(TypedField),
}

/// A field with a type.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedField {
    /// Name of the field.
    pub name: String,
    /// Field type.
    #[serde(rename = "type")]
    pub kind: TypeName,
    /// For `timestamp`: format of the timestamp.
    pub format: Option<String>,
}

/// A field type.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum TypeConfig {
    /// Name of the type.
    Name(TypeName),
    /// A type with a format.
    Formatted(FormattedType),
}

/// A type with a format.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FormattedType {
    /// Name of the type.
    #[serde(rename = "type")]
    pub kind: TypeName,
    /// For `timestamp`: format of the timestamp.
    pub format: Option<String>,
}

/// How nginx escapes values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EscapeName {
    /// As `\xHH`.
    Default,
    /// As in JSON strings.
    Json,
    /// No escaping.
    None,
}

/// Name of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TypeName {
    /// Text, unchanged.
    Text,
    /// An integer.
    Int,
    /// A number.
    Float,
    /// `true` or `false`.
    Bool,
    /// A timestamp, converted to RFC 3339.
    Timestamp,
    /// An IPv4 or IPv6 address.
    Ip,
}

fn message() -> String {
    "message".to_owned()
}

/// Position and format of the timestamp in a line.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimeConfig {
    /// Field with the timestamp. The default is the line. The field is removed after its timestamp
    /// is parsed, unless `keep` is set.
    pub field: Option<String>,
    /// Format of the timestamp: `strptime` specifiers, or `iso8601`, `rfc3339`, `epoch_s`,
    /// `epoch_ms`, `epoch_us`, `epoch_ns`; or a list of formats. The first format that matches is
    /// used.
    pub format: TimeFormats,
    /// Text directly before the timestamp. Without it, the timestamp is at the beginning of the
    /// field or line.
    pub after: Option<String>,
    /// Occurrence of `after` that precedes the timestamp, counted from 1. The default is the first.
    pub nth: Option<u32>,
    /// Time zone for timestamps without a zone: `UTC` (the default), `+02:00`, `Europe/Berlin`, or
    /// `local` for the host's zone.
    pub timezone: Option<String>,
    /// Whether the field is kept after its timestamp is parsed.
    #[serde(default)]
    pub keep: bool,
}

impl TimeConfig {
    /// Returns the options for the timestamp reader.
    pub fn spec(&self) -> TimeSpec {
        let TimeConfig { format, after, nth, timezone, .. } = self.clone();
        TimeSpec { formats: format.into(), after, nth, timezone }
    }
}

/// Format of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// No parsing.
    #[default]
    None,
    /// A JSON object.
    Json,
    /// Named groups of a regular expression.
    Regex,
    /// A grok pattern as in Logstash.
    Grok,
    /// Values in a fixed order, with a delimiter.
    Delimited,
    /// Like `delimited`, with CSV defaults.
    Csv,
    /// Like `delimited`, with tabs.
    Tsv,
    /// Keys with values.
    KeyValue,
    /// Like `key_value`, with `logfmt` defaults.
    Logfmt,
    /// Like `key_value`, with colons and tabs.
    Ltsv,
    /// An nginx access log.
    Nginx,
    /// An Apache HTTP Server access log.
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
