//! Configuration of the `journald` source.

use super::JournaldSource;
use super::filter::{Filter, FilterOptions};
use super::level::priority;
use crate::component::{Component, SourceComponent};
use millstream_model::{BuildError, Interval, OptionError, Size, Source, SourceOpen};
use millstream_timestamps::Format;
use schemars::JsonSchema;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Folders of the journal on a host: the persistent journal, and the journal in memory.
const PATHS: [&str; 2] = ["/var/log/journal", "/run/log/journal"];

/// Minimum configurable `max_field`, in bytes. Every field with which the source works is shorter.
const MAX_FIELD_BYTES_MIN: u64 = 256;

/// Maximum configurable `max_field`, in bytes. The maximum bounds the memory for one entry.
const MAX_FIELD_BYTES_MAX: u64 = 16 << 20;

/// Maximum bytes that the readers of files hold.
const READER_BYTES: u64 = 20 << 20;

/// Options for the `journald` source.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JournaldConfig {
    /// Folders of the journal, or single journal files, as absolute paths. The source reads the
    /// journal files in each folder, and in its subfolders that are named after a machine id. The
    /// default is `/var/log/journal` and `/run/log/journal`.
    #[serde(default = "default_path")]
    pub path: Paths,
    /// Namespaces to read: names of `LogNamespace=`, `default` for the journal without a namespace,
    /// or `"*"` for every namespace. The default is `default`.
    #[serde(default = "default_namespaces")]
    #[schemars(length(min = 1))]
    pub namespaces: Vec<String>,
    /// First entry to read at the very first start: `beginning`, `now`, a duration such as `24h`,
    /// or a time such as `2026-11-22T10:00:00Z`. Later, each sink continues at its checkpoint. The
    /// default is `beginning`.
    #[serde(default = "default_since")]
    pub since: String,
    /// Whether to read only entries of the current boot.
    #[serde(default)]
    pub current_boot_only: bool,
    /// Units whose entries to read, such as `sshd.service`; a name without a suffix means a
    /// service. Messages of systemd about the unit belong to the unit. The default is all entries.
    #[serde(default)]
    pub units: Vec<String>,
    /// Units whose entries to skip.
    #[serde(default)]
    pub exclude_units: Vec<String>,
    /// Syslog identifiers (`SYSLOG_IDENTIFIER`) whose entries to read. The default is all.
    #[serde(default)]
    pub identifiers: Vec<String>,
    /// Syslog identifiers whose entries to skip.
    #[serde(default)]
    pub exclude_identifiers: Vec<String>,
    /// Priorities to read: one priority means this priority and more severe ones, a list means
    /// exactly these. Use names such as `warning`, or numbers from 0 (`emerg`) to 7 (`debug`).
    pub priorities: Option<Priorities>,
    /// Fields that entries to read must have: one of the values of each field.
    #[serde(default)]
    pub matches: BTreeMap<String, Values>,
    /// Fields of entries to skip: entries that have one of the values of any field.
    #[serde(default)]
    pub exclude_matches: BTreeMap<String, Values>,
    /// Whether to read messages of the kernel (`_TRANSPORT=kernel`). The default is `true`.
    #[serde(default = "default_kernel")]
    pub kernel: bool,
    /// Maximum size of a field in bytes, 256B to 16MiB. A longer value is truncated. The default is
    /// `256KiB`. Raise the maximum if messages are truncated; each entry may then need more memory.
    #[serde(default = "default_max_field")]
    pub max_field: Size,
}

/// One path, or a list.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Paths {
    /// A path.
    One(PathBuf),
    /// Several paths.
    Many(#[schemars(length(min = 1))] Vec<PathBuf>),
}

/// One priority, or a list.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Priorities {
    /// This priority and more severe ones.
    From(Priority),
    /// Exactly these priorities.
    Only(Vec<Priority>),
}

/// A priority of syslog.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Priority {
    /// A number from 0 (`emerg`) to 7 (`debug`).
    Number(u64),
    /// A name, such as `warning`.
    Name(String),
}

/// One value, or a list.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Values {
    /// A value.
    One(Scalar),
    /// Several values.
    Many(Vec<Scalar>),
}

/// A value of a field. Numbers may be written without quotes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Scalar {
    /// Text.
    Text(String),
    /// A number.
    Number(i64),
}

fn default_path() -> Paths {
    Paths::Many(PATHS.map(PathBuf::from).to_vec())
}

fn default_namespaces() -> Vec<String> {
    vec!["default".to_owned()]
}

fn default_since() -> String {
    "beginning".to_owned()
}

fn default_kernel() -> bool {
    true
}

fn default_max_field() -> Size {
    Size(256 * 1024)
}

/// First entry to read at the very first start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// The oldest entry.
    Beginning,
    /// This many nanoseconds before the start.
    Ago(i64),
    /// A time in nanoseconds since 1970.
    At(i64),
}

impl Since {
    fn parse(text: &str) -> Result<Since, String> {
        match text {
            "beginning" => return Ok(Since::Beginning),
            "now" => return Ok(Since::Ago(0)),
            _ => {}
        }
        let format = Format::new("rfc3339", None)?;
        if let Ok(parsed) = format.parse(text.as_bytes(), 0)
            && parsed.len == text.len()
        {
            return Ok(Since::At(parsed.ns));
        }
        let interval: Result<Interval, _> = Cow::Borrowed(text).try_into();
        let ago = interval.ok().and_then(|interval| i64::try_from(interval.0.as_nanos()).ok());
        ago.map(Since::Ago).ok_or_else(|| {
            format!(
                "{text:?} is not a start; use beginning, now, a duration such as 24h, or a time \
                 such as 2026-11-22T10:00:00Z"
            )
        })
    }

    /// Returns the time in microseconds since 1970; 0 for the oldest entry.
    pub fn unix_us(self, now_ns: i64) -> u64 {
        let ns = match self {
            Since::Beginning => 0,
            Since::Ago(ago) => now_ns.saturating_sub(ago),
            Since::At(at) => at,
        };
        u64::try_from(ns / 1000).unwrap_or(0)
    }
}

/// Source settings.
pub struct Settings {
    /// Folders and files to read.
    pub paths: Vec<PathBuf>,
    /// Which namespaces to read.
    pub namespaces: Vec<String>,
    /// First entry to read at the very first start.
    pub since: Since,
    /// Whether to read only entries of the current boot.
    pub is_current_boot_only: bool,
    /// Conditions on entries.
    pub filter: Filter,
    /// Maximum size of a field in bytes.
    pub field_bytes_max: usize,
}

impl JournaldConfig {
    /// Returns the settings.
    ///
    /// # Errors
    /// Returns the first error in the options.
    pub fn settings(&self) -> Result<Settings, String> {
        let filter = self
            .filter()
            .map_err(|errors| errors.first().map_or_else(String::new, ToString::to_string))?;
        Ok(Settings {
            paths: self.paths(),
            namespaces: self.namespaces.clone(),
            since: Since::parse(&self.since)?,
            is_current_boot_only: self.current_boot_only,
            filter,
            field_bytes_max: self.max_field.0 as usize,
        })
    }

    fn paths(&self) -> Vec<PathBuf> {
        match &self.path {
            Paths::One(path) => vec![path.clone()],
            Paths::Many(paths) => paths.clone(),
        }
    }

    fn filter(&self) -> Result<Filter, Vec<OptionError>> {
        let mut errors = Vec::new();
        let priorities =
            self.priorities.as_ref().map(|priorities| numbers(priorities, &mut errors));
        let pairs = |fields: &BTreeMap<String, Values>| {
            let field = |(name, values): (&String, &Values)| (name.clone(), values.texts());
            fields.iter().map(field).collect()
        };
        let filter = Filter::new(&FilterOptions {
            units: self.units.clone(),
            exclude_units: self.exclude_units.clone(),
            identifiers: self.identifiers.clone(),
            exclude_identifiers: self.exclude_identifiers.clone(),
            priorities,
            matches: pairs(&self.matches),
            exclude_matches: pairs(&self.exclude_matches),
            has_kernel: self.kernel,
        });
        match (filter, errors.is_empty()) {
            (Ok(filter), true) => Ok(filter),
            (Err(more), _) => {
                errors.extend(more);
                Err(errors)
            }
            (Ok(_), false) => Err(errors),
        }
    }
}

impl Values {
    fn texts(&self) -> Vec<String> {
        let values = match self {
            Values::One(value) => std::slice::from_ref(value),
            Values::Many(values) => values,
        };
        let text = |value: &Scalar| match value {
            Scalar::Text(text) => text.clone(),
            Scalar::Number(number) => number.to_string(),
        };
        values.iter().map(text).collect()
    }
}

/// Returns the numbers of the priorities to read.
fn numbers(priorities: &Priorities, errors: &mut Vec<OptionError>) -> Vec<u8> {
    let mut number = |given: &Priority| {
        let text = match given {
            Priority::Number(number) => number.to_string(),
            Priority::Name(name) => name.clone(),
        };
        let found = priority(&text);
        if found.is_none() {
            let message = format!(
                "{text:?} is not a priority; use emerg, alert, crit, err, warning, notice, info, \
                 debug, or a number from 0 to 7"
            );
            errors.push(OptionError::new("/priorities", message));
        }
        found.unwrap_or(0)
    };
    match priorities {
        Priorities::From(given) => (0..=number(given)).collect(),
        Priorities::Only(list) => list.iter().map(number).collect(),
    }
}

impl Component for JournaldConfig {
    fn check(&self) -> Vec<OptionError> {
        let mut errors = self.filter().err().unwrap_or_default();
        for (index, path) in self.paths().iter().enumerate() {
            if !path.is_absolute() {
                let pointer = match &self.path {
                    Paths::One(_) => "/path".to_owned(),
                    Paths::Many(_) => format!("/path/{index}"),
                };
                errors.push(OptionError::new(pointer, "is relative; use an absolute path"));
            }
        }
        if let Err(message) = Since::parse(&self.since) {
            errors.push(OptionError::new("/since", message));
        }
        if !(MAX_FIELD_BYTES_MIN..=MAX_FIELD_BYTES_MAX).contains(&self.max_field.0) {
            errors.push(OptionError::new("/max_field", "out of range; use 256B to 16MiB"));
        }
        errors
    }

    fn reads(&self, path: &Path) -> bool {
        super::discover::is_journal(path)
            && self.paths().iter().any(|own| own == path || path.starts_with(own))
    }
}

impl SourceComponent for JournaldConfig {
    fn open(&self, open: SourceOpen) -> Result<Box<dyn Source>, BuildError> {
        let settings = self.settings().map_err(BuildError::Options)?;
        Ok(Box::new(JournaldSource::open(settings, open)?))
    }

    fn queue_bytes(&self) -> u64 {
        READER_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn errors(options: Value) -> Vec<String> {
        let config: JournaldConfig = serde_json::from_value(options).unwrap();
        config.check().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_error_names_the_option_and_says_what_to_write() {
        for (options, pointer, advice) in [
            (json!({ "path": "journal" }), "path", "absolute"),
            (json!({ "since": "yesterday" }), "since", "24h"),
            (json!({ "priorities": "loud" }), "priorities", "warning"),
            (json!({ "priorities": [1, 8] }), "priorities", "0 to 7"),
            (json!({ "matches": { "a=b": "c" } }), "matches", "="),
            (json!({ "max_field": "1B" }), "max_field", "256B"),
            (json!({ "units": [""] }), "units", "sshd.service"),
            (json!({ "units": ["ssh*"] }), "units", "wildcard"),
        ] {
            let found = errors(options.clone());
            assert_eq!(found.len(), 1, "{options}: {found:?}");
            assert!(
                found[0].contains(pointer) && found[0].contains(advice),
                "{options}: {found:?}"
            );
        }
        assert_eq!(errors(json!({})), [""; 0]);
    }

    #[test]
    fn a_start_is_a_word_a_duration_or_a_time() {
        let now = 1_800_000_000_000_000_000;
        let us = |text: &str| Since::parse(text).unwrap().unix_us(now);
        assert_eq!(us("beginning"), 0);
        assert_eq!(us("now"), 1_800_000_000_000_000);
        assert_eq!(us("1h30m"), 1_800_000_000_000_000 - 5_400_000_000);
        assert_eq!(us("2026-11-22T10:00:00Z"), 1_795_341_600_000_000);
    }
}
