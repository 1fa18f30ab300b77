//! The configuration of a task.

use crate::transforms::windows::{
    Definition, Emit, TaskDefinition, check_names, escaped, is_field, is_name,
};
use crate::util::condition::Condition;
use indexmap::IndexMap;
use millstream_expressions::json_path;
use millstream_model::{Interval, OptionError};
use millstream_patterns::{PatternUse, pattern_fault};
use millstream_rules::{Extraction, Field, FieldType, Task};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Longest window.
const WINDOW_MAX: Duration = Duration::from_secs(24 * 3600);

/// Maximum number of groups in a window.
const GROUPS_MAX: usize = 20_000_000;

/// Maximum number of sample messages per group.
const SAMPLES_MAX: u16 = 100;

/// Name of the field that holds the message.
const MESSAGE: &str = "message";

/// A task: which events it takes, how it groups them, and which values it computes per group.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskConfig {
    /// Name of the task, unique in the transform. The names of the task's metrics begin with it.
    pub name: String,
    /// Fields that the task extracts from an event, by name. All other names refer to fields of the
    /// event.
    #[serde(default)]
    pub fields: IndexMap<String, FieldConfig>,
    /// Condition that an event must satisfy; without it, the task counts all events.
    #[serde(default, rename = "where")]
    pub condition: Option<Condition>,
    /// Fields whose values form a group; without any fields, all events form one group.
    #[serde(default)]
    pub group_by: Vec<String>,
    /// Functions to compute for a group, by name: `count()`, `rate()`, `sum(field)` and others.
    pub emit: IndexMap<String, Emit>,
    /// Window length: whole seconds, 1s to 24h. Windows are aligned to the clock.
    #[serde(default = "one_minute")]
    pub window: Interval,
    /// Time that selects an event's window.
    #[serde(default)]
    pub time: Time,
    /// How long a window waits for late events after its end, with `time: log`; at most 24h.
    #[serde(default)]
    pub lateness: Option<Interval>,
    /// Maximum number of groups in a window. Events in additional groups are counted together
    /// under the `overflow` tag. The limit bounds the number of metric series.
    #[serde(default = "groups_max")]
    pub groups_max: usize,
    /// Number of sample messages per group, up to 100, in the `samples` field of the results.
    #[serde(default)]
    pub samples: u16,
    /// Maximum time between the end of a window and its results, at most 24h. After this time, the
    /// results are emitted even if the window is incomplete.
    #[serde(default)]
    pub due: Option<Interval>,
    /// Priority of the task when memory or time is short. Higher numbers come first.
    #[serde(default)]
    pub priority: i32,
}

/// Time that selects an event's window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Time {
    /// The time when the event arrives at the transform.
    #[default]
    Arrival,
    /// The timestamp of the event.
    Log,
}

/// A field of a task. Exactly one of `between`, `delimited`, `regex`, `json` and `field` defines
/// it.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FieldConfig {
    /// The text between two strings.
    pub between: Option<Between>,
    /// A part of delimited text.
    pub delimited: Option<Delimited>,
    /// A group in a regular expression.
    pub regex: Option<Group>,
    /// Path of a value in JSON text, such as `request.items[0].price`. Names with characters other
    /// than letters, digits and `_` are written in brackets and quotes: `headers["user-agent"]`.
    pub json: Option<String>,
    /// A field of the event.
    pub field: Option<String>,
    /// Field of the event to search. The default is the message.
    pub from: Option<String>,
    /// Field type. Text that does not parse as this type is treated as missing.
    #[serde(rename = "type")]
    pub kind: TypeConfig,
}

/// A field type.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TypeConfig {
    /// Text; with `field`, the type of the event's field.
    #[default]
    String,
    /// An integer.
    Int,
    /// A number.
    Float,
}

/// The text after occurrence `index` of `left`, up to the next `right`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Between {
    /// Text before the value. Without it, the value begins at the start of the text.
    pub left: String,
    /// Occurrence of `left` to use, counted from 0. Occurrences do not overlap.
    pub index: u32,
    /// Text after the value. Without it, or if it does not occur, the value ends with the text.
    pub right: String,
}

/// A part of delimited text.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Delimited {
    /// Delimiter between two parts.
    pub delimiter: String,
    /// Index of the part, counted from 0.
    pub index: u32,
}

/// A group in the first match of a regular expression.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Regular expression in RE2 syntax.
    pub pattern: String,
    /// Name or number of the group; 0 is the whole match.
    #[serde(default = "first_group")]
    pub group: String,
}

fn one_minute() -> Interval {
    Interval(Duration::from_secs(60))
}

fn groups_max() -> usize {
    10_000
}

fn first_group() -> String {
    "1".to_owned()
}

impl TaskConfig {
    /// Returns the errors in options that match the schema.
    pub fn check(&self) -> Vec<OptionError> {
        let mut errors = self.check_names();
        for (name, field) in &self.fields {
            let at = format!("/fields/{}", escaped(name));
            errors.extend(field.check().map(|error| error.below(&at)));
        }
        let mut error = |key: &str, message: &str| errors.push(OptionError::new(key, message));
        let window = self.window.0;
        if window.subsec_nanos() > 0 || window < Duration::from_secs(1) || window > WINDOW_MAX {
            error("/window", "must be whole seconds, from 1s to 24h; use, for example, 60s");
        }
        if self.time == Time::Arrival && self.lateness.is_some() {
            error(
                "/lateness",
                "has no meaning with `time: arrival`; use `time: log`, or remove it",
            );
        }
        if self.lateness.is_some_and(|lateness| lateness.0 > WINDOW_MAX) {
            error("/lateness", "is too long; use at most 24h");
        }
        if self.due.is_some_and(|due| due.0 > WINDOW_MAX) {
            error("/due", "is too long; use at most 24h");
        }
        if !(1..=GROUPS_MAX).contains(&self.groups_max) {
            error("/groups_max", "must be from 1 to 20000000; use, for example, 10000");
        }
        if self.samples > SAMPLES_MAX {
            error("/samples", "is too large; use at most 100");
        }
        errors
    }

    fn check_names(&self) -> Vec<OptionError> {
        let mut errors = check_names(&self.emit, &self.group_by);
        let mut error = |key: String, message: &str| errors.push(OptionError::new(key, message));
        if !is_name(&self.name) {
            error("/name".into(), "is not a valid name; use letters, digits, `_` and `-`");
        }
        for name in self.fields.keys().filter(|name| !is_field(name) || name.contains('.')) {
            let key = format!("/fields/{}", escaped(name));
            error(key, "is not a valid name; use letters, digits and `_`");
        }
        errors
    }

    /// Returns the task and the definition of its results.
    pub fn definition(&self) -> TaskDefinition {
        let lateness = self.lateness.map_or(Duration::from_secs(10), |lateness| lateness.0);
        let is_log = self.time == Time::Log;
        let selection = (&self.fields, &self.condition);
        let definition = Definition {
            name: self.name.clone(),
            selection: serde_json::to_string(&selection).unwrap_or_default(),
            group_by: self.group_by.clone(),
            emit: self.emit.iter().map(|(name, emit)| (name.clone(), emit.clone())).collect(),
            samples: self.samples,
            window_s: self.window.0.as_secs(),
            lateness_ns: is_log.then_some(lateness.as_nanos() as i64),
            due_ns: self.due.map(|due| due.0.as_nanos() as i64),
            priority: self.priority,
            groups_max: self.groups_max,
        };
        let fields = self.fields.iter().map(|(name, field)| (name.clone(), field.field()));
        let task = Task {
            name: self.name.as_str().into(),
            fields: fields.collect(),
            condition: self.condition.as_ref().map(Condition::expression),
            keys: self.group_by.clone(),
            inputs: definition.inputs(),
            window_ns: is_log.then_some(definition.window_ns()),
        };
        TaskDefinition { task, definition }
    }
}

impl FieldConfig {
    fn check(&self) -> Option<OptionError> {
        let ways = [
            self.between.is_some(),
            self.delimited.is_some(),
            self.regex.is_some(),
            self.json.is_some(),
            self.field.is_some(),
        ];
        let error = |key: &str, message: &str| Some(OptionError::new(key, message));
        if ways.iter().filter(|way| **way).count() != 1 {
            let message =
                "needs one of `between`, `delimited`, `regex`, `json` and `field`; keep one";
            return error("", message);
        }
        if let Some(name) = self.field.as_ref().filter(|name| !is_field(name)) {
            return error("/field", &format!("`{name}` is not a field name; write only the name"));
        }
        if self.field.is_some() && self.from.is_some() {
            return error("/from", "has no meaning with `field`; remove it");
        }
        if let Some(Between { left, index, .. }) = &self.between
            && left.is_empty()
            && *index > 0
        {
            return error("/between/index", "needs a `left`; set one, or remove the index");
        }
        if self.delimited.as_ref().is_some_and(|delimited| delimited.delimiter.is_empty()) {
            return error("/delimited/delimiter", "is empty; use, for example, ','");
        }
        if let Some(Err(fault)) = self.json.as_deref().map(json_path) {
            return error("/json", &format!("is not a path: {fault}"));
        }
        self.regex.as_ref().and_then(Group::check)
    }

    fn field(&self) -> Field {
        let from = self.from.clone().unwrap_or_else(|| MESSAGE.to_owned());
        let extraction = if let Some(Between { left, index, right }) = &self.between {
            let (left, right) = (left.clone().into_bytes(), right.clone().into_bytes());
            Extraction::Between { from, left, index: *index, right }
        } else if let Some(Delimited { delimiter, index }) = &self.delimited {
            let delimiter = delimiter.clone().into_bytes();
            Extraction::Part { from, delimiter, index: *index }
        } else if let Some(Group { pattern, group }) = &self.regex {
            Extraction::Group { from, pattern: pattern.clone(), group: group.clone() }
        } else if let Some(path) = &self.json {
            // `check` has already verified the path.
            Extraction::Json { from, path: json_path(path).unwrap_or_default() }
        } else {
            Extraction::Event(self.field.clone().unwrap_or(from))
        };
        let kind = match self.kind {
            TypeConfig::String => FieldType::Text,
            TypeConfig::Int => FieldType::Int,
            TypeConfig::Float => FieldType::Float,
        };
        Field { extraction, kind }
    }
}

impl Group {
    fn check(&self) -> Option<OptionError> {
        let regex = match regex::bytes::Regex::new(&self.pattern) {
            Ok(regex) => regex,
            Err(error) => {
                let why = pattern_fault(&self.pattern, &error.to_string(), PatternUse::Groups);
                let message = format!("is not a regular expression: {why}");
                return Some(OptionError::new("/regex/pattern", message));
            }
        };
        let has_name = regex.capture_names().flatten().any(|name| name == self.group);
        let has_number =
            self.group.parse::<usize>().is_ok_and(|number| number < regex.captures_len());
        let message = format!(
            "the pattern has no group `{}`; use the name or number of a group in the pattern",
            self.group
        );
        (!has_name && !has_number).then(|| OptionError::new("/regex/group", message))
    }
}
