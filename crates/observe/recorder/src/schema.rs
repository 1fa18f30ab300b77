//! The declarations of all event types.

mod events;

use crate::ids::TextId;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

pub use events::{EVENTS, EventKind};

/// Maximum number of fields per type, excluding start, duration and thread.
pub const FIELDS_MAX: usize = 5;

/// Prefix of all type names in JFR files.
pub const NAME_PREFIX: &str = "millstream.";

/// The declaration of an event type.
#[derive(Debug)]
pub struct EventSpec {
    /// The type.
    pub kind: EventKind,
    /// Name in the configuration and on the command line, such as `FileRead`.
    pub name: &'static str,
    /// Display name.
    pub label: &'static str,
    /// Category in tools, as a path from the outermost to the innermost category.
    pub category: &'static [&'static str],
    /// Description of the occurrence that is recorded.
    pub description: &'static str,
    /// Whether the event has a start and an end. Other events have only a start, and no threshold.
    pub has_duration: bool,
    /// Whether a busy agent records such events thousands of times per second. Frequent events are
    /// stored separately, because they would overwrite all other events within seconds.
    pub is_frequent: bool,
    /// The type's own fields, up to [`FIELDS_MAX`].
    pub fields: &'static [Field],
    /// Default settings for the type.
    pub defaults: Settings,
}

impl EventSpec {
    /// Returns the name of the type in JFR files, such as `millstream.FileRead`.
    pub fn jfr_name(&self) -> String {
        format!("{NAME_PREFIX}{}", self.name)
    }
}

/// The conditions under which events of a type are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether events are recorded at all.
    pub enabled: bool,
    /// Minimum duration. Shorter events are not recorded.
    pub threshold: Duration,
    /// Maximum number of events per second, or `None` for no limit.
    pub rate: Option<PerSecond>,
    /// Whether to record the thread's stack.
    pub stack: bool,
}

/// A number of events per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PerSecond(pub u32);

impl fmt::Display for PerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", self.0)
    }
}

/// The error for text that is not a rate. The message has the form "what is wrong; what to use
/// instead".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a number of events per second; use, for example, 100/s")]
pub struct NoRate(String);

impl FromStr for PerSecond {
    type Err = NoRate;

    /// Parses a rate such as `100/s`. The number must be at least 1.
    fn from_str(text: &str) -> Result<PerSecond, NoRate> {
        let digits = text.strip_suffix("/s").filter(|digits| !digits.starts_with('+'));
        let number = digits.and_then(|digits| digits.parse().ok()).filter(|number| *number > 0);
        number.map(PerSecond).ok_or_else(|| NoRate(text.to_owned()))
    }
}

/// A field of an event type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name of the field in files.
    pub name: &'static str,
    /// Display name.
    pub label: &'static str,
    /// Type and unit of the values.
    pub kind: FieldKind,
    /// Whether all events about one file, connection or component have the same value, so that the
    /// value is stored once and events refer to it.
    pub is_shared: bool,
}

/// The type and unit of a field's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldKind {
    /// An unsigned number.
    Unsigned,
    /// A number from 0 to 2^32 - 1. Larger numbers are recorded as the maximum.
    Count,
    /// A signed number.
    Signed,
    /// A floating-point number.
    Float,
    /// A boolean.
    Flag,
    /// A string in the recording's table.
    Text,
    /// A duration in ticks.
    Duration,
    /// A point in time in ticks.
    Timestamp,
    /// A number of bytes.
    Bytes,
}

/// A value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Value of a [`FieldKind::Unsigned`] field.
    Unsigned(u64),
    /// Value of a [`FieldKind::Count`] field.
    Count(u32),
    /// Value of a [`FieldKind::Signed`] field.
    Signed(i64),
    /// Value of a [`FieldKind::Float`] field.
    Float(f64),
    /// Value of a [`FieldKind::Flag`] field.
    Flag(bool),
    /// Value of a [`FieldKind::Text`] field.
    Text(TextId),
    /// Value of a [`FieldKind::Duration`] field, in ticks.
    Duration(u64),
    /// Value of a [`FieldKind::Timestamp`] field, in ticks.
    Timestamp(u64),
    /// Value of a [`FieldKind::Bytes`] field.
    Bytes(u64),
}

impl Value {
    /// Returns the 64 bits that represent the value in a recording.
    pub fn to_bits(self) -> u64 {
        match self {
            Value::Unsigned(number)
            | Value::Duration(number)
            | Value::Timestamp(number)
            | Value::Bytes(number) => number,
            Value::Signed(number) => number.cast_unsigned(),
            Value::Float(number) => number.to_bits(),
            Value::Flag(flag) => u64::from(flag),
            Value::Count(number) | Value::Text(TextId(number)) => u64::from(number),
        }
    }

    /// Returns the value that these bits represent. All bit patterns are valid: a flag is set
    /// unless the bits are 0, and counts and string numbers use only the lower 32 bits.
    pub fn from_bits(kind: FieldKind, bits: u64) -> Value {
        match kind {
            FieldKind::Unsigned => Value::Unsigned(bits),
            FieldKind::Count => Value::Count(bits as u32),
            FieldKind::Signed => Value::Signed(bits.cast_signed()),
            FieldKind::Float => Value::Float(f64::from_bits(bits)),
            FieldKind::Flag => Value::Flag(bits != 0),
            FieldKind::Text => Value::Text(TextId(bits as u32)),
            FieldKind::Duration => Value::Duration(bits),
            FieldKind::Timestamp => Value::Timestamp(bits),
            FieldKind::Bytes => Value::Bytes(bits),
        }
    }
}

#[cfg(test)]
mod tests;
