//! From the options of a format to its parser.

use super::config::{EscapeName, FieldConfig, FormConfig, FormattedType, TypeConfig, TypeName};
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

/// A field by name, with its type if it has one.
type NamedField = (Arc<str>, Option<Type>);

fn fault(key: &str, message: impl Into<String>) -> Fault {
    (key.to_owned(), message.into())
}

impl Form<'_> {
    /// The parser; `None` where nothing is to be taken apart.
    pub fn parser(&self) -> Result<Option<Box<dyn Parser>>, Fault> {
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
            Format::Cri => Box::new(Cri::new().map_err(|message| fault("/format", message))?),
            Format::Docker => Box::new(Docker::new().map_err(|message| fault("/format", message))?),
        };
        Ok(Some(parser))
    }

    fn json(&self) -> Result<Json, Fault> {
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
        Json::new(&config).map_err(|message| fault("", message))
    }

    fn pattern(&self, example: &str) -> Result<String, Fault> {
        let pattern = self.0.pattern.clone();
        pattern.ok_or_else(|| {
            fault("", format!("has no pattern; write for example pattern: '{example}'"))
        })
    }

    fn regex(&self) -> Result<Regex, Fault> {
        let pattern = self.pattern(r"^(?<level>\w+) (?<text>.*)$")?;
        let config = RegexConfig { pattern, types: self.named_types()? };
        Regex::new(&config).map_err(|message| fault("/pattern", message))
    }

    fn grok(&self) -> Result<Grok, Fault> {
        let pattern = self.pattern("%{LOGLEVEL:level} %{GREEDYDATA:text}")?;
        let patterns = self.0.patterns.clone().into_iter().collect();
        let config = GrokConfig { pattern, patterns, types: self.named_types()? };
        Grok::new(&config).map_err(|message| fault("/pattern", message))
    }

    fn delimited(&self) -> Result<Delimited, Fault> {
        let form = self.0;
        let delimiter = match form.format {
            Format::Tsv => "\t".to_owned(),
            _ => form.delimiter.clone().unwrap_or_else(|| ",".to_owned()),
        };
        let (types, mut fields) = (self.types()?, self.fields()?);
        if fields.is_empty() {
            return Err(fault(
                "",
                "has no fields; write for example fields: [host, { name: cost, type: float }]",
            ));
        }
        for (name, kind) in types {
            match fields.iter_mut().find(|(field, _)| *field == name) {
                Some((_, of)) => *of = Some(kind),
                None => {
                    return Err(fault(
                        &format!("/types/{name}"),
                        "is none of the fields; add it there",
                    ));
                }
            }
        }
        let quotes = form.quotes.unwrap_or(form.format != Format::Tsv);
        let unequal = |strict: Option<bool>| match strict {
            Some(true) => Unequal::Fail,
            _ => Unequal::Ignore,
        };
        let config = DelimitedConfig {
            delimiter,
            quote: quotes.then_some(b'"'),
            fields,
            on_extra: unequal(form.strict),
            on_missing: unequal(form.strict),
            trim: form.trim.unwrap_or(false),
        };
        Delimited::new(config).map_err(|message| fault("/delimiter", message))
    }

    fn key_value(&self) -> Result<KeyValue, Fault> {
        let form = self.0;
        let base = match form.format {
            Format::Logfmt => KeyValueConfig::logfmt(),
            Format::Ltsv => KeyValueConfig::ltsv(),
            _ => KeyValueConfig::default(),
        };
        let config = KeyValueConfig {
            field_delimiter: form.delimiter.clone().unwrap_or(base.field_delimiter),
            key_value_delimiter: form
                .key_value_delimiter
                .clone()
                .unwrap_or(base.key_value_delimiter),
            quote: form.quotes.map_or(base.quote, |quotes| quotes.then_some(b'"')),
            bare: base.bare,
            types: self.types()?,
        };
        KeyValue::new(config).map_err(|message| fault("/delimiter", message))
    }

    fn syslog(&self) -> Result<Syslog, Fault> {
        let zone = self.0.timezone.as_deref().map(zone).transpose();
        let zone = zone.map_err(|message| fault("/timezone", message))?;
        Syslog::new(&SyslogConfig { zone }).map_err(|message| fault("/format", message))
    }

    fn named_types(&self) -> Result<Vec<(String, Type)>, Fault> {
        Ok(self.types()?.into_iter().map(|(name, kind)| (name.to_string(), kind)).collect())
    }

    fn access(&self, server: Server) -> Result<Access, Fault> {
        let format = self.0.log_format.clone().unwrap_or_default();
        let escape = self.0.escape.map(|escape| match escape {
            EscapeName::Default => Escape::Default,
            EscapeName::Json => Escape::Json,
            EscapeName::None => Escape::None,
        });
        let config = AccessConfig { server, format, escape };
        Access::new(&config).map_err(|message| fault("/log_format", message))
    }

    /// Types that would not be looked at are a mistake.
    fn check_types(&self) -> Result<(), Fault> {
        let message = match self.0.format {
            _ if self.0.types.is_empty() => return Ok(()),
            Format::None => "there are no fields without a format; write for example format: json",
            Format::Nginx | Format::Apache | Format::Syslog | Format::Cri | Format::Docker => {
                "this format gives its fields their types; remove it, and cast with transform fields"
            }
            _ => return Ok(()),
        };
        Err(fault("/types", message))
    }

    /// Options that the format does not have are a mistake.
    fn check_keys(&self) -> Result<(), Fault> {
        use Format::{Apache, Csv, Delimited, Grok, Json, KeyValue, Nginx, Regex, Tsv};
        let form = self.0;
        let keys: [(&str, bool, &[Format]); 12] = [
            ("escape", form.escape.is_some(), &[Nginx]),
            ("strict", form.strict.is_some(), &[Delimited, Csv, Tsv]),
            ("timezone", form.timezone.is_some(), &[Format::Syslog]),
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
                let message =
                    format!("belongs to format {}; remove it, or change the format", of.join(", "));
                return Err((format!("/{key}"), message));
            }
        }
        self.check_types()
    }

    /// The types of fields by name.
    fn types(&self) -> Result<Vec<(Arc<str>, Type)>, Fault> {
        let of = |(name, kind): (&String, &TypeConfig)| {
            Ok((name.as_str().into(), of_config(kind, &format!("/types/{name}"))?))
        };
        self.0.types.iter().map(of).collect()
    }

    /// The fields in order, with their types.
    fn fields(&self) -> Result<Vec<NamedField>, Fault> {
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
