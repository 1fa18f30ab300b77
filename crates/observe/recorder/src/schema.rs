//! The declaration of every event type.

mod events;

use crate::ids::TextId;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

pub use events::{EVENTS, EventKind};

/// Maximum number of fields of a type, in addition to start, duration and thread.
pub const FIELDS_MAX: usize = 5;

/// Prefix of all type names in JFR files.
pub const NAME_PREFIX: &str = "millstream.";

/// The declaration of an event type.
#[derive(Debug)]
pub struct EventSpec {
    /// The type.
    pub kind: EventKind,
    /// Name in configuration and on the command line, such as `FileRead`.
    pub name: &'static str,
    /// Name for display.
    pub label: &'static str,
    /// Category in tools, from the outermost to the innermost.
    pub category: &'static [&'static str],
    /// Description of the recorded occurrence.
    pub description: &'static str,
    /// Whether the event lasts from a start to an end. Other events have only a start and no
    /// threshold.
    pub has_duration: bool,
    /// Whether a busy agent records the event thousands of times per second. Such events are stored
    /// separately from other events, which they would overwrite within seconds.
    pub is_frequent: bool,
    /// Fields of the type, up to [`FIELDS_MAX`].
    pub fields: &'static [Field],
    /// Default settings of the type.
    pub defaults: Settings,
}

impl EventSpec {
    /// Returns the name in JFR files, such as `millstream.FileRead`.
    pub fn jfr_name(&self) -> String {
        format!("{NAME_PREFIX}{}", self.name)
    }
}

/// Conditions under which events of a type are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether the type is recorded at all.
    pub enabled: bool,
    /// Duration below which events are not recorded.
    pub threshold: Duration,
    /// Maximum number of events per second; `None` for no limit.
    pub rate: Option<PerSecond>,
    /// Whether the stack of the thread is recorded.
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

/// Error for a text that is not a rate. The message reads "what is wrong; what to write instead".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoRate(String);

impl fmt::Display for NoRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a number of events per second; use, for example, 100/s", self.0)
    }
}

impl std::error::Error for NoRate {}

impl FromStr for PerSecond {
    type Err = NoRate;

    /// Parses `100/s`; the number is at least 1.
    fn from_str(text: &str) -> Result<PerSecond, NoRate> {
        let digits = text.strip_suffix("/s").filter(|digits| !digits.starts_with('+'));
        let number = digits.and_then(|digits| digits.parse().ok()).filter(|number| *number > 0);
        number.map(PerSecond).ok_or_else(|| NoRate(text.to_owned()))
    }
}

/// A field of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name in files.
    pub name: &'static str,
    /// Name for display.
    pub label: &'static str,
    /// Type and unit of its values.
    pub kind: FieldKind,
    /// Whether all events of one file, connection or component have the same value, so that the
    /// value is stored once and referenced.
    pub is_shared: bool,
}

/// Type and unit of the values of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldKind {
    /// An unsigned number.
    Unsigned,
    /// A number from 0 to 2^32 - 1. Larger numbers are recorded as the largest.
    Count,
    /// A signed number.
    Signed,
    /// A number with a fraction.
    Float,
    /// Yes or no.
    Flag,
    /// A text from the recording's table.
    Text,
    /// A period, in ticks.
    Duration,
    /// A point in time, in ticks.
    Timestamp,
    /// A number of bytes.
    Bytes,
}

/// A value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Value of a field of [`FieldKind::Unsigned`].
    Unsigned(u64),
    /// Value of a field of [`FieldKind::Count`].
    Count(u32),
    /// Value of a field of [`FieldKind::Signed`].
    Signed(i64),
    /// Value of a field of [`FieldKind::Float`].
    Float(f64),
    /// Value of a field of [`FieldKind::Flag`].
    Flag(bool),
    /// Value of a field of [`FieldKind::Text`].
    Text(TextId),
    /// Value of a field of [`FieldKind::Duration`], in ticks.
    Duration(u64),
    /// Value of a field of [`FieldKind::Timestamp`], in ticks.
    Timestamp(u64),
    /// Value of a field of [`FieldKind::Bytes`].
    Bytes(u64),
}

impl Value {
    /// Returns the 64 bits that represent the value in an event.
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

    /// Returns the value that these bits represent. Any bits are valid: a flag is set unless they
    /// are 0, and a count and the number of a text use the lower 32 bits.
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
