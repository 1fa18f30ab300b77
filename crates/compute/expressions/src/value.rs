//! The values of expressions.

use crate::json::Walk;
use crate::time;
use crate::types::Types;
use millstream_columns::{Number, Value as Cell, unescape};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

/// Maximum depth of nested lists and maps in comparisons. Comparing more deeply nested values is an
/// error.
const COMPARED_DEPTH_MAX: usize = 100;

/// The reason why an expression has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    Missing,
    Mistyped,
    Arithmetic,
    /// The expression exceeded the maximum number of steps for a row.
    StepLimit,
}

/// The result of an evaluation.
pub type Outcome<'a> = Result<Value<'a>, Error>;

/// A value. Strings are bytes, and usually UTF-8. Cloning is cheap, except for computed strings.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(Cow<'a, [u8]>),
    /// A timestamp in nanoseconds since 1970.
    Time(i64),
    /// A duration in nanoseconds.
    Duration(i64),
    List(Arc<Vec<Value<'a>>>),
    Map(Arc<Entries<'a>>),
    /// A JSON array that is not parsed yet.
    Array(&'a [u8]),
    /// A JSON object that is not parsed yet.
    Object(&'a [u8]),
}

/// The keys and values of a map.
pub type Entries<'a> = Vec<(Value<'a>, Value<'a>)>;

impl<'a> Value<'a> {
    pub fn of_cell(cell: Cell<'a>) -> Outcome<'a> {
        Ok(match cell {
            Cell::Absent | Cell::Members(_) => return Err(Error::Missing),
            Cell::Null => Value::Null,
            Cell::Bool(value) => Value::Bool(value),
            Cell::Int(_) | Cell::Float(_) => match cell.number().ok_or(Error::Mistyped)? {
                Number::Int(value) => Value::Int(value),
                Number::Float(value) => Value::Double(value),
            },
            Cell::Time(text) => Value::Time(time::timestamp(text).ok_or(Error::Mistyped)?),
            Cell::Text(text) => Value::Text(Cow::Borrowed(text)),
            Cell::Escaped(text) => Value::Text(unescape(text)),
            Cell::Object(text) => Value::Object(text),
            Cell::Array(text) => Value::Array(text),
        })
    }

    pub fn owned(text: impl Into<Vec<u8>>) -> Value<'a> {
        Value::Text(Cow::Owned(text.into()))
    }

    pub fn list(list: Vec<Value<'a>>) -> Value<'a> {
        Value::List(Arc::new(list))
    }

    pub fn types(&self) -> Types {
        match self {
            Value::Null => Types::NULL,
            Value::Bool(_) => Types::BOOL,
            Value::Int(_) => Types::INT,
            Value::Double(_) => Types::DOUBLE,
            Value::Text(_) => Types::TEXT,
            Value::Time(_) => Types::TIME,
            Value::Duration(_) => Types::DURATION,
            Value::List(_) | Value::Array(_) => Types::LIST,
            Value::Map(_) | Value::Object(_) => Types::MAP,
        }
    }

    pub fn bool(&self) -> Result<bool, Error> {
        match self {
            Value::Bool(value) => Ok(*value),
            _ => Err(Error::Mistyped),
        }
    }

    pub fn int(&self) -> Result<i64, Error> {
        match self {
            Value::Int(value) => Ok(*value),
            _ => Err(Error::Mistyped),
        }
    }

    pub fn text(&self) -> Result<&Cow<'a, [u8]>, Error> {
        match self {
            Value::Text(text) => Ok(text),
            _ => Err(Error::Mistyped),
        }
    }

    /// Returns the elements of a list, or an error for any other value.
    pub fn elements(&self) -> Result<Cow<'_, [Value<'a>]>, Error> {
        match self {
            Value::List(list) => Ok(Cow::Borrowed(list)),
            Value::Array(text) => {
                let mut walk = Walk::container(text);
                let elements = std::iter::from_fn(|| walk.element()).map(Value::of_cell);
                Ok(Cow::Owned(elements.collect::<Result<_, _>>()?))
            }
            _ => Err(Error::Mistyped),
        }
    }

    /// Returns the entries of a map, or an error for any other value.
    pub fn entries(&self) -> Result<Cow<'_, [(Value<'a>, Value<'a>)]>, Error> {
        match self {
            Value::Map(entries) => Ok(Cow::Borrowed(entries)),
            Value::Object(text) => {
                let mut walk = Walk::container(text);
                let members = std::iter::from_fn(|| walk.member());
                let entry =
                    |(name, value)| Ok((Value::Text(unescape(name)), Value::of_cell(value)?));
                Ok(Cow::Owned(members.map(entry).collect::<Result<_, _>>()?))
            }
            _ => Err(Error::Mistyped),
        }
    }

    /// Returns the value for a key in a map.
    pub fn get(&self, key: &Value<'_>) -> Outcome<'a> {
        match (self, key) {
            (Value::Object(text), Value::Text(name)) => {
                Walk::container(text).find(name).map_or(Err(Error::Missing), Value::of_cell)
            }
            (Value::Object(_), _) => Err(Error::Missing),
            (Value::Map(entries), _) => {
                let found =
                    entries.iter().find(|(existing, _)| is_equal(existing, key) == Ok(true));
                found.map(|(_, value)| value.clone()).ok_or(Error::Missing)
            }
            _ => Err(Error::Mistyped),
        }
    }

    /// Returns the element of a list at an index, or the value for a key in a map.
    pub fn at(&self, index: &Value<'_>) -> Outcome<'a> {
        if !self.types().can_be(Types::LIST) {
            return self.get(index);
        }
        let index = match index {
            Value::Int(index) => *index,
            Value::Double(index) if index.fract() == 0.0 && index.abs() < 1e15 => *index as i64,
            _ => return Err(Error::Mistyped),
        };
        let elements = self.elements()?;
        let index = usize::try_from(index).map_err(|_| Error::Missing)?;
        elements.get(index).cloned().ok_or(Error::Missing)
    }
}

/// Returns whether two values are equal. Values of different types are unequal, unless both are
/// numbers.
pub fn is_equal(a: &Value<'_>, b: &Value<'_>) -> Result<bool, Error> {
    is_equal_within(a, b, COMPARED_DEPTH_MAX)
}

fn is_equal_within(a: &Value<'_>, b: &Value<'_>, depth: usize) -> Result<bool, Error> {
    let depth = depth.checked_sub(1).ok_or(Error::Arithmetic)?;
    if a.types().and(b.types()).can_be(Types::LIST) {
        let (a, b) = (a.elements()?, b.elements()?);
        if a.len() != b.len() {
            return Ok(false);
        }
        return all(a.iter().zip(&*b), |(a, b)| is_equal_within(a, b, depth));
    }
    if a.types().and(b.types()).can_be(Types::MAP) {
        let (a, b) = (a.entries()?, b);
        if a.len() != b.entries()?.len() {
            return Ok(false);
        }
        return all(a.iter(), |(key, value)| match b.get(key) {
            Ok(other) => is_equal_within(value, &other, depth),
            Err(Error::Missing) => Ok(false),
            Err(error) => Err(error),
        });
    }
    match (a, b) {
        (Value::Null, Value::Null) => Ok(true),
        _ => Ok(compare(a, b).is_ok_and(|ordering| ordering == Some(Ordering::Equal))),
    }
}

fn all<T>(
    mut list: impl Iterator<Item = T>,
    test: impl Fn(T) -> Result<bool, Error>,
) -> Result<bool, Error> {
    list.try_fold(true, |so_far, next| Ok(so_far && test(next)?))
}

/// Compares two values. Returns `None` if one of them is NaN.
pub fn compare(a: &Value<'_>, b: &Value<'_>) -> Result<Option<Ordering>, Error> {
    Ok(match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Int(a), Value::Double(b)) => compare_mixed(*a, *b),
        (Value::Double(a), Value::Int(b)) => compare_mixed(*b, *a).map(Ordering::reverse),
        (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
        (Value::Time(a), Value::Time(b)) | (Value::Duration(a), Value::Duration(b)) => {
            Some(a.cmp(b))
        }
        _ => return Err(Error::Mistyped),
    })
}

/// Compares an int with a double as doubles, as CEL does. Returns `None` if the double is NaN.
#[inline(always)]
pub fn compare_mixed(a: i64, b: f64) -> Option<Ordering> {
    (a as f64).partial_cmp(&b)
}
