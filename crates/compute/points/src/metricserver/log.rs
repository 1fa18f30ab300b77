//! Log events among the points. They are arrays with seven elements,
//! `["log", level, name, message, tags, timestamp, fields]`.
//!
//! The timestamp is empty or in Unix milliseconds. The fields are an array of alternating keys and
//! values, all of which are strings.

use super::msgpack::{Item, Reader, Truncated};
use super::number;
use crate::{Fault, Log, Visit};

/// Number of elements in a log event.
const ELEMENTS: u32 = 7;

/// Maximum number of fields.
const FIELDS_MAX: u32 = 32;

/// Returns whether an array with `len` elements is a log event. The reader must be positioned after
/// the array's header.
#[inline(always)]
pub fn is_log(reader: &Reader<'_>, len: u32) -> bool {
    len == ELEMENTS && has_action(reader)
}

/// Returns whether the next item is the string `log`, in any encoding.
#[cold]
fn has_action(reader: &Reader<'_>) -> bool {
    let mut reader = Reader { message: reader.message, at: reader.at };
    reader.item().is_ok_and(|item| item.text(reader.message) == Ok(b"log"))
}

/// Parses the log event whose header began at `start`.
#[cold]
pub fn parse<'a>(
    reader: &mut Reader<'a>,
    start: usize,
    arrived: u64,
    visit: &mut impl Visit<'a>,
) -> Result<(), Truncated> {
    let mut items = [Item::Nil; ELEMENTS as usize - 1];
    for slot in &mut items {
        *slot = reader.item()?;
        reader.skip(*slot)?;
    }
    let fields = reader.item()?;
    let fields_at = reader.at;
    reader.skip(fields)?;
    let message = &reader.message[..reader.at];
    match read(message, &items, fields, fields_at, arrived) {
        Ok(log) => visit.log(&log),
        Err(fault) => visit.fault(fault, reader.since(start)),
    }
    Ok(())
}

fn read<'a>(
    message: &'a [u8],
    items: &[Item; ELEMENTS as usize - 1],
    fields: Item,
    fields_at: usize,
    arrived: u64,
) -> Result<Log<'a>, Fault> {
    let [_, level, name, text, tags, timestamp] = items;
    let utf8 = |item: &Item| {
        let text = item.text(message)?;
        std::str::from_utf8(text).map_err(|_| Fault::Utf8)
    };
    let name = Some(utf8(name)?).filter(|name| !name.is_empty()).ok_or(Fault::NoName)?;
    let unix_ms = match *timestamp {
        Item::Nil | Item::Text { len: 0, .. } => None,
        Item::Int(ms) => Some(ms),
        _ => Some(number::parse_int(timestamp.text(message)?).ok_or(Fault::BadTimestamp)?),
    };
    if unix_ms.is_some_and(|ms| ms < 0) {
        return Err(Fault::BadTimestamp);
    }
    let (level, message_text, tags) = (utf8(level)?, utf8(text)?, utf8(tags)?);
    let fields = read_fields(message, fields, fields_at)?;
    Ok(Log { level, name, message: message_text, tags, unix_ms, fields, arrived })
}

fn read_fields(message: &[u8], fields: Item, fields_at: usize) -> Result<Vec<(&str, &str)>, Fault> {
    let count = match fields {
        Item::Nil => 0,
        Item::Array(count) if count > 2 * FIELDS_MAX => return Err(Fault::TooManyElements),
        Item::Array(count) if count % 2 == 0 => count,
        _ => return Err(Fault::WrongType),
    };
    let mut reader = Reader { message, at: fields_at };
    let mut text = || {
        let item = reader.item().map_err(|_| Fault::Truncated)?;
        reader.skip(item).map_err(|_| Fault::Truncated)?;
        std::str::from_utf8(item.text(message)?).map_err(|_| Fault::Utf8)
    };
    let pair = |_| Ok((text()?, text()?));
    (0..count / 2).map(pair).filter(|pair| !matches!(pair, Ok(("", _)))).collect()
}
