//! A metric as encoders see it: slices of the event that it came from.
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

/// What a metric measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// How much or how often: a sum.
    Counter,
    /// A state, or what was computed of a period.
    Gauge,
    /// Many values of a period.
    Distribution,
}

/// What time a value is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temporality {
    /// Of the period alone: two periods are added.
    Delta,
    /// Since the series was new.
    Cumulative,
    /// Nothing was said, or it makes no difference.
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

/// One metric of one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric<'a> {
    /// Its name, UTF-8, not empty.
    pub name: &'a [u8],
    /// A JSON object, UTF-8, for [`tags`]; `{}` without tags. Keys of the agent's own sources are
    /// in order.
    pub tags: &'a [u8],
    /// What it measures.
    pub kind: Kind,
    /// What time its value is of.
    pub temporality: Temporality,
    /// The value: a sketch of a distribution, a number of everything else.
    pub value: Value<'a>,
    /// End of the period, in nanoseconds since 1970.
    pub time_ns: i64,
    /// Length of the period in seconds; 0 if it is not known.
    pub interval: f64,
}

/// The values of a distribution, as JSON: an object with `count`, `sum`, `min`, `max`, and two
/// arrays of the same length, `values`, rising, and `weights`, how many values each of them stands
/// for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SketchText<'a> {
    /// How many values it stands for; 0 or more, perhaps a fraction.
    pub count: f64,
    /// Their sum.
    pub sum: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Length of the arrays.
    len: usize,
    values: &'a [u8],
    weights: &'a [u8],
}

impl<'a> SketchText<'a> {
    /// Reads such an object; `None` if it is none, or a number in it is not finite, a weight not
    /// above 0, the values do not rise, or the smallest is above the largest.
    pub fn parse(object: &'a [u8]) -> Option<SketchText<'a>> {
        let (mut numbers, mut arrays) = ([None; 4], [None; 2]);
        Cursor::new(object).object(|name, value| {
            let place =
                |names: &[&str]| names.iter().position(|of| name == JsonText::Plain(of.as_bytes()));
            if let Some(at) = place(&["count", "sum", "min", "max"]) {
                numbers[at] = number(value);
            } else if let Some(at) = place(&["values", "weights"]) {
                arrays[at] = Some(value);
            }
            Some(())
        })?;
        let [Some(count), Some(sum), Some(min), Some(max)] = numbers else { return None };
        let [Some(values), Some(weights)] = arrays else { return None };
        let len = check_array(values, |value, before| value > before)?;
        let is_whole = check_array(weights, |weight, _| weight > 0.0)? == len && count >= 0.0;
        (is_whole && min <= max).then_some(SketchText {
            count,
            sum,
            min,
            max,
            len,
            values,
            weights,
        })
    }

    /// Values, rising, each with its weight, which is above 0.
    pub fn points(&self) -> impl ExactSizeIterator<Item = (f64, f64)> + use<'a> {
        let (mut values, mut weights) = (Cursor::new(self.values), Cursor::new(self.weights));
        // What was parsed once has a number in each place.
        let mut next = move || (next_number(&mut values), next_number(&mut weights));
        (0..self.len).map(move |_| next())
    }
}

/// Reads an array of finite numbers of which each stands in a relation to the one before; the first
/// to -∞. Gives their number.
fn check_array(array: &[u8], holds: impl Fn(f64, f64) -> bool) -> Option<usize> {
    let (mut len, mut before) = (0, f64::NEG_INFINITY);
    let mut cursor = Cursor::new(array);
    cursor.array(|value| {
        let value = number(value).filter(|value| holds(*value, before))?;
        (len, before) = (len + 1, value);
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

/// Room for keys and values that had escapes.
#[derive(Debug, Default)]
pub struct Scratch {
    key: Vec<u8>,
    value: Vec<u8>,
}

/// An object whose values are not what tags may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoTags;

/// Calls `each` with key and value of every tag of an object, unescaped, in the order they stand
/// there.
///
/// `true` is an empty value: a tag without one. A key with an array has a call for each of its
/// elements. Numbers and `false` are given as they are written; a key whose value is `null` is no
/// tag.
///
/// # Errors
/// It is no object, or a value is an object or an array within an array. `each` may have been
/// called before.
#[inline]
pub fn tags(
    object: &[u8],
    scratch: &mut Scratch,
    mut each: impl FnMut(&[u8], &[u8]),
) -> Result<(), NoTags> {
    let Scratch { key: key_room, value: value_room } = scratch;
    let mut cursor = Cursor::new(object);
    let done = cursor.members(|cursor, name| {
        let key = plain(name, key_room);
        match cursor.peek()? {
            b'"' => each(key, plain(cursor.string()?, value_room)),
            b'[' => cursor.array(|value| tag(key, value, value_room, &mut each))?,
            b'{' => return None,
            _ => tag(key, cursor.value()?, value_room, &mut each)?,
        }
        Some(())
    });
    done.ok_or(NoTags)
}

/// One value of a key.
fn tag(
    key: &[u8],
    value: &[u8],
    room: &mut Vec<u8>,
    each: &mut impl FnMut(&[u8], &[u8]),
) -> Option<()> {
    match value.first()? {
        b'{' | b'[' => return None,
        b'"' => each(key, plain(Cursor::new(value).string()?, room)),
        b't' => each(key, b""),
        b'n' => {}
        _ => each(key, value),
    }
    Some(())
}

#[inline(always)]
fn plain<'t>(text: JsonText<'t>, room: &'t mut Vec<u8>) -> &'t [u8] {
    match text {
        JsonText::Plain(text) => text,
        JsonText::Escaped(text) => {
            room.clear();
            unescape_into(text, room);
            room
        }
    }
}

#[cfg(test)]
mod tests;
