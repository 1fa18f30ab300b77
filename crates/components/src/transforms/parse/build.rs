//! Builds the parser of a format from its options.

use super::config::{
    EscapeName, FieldConfig, Format, FormatConfig, FormattedType, Header, ParseConfig, Quotes,
    TimeConfig, TypeConfig, TypeName,
};
use super::{Keep, Parse, ParsedBy, Source, TimeField, UNPARSED};
use crate::component::{BuildCx, Component, TransformComponent};
use millstream_framing::{TimeReader, TimeSpec};
use millstream_model::{BuildError, OptionError, Transform};
use millstream_parsers::{
    Access, AccessConfig, Cef, ColumnNames, Columned, Cri, Delimited, DelimitedConfig, Docker,
    Escape, EventConfig, Grok, GrokConfig, Json, JsonConfig, KeyValue, KeyValueConfig, Leef,
    LeefConfig, Parser, Regex, RegexConfig, Server, Syslog, SyslogConfig,
    TimeField as TimeOfFormat, Type, Unequal,
};
use millstream_tail::HeaderLines;
use millstream_timestamps::Format as TimeFormat;
use millstream_zones::zone;
use std::sync::Arc;

/// Builds a parser from the options of one format.
pub struct Builder<'a>(pub &'a FormatConfig);

/// A field's name, and its type if it has one.
type NamedField = (Arc<str>, Option<Type>);

fn error(key: &str, message: impl Into<String>) -> OptionError {
    OptionError::new(key, message)
}

impl Builder<'_> {
    /// Builds the parser; `None` for format `none`.
    pub fn parser(&self) -> Result<Option<Box<dyn Parser>>, OptionError> {
        self.check_keys()?;
        let parser: Box<dyn Parser> = match self.0.format {
            Format::None => return Ok(None),
            Format::Json => Box::new(self.json()?),
            Format::Nginx => Box::new(self.access(Server::Nginx)?),
            Format::Apache => Box::new(self.access(Server::Apache)?),
            Format::Regex => Box::new(self.regex()?),
            Format::Grok => Box::new(self.grok()?),
            Format::Delimited | Format::Csv | Format::Tsv => self.delimited()?,
            Format::KeyValue | Format::Logfmt | Format::Ltsv => Box::new(self.key_value()?),
            Format::Syslog => Box::new(self.syslog()?),
            Format::Cef => Box::new(Cef::new(self.event_config(true)?)),
            Format::Leef => Box::new(self.leef()?),
            Format::Cri => Box::new(Cri::new().map_err(|message| error("/format", message))?),
            Format::Docker => Box::new(Docker::new().map_err(|message| error("/format", message))?),
        };
        Ok(Some(parser))
    }

    fn json(&self) -> Result<Json, OptionError> {
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

    fn pattern(&self, example: &str) -> Result<String, OptionError> {
        let pattern = self.0.pattern.clone();
        pattern.ok_or_else(|| {
            error("", format!("has no pattern; use, for example, pattern: '{example}'"))
        })
    }

    fn regex(&self) -> Result<Regex, OptionError> {
        let pattern = self.pattern(r"^(?<level>\w+) (?<text>.*)$")?;
        let config = RegexConfig { pattern, types: self.named_types()? };
        Regex::new(&config).map_err(|message| error("/pattern", message))
    }

    fn grok(&self) -> Result<Grok, OptionError> {
        let pattern = self.pattern("%{LOGLEVEL:level} %{GREEDYDATA:text}")?;
        let patterns = self.0.patterns.clone().into_iter().collect();
        let config = GrokConfig { pattern, patterns, types: self.named_types()? };
        Grok::new(&config).map_err(|message| error("/pattern", message))
    }

    fn delimited(&self) -> Result<Box<dyn Parser>, OptionError> {
        let config = self.delimited_config()?;
        let names = match self.0.header {
            Some(Header::None) => None,
            Some(Header::FieldsLine) => Some(ColumnNames::FieldsLine),
            Some(Header::FirstLine) => Some(ColumnNames::FirstLine),
            None => Some(ColumnNames::IfPresent),
        };
        let pointer = if config.fields.is_empty() { "" } else { "/delimiter" };
        let invalid = |message| error(pointer, message);
        Ok(match names {
            None => Box::new(Delimited::new(config).map_err(invalid)?),
            Some(names) => {
                let types = self.types()?;
                Box::new(Columned::new(config, names, types).map_err(invalid)?)
            }
        })
    }

    /// Returns the delimiter of the formats with columns.
    fn delimiter(&self) -> String {
        match self.0.format {
            Format::Tsv => "\t".to_owned(),
            _ => self.0.delimiter.clone().unwrap_or_else(|| ",".to_owned()),
        }
    }

    /// Returns the fields of the formats with columns, with their types. The list is empty if all
    /// columns of a header become fields.
    fn columns(&self) -> Result<Vec<NamedField>, OptionError> {
        let mut fields = self.fields()?;
        let has_header = self.0.header.is_some_and(|header| header != Header::None);
        if fields.is_empty() && has_header && self.0.fields.is_none() {
            return Ok(fields);
        }
        if fields.is_empty() {
            return Err(error(
                "",
                "has no fields; use, for example, fields: [host, { name: cost, type: float }], or \
                 header: first_line",
            ));
        }
        for (name, kind) in self.types()? {
            match fields.iter_mut().find(|(field, _)| *field == name) {
                Some((_, slot)) => *slot = Some(kind),
                None => {
                    return Err(error(
                        &format!("/types/{name}"),
                        "is not in `fields`; add it there",
                    ));
                }
            }
        }
        Ok(fields)
    }

    /// Returns the header lines that this format requires from its source.
    pub fn header_lines(&self) -> Option<HeaderLines> {
        if !matches!(self.0.format, Format::Delimited | Format::Csv | Format::Tsv) {
            return None;
        }
        let delimiter = self.delimiter();
        match self.0.header {
            Some(Header::None) => None,
            Some(Header::FieldsLine) => Some(HeaderLines::FieldsLine { delimiter }),
            Some(Header::FirstLine) => Some(HeaderLines::FirstLine { delimiter }),
            None => Some(HeaderLines::IfPresent { delimiter }),
        }
    }

    fn delimited_config(&self) -> Result<DelimitedConfig, OptionError> {
        let config = self.0;
        let (delimiter, fields) = (self.delimiter(), self.columns()?);
        let unequal = if config.strict == Some(true) { Unequal::Fail } else { Unequal::Ignore };
        Ok(DelimitedConfig {
            delimiter,
            quote: self.single_quote(if config.format == Format::Tsv { b"" } else { b"\"" })?,
            escapes: config.escapes.unwrap_or(false),
            null_values: self.null_values(),
            fields,
            on_extra: unequal,
            on_missing: unequal,
            trim: config.trim.unwrap_or(false),
        })
    }

    fn key_value(&self) -> Result<KeyValue, OptionError> {
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
            quotes: self.quotes(&base.quotes)?,
            escapes: config.escapes.unwrap_or(base.escapes),
            trim: config.trim.unwrap_or(base.trim),
            null_values: self.null_values(),
            bare: base.bare,
            types: self.types()?,
        };
        KeyValue::new(config).map_err(|message| error("/delimiter", message))
    }

    /// Returns the characters that quote values, or `default` if they are not configured.
    fn quotes(&self, default: &[u8]) -> Result<Vec<u8>, OptionError> {
        match &self.0.quotes {
            None | Some(Quotes::Enabled(true)) => Ok(default.to_vec()),
            Some(Quotes::Enabled(false)) => Ok(Vec::new()),
            Some(Quotes::Characters(text)) if !text.is_empty() && text.is_ascii() => {
                Ok(text.clone().into_bytes())
            }
            Some(Quotes::Characters(_)) => {
                Err(error("/quotes", "needs ASCII characters, such as \"'\"; or use false"))
            }
        }
    }

    /// Returns the character that quotes values.
    fn single_quote(&self, default: &[u8]) -> Result<Option<u8>, OptionError> {
        match &self.quotes(default)?[..] {
            [] => Ok(None),
            [quote] => Ok(Some(*quote)),
            _ => Err(error("/quotes", "has several characters; use one, such as \"'\"")),
        }
    }

    fn null_values(&self) -> Vec<Vec<u8>> {
        self.0.null_values.iter().map(|text| text.clone().into_bytes()).collect()
    }

    fn leef(&self) -> Result<Leef, OptionError> {
        let values = self.event_config(false)?;
        let config = LeefConfig { delimiter: self.0.delimiter.clone(), values };
        Leef::new(config).map_err(|message| error("/delimiter", message))
    }

    /// Returns how CEF and LEEF values are treated. `escapes` is the default of the option.
    fn event_config(&self, escapes: bool) -> Result<EventConfig, OptionError> {
        let escapes = self.0.escapes.unwrap_or(escapes);
        Ok(EventConfig { escapes, null_values: self.null_values(), types: self.types()? })
    }

    fn syslog(&self) -> Result<Syslog, OptionError> {
        let zone = self.0.timezone.as_deref().map(zone).transpose();
        let zone = zone.map_err(|message| error("/timezone", message))?;
        Syslog::new(&SyslogConfig { zone }).map_err(|message| error("/format", message))
    }

    fn named_types(&self) -> Result<Vec<(String, Type)>, OptionError> {
        Ok(self.types()?.into_iter().map(|(name, kind)| (name.to_string(), kind)).collect())
    }

    fn access(&self, server: Server) -> Result<Access, OptionError> {
        let format = self.0.log_format.clone().unwrap_or_default();
        let escape = self.0.escape.map(|escape| match escape {
            EscapeName::Default => Escape::Default,
            EscapeName::Json => Escape::Json,
            EscapeName::None => Escape::None,
        });
        let config = AccessConfig { server, format, escape };
        Access::new(&config).map_err(|message| error("/log_format", message))
    }

    /// Rejects types that would have no effect.
    fn check_types(&self) -> Result<(), OptionError> {
        let message = match self.0.format {
            _ if self.0.types.is_empty() => return Ok(()),
            Format::None => "needs a format; use, for example, format: json",
            Format::Nginx | Format::Apache | Format::Syslog | Format::Cri | Format::Docker => {
                "is fixed by this format; remove it, and cast with the `fields` transform"
            }
            _ => return Ok(()),
        };
        Err(error("/types", message))
    }

    /// Rejects options that do not apply to the format.
    fn check_keys(&self) -> Result<(), OptionError> {
        use Format::{
            Apache, Cef, Csv, Delimited, Grok, Json, KeyValue, Leef, Logfmt, Ltsv, Nginx, Regex,
            Tsv,
        };
        let config = self.0;
        let nullable = &[Delimited, Csv, Tsv, KeyValue, Logfmt, Ltsv, Cef, Leef];
        let escaped = &[Delimited, Csv, Tsv, KeyValue, Logfmt, Cef, Leef];
        let keys: [(&str, bool, &[Format]); 15] = [
            ("escape", config.escape.is_some(), &[Nginx]),
            ("strict", config.strict.is_some(), &[Delimited, Csv, Tsv]),
            ("header", config.header.is_some(), &[Delimited, Csv, Tsv]),
            ("timezone", config.timezone.is_some(), &[Format::Syslog]),
            ("log_format", config.log_format.is_some(), &[Nginx, Apache]),
            ("pattern", config.pattern.is_some(), &[Regex, Grok]),
            ("patterns", !config.patterns.is_empty(), &[Grok]),
            ("fields", config.fields.is_some(), &[Delimited, Csv, Tsv, Json]),
            ("delimiter", config.delimiter.is_some(), &[Delimited, KeyValue, Leef]),
            ("key_value_delimiter", config.key_value_delimiter.is_some(), &[KeyValue]),
            ("quotes", config.quotes.is_some(), &[Delimited, KeyValue]),
            ("escapes", config.escapes.is_some(), escaped),
            ("trim", config.trim.is_some(), &[Delimited, Csv, Tsv, KeyValue]),
            ("null_values", !config.null_values.is_empty(), nullable),
            ("flatten", config.flatten.is_some(), &[Json]),
        ];
        for (key, is_there, formats) in keys {
            if is_there && !formats.contains(&config.format) {
                let names: Vec<String> = formats.iter().map(|format| format.to_string()).collect();
                let noun = if formats.len() == 1 { "format" } else { "formats" };
                let message = format!(
                    "is valid only for {noun} {}; remove it, or change the format",
                    names.join(", ")
                );
                return Err(OptionError::new(format!("/{key}"), message));
            }
        }
        self.check_types()
    }

    /// Returns the types of fields, by name.
    fn types(&self) -> Result<Vec<(Arc<str>, Type)>, OptionError> {
        let typed = |(name, kind): (&String, &TypeConfig)| {
            Ok((name.as_str().into(), of_config(kind, &format!("/types/{name}"))?))
        };
        self.0.types.iter().map(typed).collect()
    }

    /// Returns the fields, in order, with their types.
    fn fields(&self) -> Result<Vec<NamedField>, OptionError> {
        let named = |(index, field): (usize, &FieldConfig)| match field {
            FieldConfig::Name(name) => Ok((name.as_str().into(), None)),
            FieldConfig::Typed(field) => {
                let pointer = format!("/fields/{index}");
                let kind = of_name(field.kind, field.format.as_deref(), &pointer)?;
                Ok((field.name.as_str().into(), Some(kind)))
            }
        };
        self.0.fields.iter().flatten().enumerate().map(named).collect()
    }
}

/// Converts a configured type. `pointer` is its JSON pointer, for errors.
pub fn of_config(kind: &TypeConfig, pointer: &str) -> Result<Type, OptionError> {
    let (kind, format) = match kind {
        TypeConfig::Name(kind) => (*kind, None),
        TypeConfig::Formatted(FormattedType { kind, format }) => (*kind, format.as_deref()),
    };
    of_name(kind, format, pointer)
}

fn of_name(kind: TypeName, format: Option<&str>, pointer: &str) -> Result<Type, OptionError> {
    if format.is_some() && kind != TypeName::Timestamp {
        return Err(OptionError::new(
            format!("{pointer}/format"),
            "only a timestamp has a format; remove it",
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
                format.map_err(|message| OptionError::new(format!("{pointer}/format"), message))?,
            ))
        }
    })
}

impl ParseConfig {
    /// Returns the formats in the order in which they are tried, each with its JSON pointer.
    fn format_configs(&self) -> Vec<(String, FormatConfig)> {
        match &self.formats {
            None => vec![(String::new(), self.format_config())],
            Some(list) => {
                let pointer = |(index, config): (usize, &FormatConfig)| {
                    (format!("/formats/{index}"), config.clone())
                };
                // Options next to `formats` apply to none of the formats.
                let beside =
                    (String::new(), FormatConfig { format: Format::None, ..self.format_config() });
                std::iter::once(beside).chain(list.iter().enumerate().map(pointer)).collect()
            }
        }
    }

    fn parsers(&self) -> (Vec<Box<dyn Parser>>, Vec<OptionError>) {
        let (mut parsers, mut errors) = (Vec::new(), Vec::new());
        for (pointer, config) in self.format_configs() {
            match Builder(&config).parser() {
                Ok(parser) => parsers.extend(parser),
                Err(error) => errors.push(error.below(&pointer)),
            }
        }
        (parsers, errors)
    }

    /// Returns the names of the formats, in the order in which they are tried.
    fn names(&self) -> Vec<String> {
        let configs = self.format_configs().into_iter().map(|(_, config)| config.format);
        configs.filter(|format| *format != Format::None).map(|format| format.to_string()).collect()
    }

    /// Returns the timestamp field of each format: from its entry in `formats`, from the format
    /// itself, or from the `time` option.
    fn times(&self, parsers: &[Box<dyn Parser>]) -> Result<Vec<TimeField>, OptionError> {
        let beside = self.time.as_ref();
        if self.formats.is_none() && (beside.is_some() || parsers.is_empty()) {
            let time = beside.map(|time| time_field(time, "/time", None));
            return time.into_iter().collect();
        }
        let configs = self.format_configs();
        let configs = configs.iter().filter(|(_, config)| config.format != Format::None);
        let is_of = |format| self.formats.is_some().then(|| vec![format]);
        let mut times = Vec::new();
        let mut of_beside = Vec::new();
        for (index, (parser, (pointer, config))) in parsers.iter().zip(configs).enumerate() {
            match (&config.time, parser.time_field()) {
                (Some(time), _) => {
                    times.push(time_field(time, &format!("{pointer}/time"), is_of(index))?);
                }
                (None, Some(own)) => times.push(own_time_field(&own, is_of(index))?),
                (None, None) => of_beside.push(index),
            }
        }
        of_beside.push(UNPARSED);
        times.extend(beside.map(|time| time_field(time, "/time", Some(of_beside))).transpose()?);
        Ok(times)
    }

    fn time_errors(&self) -> Vec<OptionError> {
        let beside = self.time.iter().map(|time| ("/time".to_owned(), time.clone()));
        let of_format = |(pointer, config): (String, FormatConfig)| {
            Some((format!("{pointer}/time"), config.time?))
        };
        let of_formats = self.format_configs().into_iter().filter_map(of_format);
        beside
            .chain(of_formats)
            .flat_map(|(pointer, time)| errors_of_time(&time, &pointer))
            .collect()
    }

    /// Returns the error for a header that is configured together with a field other than the line,
    /// because only lines have a header.
    fn header_of_field(&self) -> Option<OptionError> {
        let is_line = matches!(Source::of(&self.field), Source::Message | Source::Line);
        let configs = self.format_configs();
        let has_header =
            |config: &FormatConfig| config.header.is_some_and(|header| header != Header::None);
        let (pointer, _) = configs.iter().find(|(_, config)| !is_line && has_header(config))?;
        let message =
            "reads column names from lines, not from a field; remove `field`, or list `fields`";
        Some(OptionError::new(format!("{pointer}/header"), message))
    }

    /// Returns the errors of options that require `format` if it is missing.
    fn without_format(&self) -> Vec<OptionError> {
        let keys = [("/keep", self.keep.is_some()), ("/field", self.field != "message")];
        let message = "needs a format; remove it, or use, for example, format: json";
        keys.into_iter()
            .filter(|(_, given)| *given)
            .map(|(key, _)| OptionError::new(key, message))
            .collect()
    }
}

fn errors_of_time(time: &TimeConfig, pointer: &str) -> Vec<OptionError> {
    let error = |(key, message)| OptionError::new(format!("{pointer}{key}"), message);
    let mut errors: Vec<OptionError> = time.spec().errors().into_iter().map(error).collect();
    if time.keep && time.field.is_none() {
        let message = "applies to a field; set time.field as well";
        errors.push(OptionError::new(format!("{pointer}/keep"), message));
    }
    errors
}

/// Returns a configured timestamp field, for lines that these formats have parsed.
fn time_field(
    time: &TimeConfig,
    pointer: &str,
    formats: Option<Vec<usize>>,
) -> Result<TimeField, OptionError> {
    let reader = reader(time.spec(), pointer)?;
    let reader = if time.field.is_some() { reader.for_field() } else { reader };
    let field = time.field.as_deref().map(Arc::from);
    let formats = formats.map(Arc::from);
    Ok(TimeField { field, reader, keep: time.keep, is_required: true, formats })
}

/// Returns the timestamp field that a format defines, for lines that these formats have parsed.
fn own_time_field(
    own: &TimeOfFormat,
    formats: Option<Vec<usize>>,
) -> Result<TimeField, OptionError> {
    let spec = TimeSpec { formats: vec![own.format.to_string()], ..TimeSpec::default() };
    let (field, formats) = (Some(own.name.clone()), formats.map(Arc::from));
    let reader = reader(spec, "/time")?;
    Ok(TimeField { field, reader, keep: false, is_required: false, formats })
}

fn reader(spec: TimeSpec, pointer: &str) -> Result<TimeReader, OptionError> {
    spec.reader().map_err(|(key, message)| OptionError::new(format!("{pointer}{key}"), message))
}

impl Component for ParseConfig {
    fn makes_metrics(&self) -> bool {
        true
    }

    fn check(&self) -> Vec<OptionError> {
        let (parsers, mut errors) = self.parsers();
        errors.extend(self.time_errors());
        if self.formats.is_some() && self.format != Format::None {
            errors.push(OptionError::new("/formats", "conflicts with format; keep one of them"));
        }
        if self.field.is_empty() {
            errors.push(OptionError::new("/field", "is empty; use a field name"));
        }
        errors.extend(self.header_of_field());
        if self.formats.as_ref().is_some_and(Vec::is_empty) {
            errors.push(OptionError::new(
                "/formats",
                "is empty; use, for example, [{ format: json }]",
            ));
        }
        if errors.is_empty() && parsers.is_empty() {
            errors.extend(self.without_format());
        }
        if errors.is_empty() && parsers.is_empty() && self.time.is_none() {
            let message =
                "has no effect; use, for example, format: json, or time: { format: iso8601 }";
            errors.push(OptionError::new("", message));
        }
        errors
    }

    fn outputs(&self) -> Vec<String> {
        self.on_error.outputs()
    }

    fn header_lines(&self) -> Vec<HeaderLines> {
        if !matches!(Source::of(&self.field), Source::Message | Source::Line) {
            return Vec::new();
        }
        let configs = self.format_configs();
        configs.iter().filter_map(|(_, config)| Builder(config).header_lines()).collect()
    }
}

impl TransformComponent for ParseConfig {
    fn build(&self, _: &BuildCx<'_>) -> Result<Transform, BuildError> {
        let (parsers, errors) = self.parsers();
        if let Some(error) = errors.into_iter().next() {
            return Err(error.into());
        }
        let times = self.times(&parsers)?;
        let keep =
            self.keep.unwrap_or(if parsers.is_empty() { Keep::Always } else { Keep::OnError });
        let source = Source::of(&self.field);
        let formats: Arc<[String]> = self.names().into();
        let (parsers, on_error) = (Arc::new(parking_lot::Mutex::new(parsers)), self.on_error);
        Ok(Transform::Map(Arc::new(move || {
            let parsers = parsers.lock();
            let parsers = parsers.iter().map(|parser| parser.clone_boxed()).collect();
            let (formats, source, times) = (formats.clone(), source.clone(), times.clone());
            let parsed_by = ParsedBy::default();
            Box::new(Parse { parsers, formats, source, keep, times, parsed_by, on_error })
        })))
    }
}
