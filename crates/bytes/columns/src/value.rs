//! A value as its reader sees it.

use crate::number::Number;
use crate::text::unescape;
use std::borrow::Cow;

/// A value, as slices of the text it lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// There is none.
    Absent,
    /// JSON `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number as JSON writes it, without fraction and exponent.
    Int(&'a [u8]),
    /// A number as JSON writes it, with fraction or exponent.
    Float(&'a [u8]),
    /// A time as RFC 3339 writes it, in UTC.
    Time(&'a [u8]),
    /// Any bytes, UTF-8 or not.
    Text(&'a [u8]),
    /// The inside of a JSON string, perhaps with escapes.
    Escaped(&'a [u8]),
    /// A JSON object.
    Object(&'a [u8]),
    /// A JSON array.
    Array(&'a [u8]),
    /// Members of a JSON object that have no column of their own.
    Members(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The number it is, if it is one that an `i64` or an `f64` can hold.
    pub fn number(self) -> Option<Number> {
        match self {
            Value::Int(text) | Value::Float(text) => Number::parse(text),
            _ => None,
        }
    }

    /// The text of a string or a time, without escapes.
    pub fn text(self) -> Option<Cow<'a, [u8]>> {
        match self {
            Value::Text(text) | Value::Time(text) => Some(Cow::Borrowed(text)),
            Value::Escaped(text) => Some(unescape(text)),
            _ => None,
        }
    }

    /// It as people read it: strings without quotes and escapes, everything else as JSON writes it;
    /// nothing where there is no value.
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
