//! The value of a field in one row.

use crate::number::Number;
use crate::text::unescape;
use std::borrow::Cow;

/// A value that borrows its bytes from the text that contains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// No value.
    Absent,
    /// JSON `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// A JSON number without a fraction or exponent.
    Int(&'a [u8]),
    /// A JSON number with a fraction or exponent.
    Float(&'a [u8]),
    /// An RFC 3339 timestamp in UTC.
    Time(&'a [u8]),
    /// Any bytes, whether or not they are UTF-8.
    Text(&'a [u8]),
    /// The contents of a JSON string, possibly with escapes.
    Escaped(&'a [u8]),
    /// A JSON object.
    Object(&'a [u8]),
    /// A JSON array.
    Array(&'a [u8]),
    /// Members of a JSON object that have no column.
    Members(&'a [u8]),
}

impl<'a> Value<'a> {
    /// Returns the number if the value is a number and fits an `i64` or an `f64`.
    pub fn number(self) -> Option<Number> {
        match self {
            Value::Int(text) | Value::Float(text) => Number::parse(text),
            _ => None,
        }
    }

    /// Returns the unescaped text if the value is a string or a timestamp.
    pub fn text(self) -> Option<Cow<'a, [u8]>> {
        match self {
            Value::Text(text) | Value::Time(text) => Some(Cow::Borrowed(text)),
            Value::Escaped(text) => Some(unescape(text)),
            _ => None,
        }
    }

    /// Returns the value in plain form: a string without quotes and escapes, and any other value as
    /// JSON. Returns `None` if there is no value.
    pub fn plain(self) -> Option<Cow<'a, [u8]>> {
        match self {
            Value::Absent | Value::Null => None,
            Value::Bool(true) => Some(Cow::Borrowed(b"true")),
            Value::Bool(false) => Some(Cow::Borrowed(b"false")),
            Value::Int(text) | Value::Float(text) => Some(Cow::Borrowed(text)),
            Value::Object(text) | Value::Array(text) | Value::Members(text) => {
                Some(Cow::Borrowed(text))
            }
            Value::Time(_) | Value::Text(_) | Value::Escaped(_) => self.text(),
        }
    }
}
