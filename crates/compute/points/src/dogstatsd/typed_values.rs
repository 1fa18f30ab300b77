//! Lines with a type after each value, which etsy's StatsD accepts: `name:1|c:2|ms|@0.1:3|g`.
//!
//! A rate belongs to the value that precedes it. Tags, origin and timestamp belong to all values.

use super::Options;
use super::line::Line;
use crate::{Fault, Visit};

/// Placeholder for the type of a line until its values are parsed.
const ANY_TYPE: &[u8] = b"c";

/// A value and its type and rate.
struct TypedValue<'a> {
    /// The rest of the line, starting at the value.
    rest: &'a [u8],
    len: usize,
    kind: &'a [u8],
    rate: Option<&'a [u8]>,
}

/// Parses the part of a line after its name. All values are checked before the first one is passed
/// to `visit`.
#[cold]
pub fn parse<'a>(
    name: &'a [u8],
    text: &'a [u8],
    options: Options,
    arrived: u64,
    visit: &mut impl Visit<'a>,
) -> Result<(), Fault> {
    let mut shared = Line::new(name, ANY_TYPE, arrived)?;
    let check = |value: TypedValue<'_>| {
        let line = Line::new(name, value.kind, arrived)?.with_rate(value.rate)?;
        line.check(&value.rest[..value.len])
    };
    for_each(text, |field| shared.set(field), check)?;
    let emit = |value: TypedValue<'a>| {
        let line = shared.with_kind(value.kind)?.with_rate(value.rate)?;
        shared.forget_unknown();
        line.emit(value.rest, value.len, options, visit)
    };
    for_each(text, |_| Ok(()), emit)
}

/// Calls `each` for every value, and `other` for every field that is neither a type nor a rate.
fn for_each<'a>(
    text: &'a [u8],
    mut other: impl FnMut(&'a [u8]) -> Result<(), Fault>,
    mut each: impl FnMut(TypedValue<'a>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut next = Some(text);
    while let Some(rest) = next.take() {
        let (value, fields) = split(rest, b'|');
        let fields = fields.ok_or(Fault::NoType)?;
        let (field, mut fields_left) = split(fields, b'|');
        let (kind, value_behind) = split(field, b':');
        next = value_behind.map(|_| &fields[kind.len() + 1..]);
        let mut rate = None;
        while let (None, Some(fields)) = (next, fields_left) {
            let (field, behind) = split(fields, b'|');
            match field {
                [b'@', field @ ..] => {
                    let (text, value_behind) = split(field, b':');
                    next = value_behind.map(|_| &fields[text.len() + 2..]);
                    rate = Some(text);
                }
                field => other(field)?,
            }
            fields_left = behind;
        }
        each(TypedValue { rest, len: value.len(), kind, rate })?;
    }
    Ok(())
}

/// Splits the text at the first `byte`. The second part is `None` if the text does not contain
/// `byte`.
fn split(text: &[u8], byte: u8) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(byte, text) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}
