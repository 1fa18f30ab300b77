//! From the options of a format to its parser.

use super::config::{FieldConfig, FormConfig, FormattedType, TypeConfig, TypeName};
use millstream_parsers::{Parser, Type};
use millstream_timestamps::Format as TimeFormat;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How a line is taken apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Not at all.
    #[default]
    None,
    /// A JSON object.
    Json,
    /// Named groups of a regular expression.
    Regex,
    /// A Logstash pattern.
    Grok,
    /// Values in a fixed order, with a delimiter between them.
    Delimited,
    /// The same as CSV has it.
    Csv,
    /// The same with tabulators.
    Tsv,
    /// Keys with values.
    KeyValue,
    /// The same as `logfmt` has it.
    Logfmt,
    /// The same with colons and tabulators.
    Ltsv,
    /// An access log of nginx.
    Nginx,
    /// An access log of the Apache HTTP server.
    Apache,
    /// Syslog: RFC 3164 and RFC 5424.
    Syslog,
    /// What container runtimes write.
    Cri,
    /// What Docker's `json-file` writes.
    Docker,
}

/// The options of one format.
pub struct Form<'a>(pub &'a FormConfig);

/// What is wrong: a JSON pointer, and what to write instead.
type Fault = (String, String);

fn fault(key: &str, message: impl Into<String>) -> Fault {
    (key.to_owned(), message.into())
}

impl Form<'_> {
    /// The parser; `None` where nothing is to be taken apart.
    pub fn parser(&self) -> Result<Option<Box<dyn Parser>>, Fault> {
        self.check_keys()?;
        let _types = self.types()?;
        Ok(None)
    }

    /// Options that the format does not have are a mistake.
    fn check_keys(&self) -> Result<(), Fault> {
        use Format::{Apache, Csv, Delimited, Grok, Json, KeyValue, Nginx, Regex, Tsv};
        let form = self.0;
        let keys: [(&str, bool, &[Format]); 9] = [
            ("log_format", form.log_format.is_some(), &[Nginx, Apache]),
            ("pattern", form.pattern.is_some(), &[Regex, Grok]),
            ("patterns", !form.patterns.is_empty(), &[Grok]),
            ("fields", form.fields.is_some(), &[Delimited, Csv, Tsv, Json]),
            ("delimiter", form.delimiter.is_some(), &[Delimited, KeyValue]),
            ("key_value_delimiter", form.key_value_delimiter.is_some(), &[KeyValue]),
            ("quotes", form.quotes.is_some(), &[Delimited, KeyValue]),
            ("trim", form.trim.is_some(), &[Delimited, Csv, Tsv]),
            ("flatten", form.flatten.is_some(), &[Json]),
        ];
        for (key, is_there, formats) in keys {
            if is_there && !formats.contains(&form.format) {
                let of: Vec<String> = formats.iter().map(|format| format.to_string()).collect();
                let message = format!("belongs to format {}; remove it, or change the format", of.join(", "));
                return Err((format!("/{key}"), message));
            }
        }
        match form.format {
            Format::None if !form.types.is_empty() => {
                Err(fault("/types", "there are no fields without a format; write for example format: json"))
            }
            _ => Ok(()),
        }
    }

    /// The types of fields by name.
    fn types(&self) -> Result<Vec<(Arc<str>, Type)>, Fault> {
        let of = |(name, kind): (&String, &TypeConfig)| {
            Ok((name.as_str().into(), of_config(kind, &format!("/types/{name}"))?))
        };
        self.0.types.iter().map(of).collect()
    }

    /// The fields in order, with their types.
    fn fields(&self) -> Result<Vec<(Arc<str>, Option<Type>)>, Fault> {
        let of = |(index, field): (usize, &FieldConfig)| match field {
            FieldConfig::Name(name) => Ok((name.as_str().into(), None)),
            FieldConfig::Typed(field) => {
                let pointer = format!("/fields/{index}");
                let kind = of_name(field.kind, field.format.as_deref(), &pointer)?;
                Ok((field.name.as_str().into(), Some(kind)))
            }
        };
        self.0.fields.iter().flatten().enumerate().map(of).collect()
    }
}

/// The type that a configuration means, which stands at `pointer`.
pub fn of_config(kind: &TypeConfig, pointer: &str) -> Result<Type, Fault> {
    let (kind, format) = match kind {
        TypeConfig::Name(kind) => (*kind, None),
        TypeConfig::Formatted(FormattedType { kind, format }) => (*kind, format.as_deref()),
    };
    of_name(kind, format, pointer)
}

fn of_name(kind: TypeName, format: Option<&str>, pointer: &str) -> Result<Type, Fault> {
    if format.is_some() && kind != TypeName::Timestamp {
        return Err((format!("{pointer}/format"), "only a timestamp has a format; remove it".into()));
    }
    Ok(match kind {
        TypeName::Text => Type::Text,
        TypeName::Int => Type::Int,
        TypeName::Float => Type::Float,
        TypeName::Bool => Type::Bool,
        TypeName::Ip => Type::Ip,
        TypeName::Timestamp => {
            let format = TimeFormat::new(format.unwrap_or("iso8601"), None);
            Type::Timestamp(Arc::new(format.map_err(|message| (format!("{pointer}/format"), message))?))
        }
    })
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.serialize(f)
    }
}
