//! Service check parsing.

use super::shared::{CommonFields, EventLine, set_fields, set_origin_field};
use crate::{Extra, Fault, ServiceCheck, Visit};

pub const PREFIX: &[u8] = b"_sc|";

/// Prefix of a service check's message.
const MESSAGE: &str = "|m:";

/// Parses the service check at the start of `rest` and returns the length of its line.
pub fn parse<'a>(rest: &'a [u8], arrived: u64, visit: &mut impl Visit<'a>) -> Result<usize, Fault> {
    let EventLine { text: line, len } = EventLine::of(rest, PREFIX.len());
    let line = std::str::from_utf8(&line[PREFIX.len()..]).map_err(|_| Fault::Utf8)?;
    let (name, line) = line.split_once('|').ok_or(Fault::BadServiceCheck)?;
    let (status, fields) = line.split_at(line.find('|').unwrap_or(line.len()));
    let status = match status.as_bytes() {
        [digit @ b'0'..=b'3'] if !name.is_empty() => digit - b'0',
        _ => return Err(Fault::BadServiceCheck),
    };
    let mut shared = CommonFields::default();
    let (fields, message, extra) = fields.find(MESSAGE).map_or((fields, None, ""), |at| {
        let (message, extra) = split_extra(&fields[at + MESSAGE.len()..]);
        (&fields[..at], Some(message), extra)
    });
    for fields in [fields, extra] {
        set_fields(fields, visit, |field| shared.set(field));
    }
    let CommonFields { timestamp, host, tags, extra } = shared;
    visit.service_check(&ServiceCheck {
        name,
        status,
        timestamp,
        host,
        message,
        tags,
        extra,
        arrived,
    });
    Ok(len)
}

/// Splits a message from the origin detection fields that follow it. A message can contain bars,
/// and clients append these fields to it.
fn split_extra(text: &str) -> (&str, &str) {
    let mut end = text.len();
    while let Some(bar) = text[..end].rfind('|')
        && set_origin_field(&mut Extra::default(), &text.as_bytes()[bar + 1..end])
    {
        end = bar;
    }
    text.split_at(end)
}
