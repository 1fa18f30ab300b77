//! The metric server's protocol: points as msgpack.
//!
//! A point is an array of texts, `[action, type, name, value, tags, timestamp]`; the last two may
//! be missing. The action is `emit`. Tags are `key=value|key2=value2`, the timestamp is empty or
//! Unix seconds. A message has points, or arrays of points, one after the other. Texts may be
//! strings or binary; value and timestamp may be numbers, and nil is an empty text.
//!
//! Lines of plain text are told as such. `reset` is told and does nothing: a sum that goes on is
//! what consumers of it expect, and one that begins anew at a restart of the client would look like
//! a restart of the agent.

mod msgpack;

use crate::{Extra, Fault, Note, Visit, number};
use millstream_series::{Kind, Point, Values};
use msgpack::{Item, Reader, Truncated};

/// Most elements of a point.
const ELEMENTS_MAX: usize = 6;

/// Least elements of a point: those up to its value.
const ELEMENTS_MIN: usize = 4;

const NS_PER_SECOND: u64 = 1_000_000_000;

/// Tells what a message has. `arrived`, in nanoseconds since 1970, is given on with every point.
pub fn parse<'a>(message: &'a [u8], arrived: u64, visit: &mut impl Visit<'a>) {
    let mut reader = Reader::new(message);
    while let Some(first) = reader.peek() {
        let start = reader.at;
        let told = match first {
            b' '..=b'~' | b'\t' | b'\r' | b'\n' => {
                plain_text(&mut reader, visit);
                Ok(())
            }
            _ if msgpack::is_array(first) => array(&mut reader, arrived, visit),
            _ => return visit.fault(Fault::NotArray, &message[start..]),
        };
        if told.is_err() {
            return visit.fault(Fault::Truncated, &message[start..]);
        }
    }
}

/// Tells a line of plain text, if there is something in it.
#[cold]
fn plain_text<'a>(reader: &mut Reader<'a>, visit: &mut impl Visit<'a>) {
    let line = reader.line().trim_ascii();
    if !line.is_empty() {
        visit.note(Note::PlainText, line);
    }
}

/// Tells a point, or an array of points.
fn array<'a>(
    reader: &mut Reader<'a>,
    arrived: u64,
    visit: &mut impl Visit<'a>,
) -> Result<(), Truncated> {
    if tell_usual(reader, arrived, visit) {
        return Ok(());
    }
    let start = reader.at;
    let len = match reader.item()? {
        Item::Array(len) if len > 0 && reader.peek().is_some_and(msgpack::is_array) => len,
        item => return point(reader, start, item, arrived, visit),
    };
    for _ in 0..len {
        if !tell_usual(reader, arrived, visit) {
            let start = reader.at;
            let item = reader.item()?;
            point(reader, start, item, arrived, visit)?;
        }
    }
    Ok(())
}

/// Tells the next point if it is as most are: six texts, of which the value is a number of usual
/// length and the timestamp empty. Else nothing is read, and it is false.
#[inline(always)]
fn tell_usual<'a>(reader: &mut Reader<'a>, arrived: u64, visit: &mut impl Visit<'a>) -> bool {
    let Some((point, rest)) = usual(&reader.message[reader.at..], arrived) else { return false };
    reader.at = reader.message.len() - rest.len();
    visit.point(point, Extra::NONE);
    true
}

/// Such a point at the beginning of `rest`, and what follows it.
#[inline(always)]
fn usual(rest: &[u8], arrived: u64) -> Option<(Point<'_>, &[u8])> {
    let rest = rest.strip_prefix(b"\x96\xA4emit")?;
    let (kind, rest) = msgpack::short_text(rest)?;
    let (name, before) = msgpack::short_text(rest)?;
    let (value, behind) = msgpack::short_text(before)?;
    let (tags, rest) = msgpack::short_text(behind)?;
    let (b"", rest) = msgpack::short_text(rest)? else { return None };
    let kind = kind_of(kind).filter(|kind| *kind != Kind::TimedStore && !name.is_empty())?;
    let from_value = &before[before.len() - behind.len() - value.len()..];
    let values = Values::Number(number::unsigned(from_value, value.len())?);
    Some((Point { kind, name, tags, values, sample_rate: 1.0, timestamp: None, arrived }, rest))
}

/// Tells the point that begins at `start` with `item`, the head of its array.
#[inline(always)]
fn point<'a>(
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
    let mut items = [Item::Nil; ELEMENTS_MAX];
    for at in 0..len as usize {
        let item = reader.item()?;
        reader.skip(item)?;
        if let Some(place) = items.get_mut(at) {
            *place = item;
        }
    }
    if let Err(fault) = elements(reader.message, &items, len as usize, arrived, visit) {
        visit.fault(fault, reader.since(start));
    }
    Ok(())
}

/// Tells a point of `len` elements, of which the first are in `items`.
#[inline(always)]
fn elements<'a>(
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
    let values = Values::Number(value_of(message, value)?);
    let mut timestamp = timestamp_of(message, timestamp)?;
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
fn value_of(message: &[u8], item: &Item) -> Result<f64, Fault> {
    match *item {
        Item::Text { len: 0, .. } | Item::Nil => Err(Fault::NoValue),
        Item::Text { start, len } => {
            number::parse_start(&message[start..], len).ok_or(Fault::BadValue)
        }
        Item::Whole(value) => Ok(value as f64),
        Item::Float(value) => Ok(value),
        Item::Array(_) | Item::Other { .. } => Err(Fault::WrongType),
    }
}

/// The timestamp in Unix seconds; an empty one is none.
#[inline(always)]
fn timestamp_of(message: &[u8], item: &Item) -> Result<Option<i64>, Fault> {
    let seconds = match *item {
        Item::Text { len: 0, .. } | Item::Nil => return Ok(None),
        Item::Text { .. } => number::parse_whole(item.text(message)?),
        Item::Whole(seconds) => Some(seconds),
        // What no 64 bits hold becomes the largest or smallest number that they do, NaN becomes 0.
        Item::Float(seconds) => Some(seconds as i64).filter(|seconds| *seconds < i64::MAX),
        Item::Array(_) | Item::Other { .. } => return Err(Fault::WrongType),
    };
    seconds.and_then(number::as_time).map(Some).ok_or(Fault::BadTimestamp)
}

/// The kind of a type.
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
