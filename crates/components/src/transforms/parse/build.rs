//! Builds the parser of a format from its options.

use super::config::{EscapeName, FieldConfig, FormatConfig, FormattedType, TypeConfig, TypeName};
use millstream_parsers::{
    Access, AccessConfig, Cri, Delimited, DelimitedConfig, Docker, Escape, Grok, GrokConfig, Json,
    JsonConfig, KeyValue, KeyValueConfig, Parser, Regex, RegexConfig, Server, Syslog, SyslogConfig,
    Type, Unequal,
};
use millstream_timestamps::Format as TimeFormat;
use millstream_zones::zone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

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
    /// The CRI log format of container runtimes.
    Cri,
    /// Docker's `json-file` format.
    Docker,
}

/// Builds a parser from the options of one format.
pub struct Builder<'a>(pub &'a FormatConfig);

/// A configuration error: a JSON pointer, and a message.
type ConfigError = (String, String);

/// A field's name, and its type if it has one.
type NamedField = (Arc<str>, Option<Type>);

fn error(key: &str, message: impl Into<String>) -> ConfigError {
    (key.to_owned(), message.into())
}

impl Builder<'_> {
    /// Builds the parser; `None` for format `none`.
    pub fn parser(&self) -> Result<Option<Box<dyn Parser>>, ConfigError> {
        self.check_keys()?;
        let parser: Box<dyn Parser> = match self.0.format {
            Format::None => return Ok(None),
            Format::Json => Box::new(self.json()?),
            Format::Nginx => Box::new(self.access(Server::Nginx)?),
            Format::Apache => Box::new(self.access(Server::Apache)?),
            Format::Regex => Box::new(self.regex()?),
            Format::Grok => Box::new(self.grok()?),
            Format::Delimited | Format::Csv | Format::Tsv => Box::new(self.delimited()?),
            Format::KeyValue | Format::Logfmt | Format::Ltsv => Box::new(self.key_value()?),
            Format::Syslog => Box::new(self.syslog()?),
            Format::Cri => Box::new(Cri::new().map_err(|message| error("/format", message))?),
            Format::Docker => Box::new(Docker::new().map_err(|message| error("/format", message))?),
        };
        Ok(Some(parser))
    }

    fn json(&self) -> Result<Json, ConfigError> {
        let names = |(name, _): (Arc<str>, _)| name.to_string();
        let fields = self.fields()?.into_iter();
        let typed = fields.clone().filter_map(|(name, kind)| Some((name, kind?)));
        let types =
            typed.chain(self.types()?).map(|(name, kind)| (name.to_string(), kind)).collect();
        let config = JsonConfig {
            flatten: self.0.flatten.unwrap_or(false),
            fields: fields.map(names).collect(),
            types,
            ..JsonConfig::default()
        };
        Json::new(&config).map_err(|message| error("", message))
    }

    fn pattern(&self, example: &str) -> Result<String, ConfigError> {
        let pattern = self.0.pattern.clone();
        pattern.ok_or_else(|| {
            error("", format!("has no pattern; write for example pattern: '{example}'"))
        })
    }

    fn regex(&self) -> Result<Regex, ConfigError> {
        let pattern = self.pattern(r"^(?<level>\w+) (?<text>.*)$")?;
        let config = RegexConfig { pattern, types: self.named_types()? };
        Regex::new(&config).map_err(|message| error("/pattern", message))
    }

    fn grok(&self) -> Result<Grok, ConfigError> {
        let pattern = self.pattern("%{LOGLEVEL:level} %{GREEDYDATA:text}")?;
        let patterns = self.0.patterns.clone().into_iter().collect();
        let config = GrokConfig { pattern, patterns, types: self.named_types()? };
        Grok::new(&config).map_err(|message| error("/pattern", message))
    }

    fn delimited(&self) -> Result<Delimited, ConfigError> {
        let config = self.0;
        let delimiter = match config.format {
            Format::Tsv => "\t".to_owned(),
            _ => config.delimiter.clone().unwrap_or_else(|| ",".to_owned()),
        };
        let (types, mut fields) = (self.types()?, self.fields()?);
        if fields.is_empty() {
            return Err(error(
                "",
                "has no fields; write for example fields: [host, { name: cost, type: float }]",
            ));
        }
        for (name, kind) in types {
            match fields.iter_mut().find(|(field, _)| *field == name) {
                Some((_, of)) => *of = Some(kind),
                None => {
                    return Err(error(
                        &format!("/types/{name}"),
                        "is not in `fields`; add it there",
                    ));
                }
            }
        }
        let quotes = config.quotes.unwrap_or(config.format != Format::Tsv);
        let unequal = |strict: Option<bool>| match strict {
            Some(true) => Unequal::Fail,
            _ => Unequal::Ignore,
        };
        let config = DelimitedConfig {
            delimiter,
            quote: quotes.then_some(b'"'),
            fields,
            on_extra: unequal(config.strict),
            on_missing: unequal(config.strict),
            trim: config.trim.unwrap_or(false),
        };
        Delimited::new(config).map_err(|message| error("/delimiter", message))
    }

    fn key_value(&self) -> Result<KeyValue, ConfigError> {
        let config = self.0;
        let base = match config.format {
            Format::Logfmt => KeyValueConfig::logfmt(),
            Format::Ltsv => KeyValueConfig::ltsv(),
            _ => KeyValueConfig::default(),
        };
        let config = KeyValueConfig {
            field_delimiter: config.delimiter.clone().unwrap_or(base.field_delimiter),
            key_value_delimiter: config
                .key_value_delimiter
                .clone()
                .unwrap_or(base.key_value_delimiter),
            quote: config.quotes.map_or(base.quote, |quotes| quotes.then_some(b'"')),
            bare: base.bare,
            types: self.types()?,
        };
        KeyValue::new(config).map_err(|message| error("/delimiter", message))
    }

    fn syslog(&self) -> Result<Syslog, ConfigError> {
        let zone = self.0.timezone.as_deref().map(zone).transpose();
        let zone = zone.map_err(|message| error("/timezone", message))?;
        Syslog::new(&SyslogConfig { zone }).map_err(|message| error("/format", message))
    }

    fn named_types(&self) -> Result<Vec<(String, Type)>, ConfigError> {
        Ok(self.types()?.into_iter().map(|(name, kind)| (name.to_string(), kind)).collect())
    }

    fn access(&self, server: Server) -> Result<Access, ConfigError> {
        let format = self.0.log_format.clone().unwrap_or_default();
        let escape = self.0.escape.map(|escape| match escape {
            EscapeName::Default => Escape::Default,
            EscapeName::Json => Escape::Json,
            EscapeName::None => Escape::None,
        });
        let config = AccessConfig { server, format, escape };
        Access::new(&config).map_err(|message| error("/log_format", message))
    }

    /// Rejects types that would be ignored.
    fn check_types(&self) -> Result<(), ConfigError> {
        let message = match self.0.format {
            _ if self.0.types.is_empty() => return Ok(()),
            Format::None => "needs a format; write for example format: json",
            Format::Nginx | Format::Apache | Format::Syslog | Format::Cri | Format::Docker => {
                "is fixed by this format; remove it, and cast with transform fields"
            }
            _ => return Ok(()),
        };
        Err(error("/types", message))
    }

    /// Rejects options that the format does not have.
    fn check_keys(&self) -> Result<(), ConfigError> {
        use Format::{Apache, Csv, Delimited, Grok, Json, KeyValue, Nginx, Regex, Tsv};
        let config = self.0;
        let keys: [(&str, bool, &[Format]); 12] = [
            ("escape", config.escape.is_some(), &[Nginx]),
            ("strict", config.strict.is_some(), &[Delimited, Csv, Tsv]),
            ("timezone", config.timezone.is_some(), &[Format::Syslog]),
            ("log_format", config.log_format.is_some(), &[Nginx, Apache]),
            ("pattern", config.pattern.is_some(), &[Regex, Grok]),
            ("patterns", !config.patterns.is_empty(), &[Grok]),
            ("fields", config.fields.is_some(), &[Delimited, Csv, Tsv, Json]),
            ("delimiter", config.delimiter.is_some(), &[Delimited, KeyValue]),
            ("key_value_delimiter", config.key_value_delimiter.is_some(), &[KeyValue]),
            ("quotes", config.quotes.is_some(), &[Delimited, KeyValue]),
            ("trim", config.trim.is_some(), &[Delimited, Csv, Tsv]),
            ("flatten", config.flatten.is_some(), &[Json]),
        ];
        for (key, is_there, formats) in keys {
            if is_there && !formats.contains(&config.format) {
                let of: Vec<String> = formats.iter().map(|format| format.to_string()).collect();
                let message =
                    format!("belongs to format {}; remove it, or change the format", of.join(", "));
                return Err((format!("/{key}"), message));
            }
        }
        self.check_types()
    }

    /// Returns the types of fields, by name.
    fn types(&self) -> Result<Vec<(Arc<str>, Type)>, ConfigError> {
        let of = |(name, kind): (&String, &TypeConfig)| {
            Ok((name.as_str().into(), of_config(kind, &format!("/types/{name}"))?))
        };
        self.0.types.iter().map(of).collect()
    }

    /// Returns the fields in order, with their types.
    fn fields(&self) -> Result<Vec<NamedField>, ConfigError> {
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

/// Converts a configured type at JSON pointer `pointer`.
pub fn of_config(kind: &TypeConfig, pointer: &str) -> Result<Type, ConfigError> {
    let (kind, format) = match kind {
        TypeConfig::Name(kind) => (*kind, None),
        TypeConfig::Formatted(FormattedType { kind, format }) => (*kind, format.as_deref()),
    };
    of_name(kind, format, pointer)
}

fn of_name(kind: TypeName, format: Option<&str>, pointer: &str) -> Result<Type, ConfigError> {
    if format.is_some() && kind != TypeName::Timestamp {
        return Err((
            format!("{pointer}/format"),
            "only a timestamp has a format; remove it".into(),
        ));
    }
    Ok(match kind {
        TypeName::Text => Type::Text,
        TypeName::Int => Type::Int,
        TypeName::Float => Type::Float,
        TypeName::Bool => Type::Bool,
        TypeName::Ip => Type::Ip,
        TypeName::Timestamp => {
            let format = TimeFormat::new(format.unwrap_or("iso8601"), None);
            Type::Timestamp(Arc::new(
                format.map_err(|message| (format!("{pointer}/format"), message))?,
            ))
        }
    })
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.serialize(f)
    }
}
