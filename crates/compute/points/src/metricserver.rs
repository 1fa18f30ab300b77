//! The metric server's protocol: points as msgpack.
//!
//! A point is an array of strings, `[action, type, name, value, tags, timestamp]`. The last two
//! elements are optional. The action is `emit`. Tags are `key=value|key2=value2`. The timestamp is
//! empty or in Unix seconds. A message is a sequence of points or arrays of points. Strings may be
//! `str` or `bin`, the value and the timestamp may be numbers, and nil is an empty string.
//!
//! An array with the action `log` is a log event:
//! `["log", level, name, message, tags, timestamp, fields]` (see [`crate::Log`]).
//!
//! Lines of plain text are reported as notes. `reset` is reported and has no effect. Consumers of a
//! sum expect it to continue, and a sum that restarts with the client would look like an agent
//! restart.

mod log;
mod msgpack;

use crate::{Extra, Fault, Note, Visit, number};
use millstream_series::{Kind, Point, Values};
use msgpack::{Item, Reader, Truncated};

/// Maximum number of elements in a point.
const ELEMENTS_MAX: usize = 6;

/// Minimum number of elements in a point: everything up to and including the value.
const ELEMENTS_MIN: usize = 4;

const NS_PER_SECOND: u64 = 1_000_000_000;

/// Parses a message and passes its contents to `visit`. `arrived`, in nanoseconds since 1970, is
/// copied into every point.
pub fn parse<'a>(message: &'a [u8], arrived: u64, visit: &mut impl Visit<'a>) {
    let mut reader = Reader::new(message);
    while let Some(first) = reader.peek() {
        let start = reader.at;
        let result = match first {
            b' '..=b'~' | b'\t' | b'\r' | b'\n' => {
                plain_text(&mut reader, visit);
                Ok(())
            }
            _ if msgpack::is_array(first) => parse_array(&mut reader, arrived, visit),
            _ => return visit.fault(Fault::NotArray, &message[start..]),
        };
        if result.is_err() {
            return visit.fault(Fault::Truncated, &message[start..]);
        }
    }
}

/// Reports a line of plain text, unless it is blank.
#[cold]
fn plain_text<'a>(reader: &mut Reader<'a>, visit: &mut impl Visit<'a>) {
    let line = reader.line().trim_ascii();
    if !line.is_empty() {
        visit.note(Note::PlainText, line);
    }
}

/// Parses a point, or an array of points.
fn parse_array<'a>(
    reader: &mut Reader<'a>,
    arrived: u64,
    visit: &mut impl Visit<'a>,
) -> Result<(), Truncated> {
    if emit_common(reader, arrived, visit) {
        return Ok(());
    }
    let start = reader.at;
    let len = match reader.item()? {
        Item::Array(len) if len > 0 && reader.peek().is_some_and(msgpack::is_array) => len,
        item => return parse_point(reader, start, item, arrived, visit),
    };
    for _ in 0..len {
        if !emit_common(reader, arrived, visit) {
            let start = reader.at;
            let item = reader.item()?;
            parse_point(reader, start, item, arrived, visit)?;
        }
    }
    Ok(())
}

/// Parses the next point if it has the most common form: six strings, with a value of at most eight
/// digits and an empty timestamp. Otherwise, reads nothing and returns false.
#[inline(always)]
fn emit_common<'a>(reader: &mut Reader<'a>, arrived: u64, visit: &mut impl Visit<'a>) -> bool {
    let Some((point, rest)) = parse_common(&reader.message[reader.at..], arrived) else {
        return false;
    };
    reader.at = reader.message.len() - rest.len();
    visit.point(point, Extra::NONE);
    true
}

/// Returns a point of the common form at the start of `rest`, and the rest of the bytes. Returns
/// `None` for any other form.
#[inline(always)]
fn parse_common(rest: &[u8], arrived: u64) -> Option<(Point<'_>, &[u8])> {
    let rest = rest.strip_prefix(b"\x96\xA4emit")?;
    let (kind, rest) = msgpack::short_string(rest)?;
    let (name, before) = msgpack::short_string(rest)?;
    let (value, after) = msgpack::short_string(before)?;
    let (tags, rest) = msgpack::short_string(after)?;
    let (b"", rest) = msgpack::short_string(rest)? else { return None };
    let kind = kind_of(kind).filter(|kind| *kind != Kind::TimedStore && !name.is_empty())?;
    let from_value = &before[before.len() - after.len() - value.len()..];
    let values = Values::Number(number::parse_short(from_value, value.len())?);
    Some((Point { kind, name, tags, values, sample_rate: 1.0, timestamp: None, arrived }, rest))
}

/// Parses the point that begins at `start`. `item` is the header of its array.
#[inline(always)]
fn parse_point<'a>(
    reader: &mut Reader<'a>,
    start: usize,
    item: Item,
    arrived: u64,
    visit: &mut impl Visit<'a>,
) -> Result<(), Truncated> {
    let Item::Array(len) = item else {
        reader.skip(item)?;
        visit.fault(Fault::WrongType, reader.since(start));
        return Ok(());
    };
    if log::is_log(reader, len) {
        return log::parse(reader, start, arrived, visit);
    }
    let mut items = [Item::Nil; ELEMENTS_MAX];
    for at in 0..len as usize {
        let item = reader.item()?;
        reader.skip(item)?;
        if let Some(slot) = items.get_mut(at) {
            *slot = item;
        }
    }
    if let Err(fault) = emit_point(reader.message, &items, len as usize, arrived, visit) {
        visit.fault(fault, reader.since(start));
    }
    Ok(())
}

/// Passes a point with `len` elements to `visit`. `items` contains the first elements.
#[inline(always)]
fn emit_point<'a>(
    message: &'a [u8],
    items: &[Item; ELEMENTS_MAX],
    len: usize,
    arrived: u64,
    visit: &mut impl Visit<'a>,
) -> Result<(), Fault> {
    let [action, kind, name, value, tags, timestamp] = items;
    if len > ELEMENTS_MAX {
        return Err(Fault::TooManyElements);
    }
    match action.text(message)? {
        b"emit" if len >= ELEMENTS_MIN => {}
        b"emit" | b"" => return Err(Fault::TooFewElements),
        b"reset" => {
            visit.note(Note::ResetIgnored, name.text(message)?);
            return Ok(());
        }
        _ => return Err(Fault::UnknownAction),
    }
    let kind = kind_of(kind.text(message)?).ok_or(Fault::UnknownType)?;
    let name = Some(name.text(message)?).filter(|name| !name.is_empty()).ok_or(Fault::NoName)?;
    let values = Values::Number(parse_value(message, value)?);
    let mut timestamp = parse_timestamp(message, timestamp)?;
    if kind == Kind::TimedStore && timestamp.is_none() {
        timestamp = Some((arrived / NS_PER_SECOND) as i64);
        visit.note(Note::NoTimestamp, name);
    }
    let tags = tags.text(message)?;
    visit.point(
        Point { kind, name, tags, values, sample_rate: 1.0, timestamp, arrived },
        Extra::NONE,
    );
    Ok(())
}

#[inline(always)]
fn parse_value(message: &[u8], item: &Item) -> Result<f64, Fault> {
    match *item {
        Item::Text { len: 0, .. } | Item::Nil => Err(Fault::NoValue),
        Item::Text { start, len } => {
            number::parse_start(&message[start..], len).ok_or(Fault::BadValue)
        }
        Item::Int(value) => Ok(value as f64),
        Item::Float(value) => Ok(value),
        Item::Array(_) | Item::Other { .. } => Err(Fault::WrongType),
    }
}

/// Returns the timestamp in Unix seconds, or `None` if it is empty.
#[inline(always)]
fn parse_timestamp(message: &[u8], item: &Item) -> Result<Option<i64>, Fault> {
    let seconds = match *item {
        Item::Text { len: 0, .. } | Item::Nil => return Ok(None),
        Item::Text { .. } => number::parse_int(item.text(message)?),
        Item::Int(seconds) => Some(seconds),
        // The cast saturates outside the range of 64 bits, and converts NaN to 0.
        Item::Float(seconds) => Some(seconds as i64).filter(|seconds| *seconds < i64::MAX),
        Item::Array(_) | Item::Other { .. } => return Err(Fault::WrongType),
    };
    seconds.and_then(number::valid_seconds).map(Some).ok_or(Fault::BadTimestamp)
}

/// Returns the kind for a type.
#[inline(always)]
fn kind_of(text: &[u8]) -> Option<Kind> {
    Some(match text {
        b"counter" => Kind::Counter,
        b"rate_counter" => Kind::RateCounter,
        b"meter" => Kind::Meter,
        b"delta_counter" => Kind::DeltaCounter,
        b"timer" => Kind::Timer,
        b"store" => Kind::Store,
        b"ts_store" => Kind::TimedStore,
        b"histogram" => Kind::Histogram,
        _ => return None,
    })
}
