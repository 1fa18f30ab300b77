//! The encoders' view of a metric, which borrows slices of its event.
//!
//! ```
//! use millstream_encodings::metric::{Scratch, SketchText, tags};
//!
//! let (mut scratch, mut seen) = (Scratch::default(), Vec::new());
//! let object = br#"{"env":["eu","prod"],"host":"a","leader":true}"#;
//! tags(object, &mut scratch, |key, value| seen.push((key.to_vec(), value.to_vec()))).unwrap();
//! let pairs: Vec<(&[u8], &[u8])> = seen.iter().map(|(key, value)| (&key[..], &value[..])).collect();
//! assert_eq!(pairs, [(&b"env"[..], &b"eu"[..]), (b"env", b"prod"), (b"host", b"a"), (b"leader", b"")]);
//!
//! let sketch = br#"{"count":3,"sum":7,"min":1,"max":5,"values":[1,5],"weights":[2,1]}"#;
//! let sketch = SketchText::parse(sketch).unwrap();
//! assert_eq!(sketch.points().collect::<Vec<_>>(), [(1.0, 2.0), (5.0, 1.0)]);
//! ```

use crate::json::{Cursor, JsonText};
use millstream_columns::{Number, unescape_into};

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A sum, such as the number of requests.
    Counter,
    /// A current state, or a value computed over a period.
    Gauge,
    /// Many values from one period.
    Distribution,
}

/// The period that a value covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temporality {
    /// The value covers only the metric's period. Values of different periods are added.
    Delta,
    /// The value covers the time since the series started.
    Cumulative,
    /// Unspecified or irrelevant.
    None,
}

/// The value of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A finite number.
    Number(f64),
    /// The values of a distribution.
    Sketch(SketchText<'a>),
}

/// One metric at one point in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric<'a> {
    /// The name: nonempty UTF-8.
    pub name: &'a [u8],
    /// The tags: a JSON object in UTF-8 that [`tags`] can parse, or `{}`. The agent's sources sort
    /// the keys.
    pub tags: &'a [u8],
    /// The type.
    pub kind: Kind,
    /// The period that the value covers.
    pub temporality: Temporality,
    /// A sketch if the metric is a distribution, otherwise a number.
    pub value: Value<'a>,
    /// End of the period, in nanoseconds since 1970.
    pub time_ns: i64,
    /// Length of the period in seconds, or 0 if it is unknown.
    pub interval: f64,
}

/// The values of a distribution as a JSON object: `count`, `sum`, `min`, `max`, and two arrays of
/// equal length. `values` is in ascending order, and `weights` contains the number of samples that
/// each value represents.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SketchText<'a> {
    /// Number of samples: 0 or more, possibly fractional.
    pub count: f64,
    /// Sum of the samples.
    pub sum: f64,
    /// The smallest sample.
    pub min: f64,
    /// The largest sample.
    pub max: f64,
    /// Length of the arrays.
    len: usize,
    values: &'a [u8],
    weights: &'a [u8],
}

impl<'a> SketchText<'a> {
    /// Parses a distribution. Returns `None` if a number is not finite, a weight is not above 0,
    /// the values are not in ascending order, or `min` is above `max`.
    pub fn parse(object: &'a [u8]) -> Option<SketchText<'a>> {
        let (mut numbers, mut arrays) = ([None; 4], [None; 2]);
        Cursor::new(object).object(|name, value| {
            let position = |names: &[&str]| {
                names.iter().position(|known| name == JsonText::Plain(known.as_bytes()))
            };
            if let Some(at) = position(&["count", "sum", "min", "max"]) {
                numbers[at] = number(value);
            } else if let Some(at) = position(&["values", "weights"]) {
                arrays[at] = Some(value);
            }
            Some(())
        })?;
        let [Some(count), Some(sum), Some(min), Some(max)] = numbers else { return None };
        let [Some(values), Some(weights)] = arrays else { return None };
        let len = check_array(values, |value, previous| value > previous)?;
        let is_valid = check_array(weights, |weight, _| weight > 0.0)? == len && count >= 0.0;
        (is_valid && min <= max).then_some(SketchText {
            count,
            sum,
            min,
            max,
            len,
            values,
            weights,
        })
    }

    /// Returns the values in ascending order, each with its weight, which is always above 0.
    pub fn points(&self) -> impl ExactSizeIterator<Item = (f64, f64)> + use<'a> {
        let (mut values, mut weights) = (Cursor::new(self.values), Cursor::new(self.weights));
        // `parse` has checked that every element is a number.
        let mut next = move || (next_number(&mut values), next_number(&mut weights));
        (0..self.len).map(move |_| next())
    }
}

/// Parses an array of finite numbers and returns its length. `holds` compares each number with the
/// previous one, and the first number with -∞. Returns `None` if the array is invalid, or if
/// `holds` returns false.
fn check_array(array: &[u8], holds: impl Fn(f64, f64) -> bool) -> Option<usize> {
    let (mut len, mut previous) = (0, f64::NEG_INFINITY);
    let mut cursor = Cursor::new(array);
    cursor.array(|value| {
        let value = number(value).filter(|value| holds(*value, previous))?;
        (len, previous) = (len + 1, value);
        Some(())
    })?;
    Some(len)
}

fn next_number(array: &mut Cursor<'_>) -> f64 {
    array.next_element().and_then(number).unwrap_or(0.0)
}

fn number(text: &[u8]) -> Option<f64> {
    Number::parse(text).map(Number::as_f64)
}

/// Buffers for unescaped keys and values, which calls reuse.
#[derive(Debug, Default)]
pub struct Scratch {
    key: Vec<u8>,
    value: Vec<u8>,
}

/// The error of [`tags`]: the input is not a valid tag object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidTags;

/// Calls `each` with the unescaped key and value of every tag in an object, in source order.
///
/// The value is empty for `true`, which marks a tag without a value. A key with an array yields one
/// call per element. Numbers and `false` are passed as written. A key whose value is `null` is
/// skipped.
///
/// # Errors
/// Returns an error if the input is not an object, or if a value is an object or a nested array.
/// `each` may already have been called for earlier tags.
#[inline]
pub fn tags(
    object: &[u8],
    scratch: &mut Scratch,
    mut each: impl FnMut(&[u8], &[u8]),
) -> Result<(), InvalidTags> {
    let Scratch { key: key_buf, value: value_buf } = scratch;
    let mut cursor = Cursor::new(object);
    let done = cursor.members(|cursor, name| {
        let key = unescaped(name, key_buf);
        match cursor.peek()? {
            b'"' => each(key, unescaped(cursor.string()?, value_buf)),
            b'[' => cursor.array(|value| tag(key, value, value_buf, &mut each))?,
            b'{' => return None,
            _ => tag(key, cursor.value()?, value_buf, &mut each)?,
        }
        Some(())
    });
    done.ok_or(InvalidTags)
}

/// Passes one value of a key to `each`.
fn tag(
    key: &[u8],
    value: &[u8],
    buf: &mut Vec<u8>,
    each: &mut impl FnMut(&[u8], &[u8]),
) -> Option<()> {
    match value.first()? {
        b'{' | b'[' => return None,
        b'"' => each(key, unescaped(Cursor::new(value).string()?, buf)),
        b't' => each(key, b""),
        b'n' => {}
        _ => each(key, value),
    }
    Some(())
}

#[inline(always)]
fn unescaped<'t>(text: JsonText<'t>, buf: &'t mut Vec<u8>) -> &'t [u8] {
    match text {
        JsonText::Plain(text) => text,
        JsonText::Escaped(text) => {
            buf.clear();
            unescape_into(text, buf);
            buf
        }
    }
}

#[cfg(test)]
mod tests;
