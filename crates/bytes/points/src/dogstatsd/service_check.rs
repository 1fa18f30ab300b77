//! Service checks.

use super::shared::{Shared, Text, take_all, take_extra};
use crate::{Extra, Fault, ServiceCheck, Visit};

pub const PREFIX: &[u8] = b"_sc|";

/// What a message begins with.
const MESSAGE: &str = "|m:";

/// Tells the service check that `rest` begins with, and gives the length of its line.
pub fn parse<'a>(rest: &'a [u8], arrived: u64, visit: &mut impl Visit<'a>) -> Result<usize, Fault> {
    let Text { text: line, len } = Text::of(rest, PREFIX.len());
    let line = std::str::from_utf8(&line[PREFIX.len()..]).map_err(|_| Fault::Utf8)?;
    let (name, line) = line.split_once('|').ok_or(Fault::BadServiceCheck)?;
    let (status, fields) = line.split_at(line.find('|').unwrap_or(line.len()));
    let status = match status.as_bytes() {
        [digit @ b'0'..=b'3'] if !name.is_empty() => digit - b'0',
        _ => return Err(Fault::BadServiceCheck),
    };
    let mut shared = Shared::default();
    let (fields, message, extra) = fields.find(MESSAGE).map_or((fields, None, ""), |at| {
        let (message, extra) = split_extra(&fields[at + MESSAGE.len()..]);
        (&fields[..at], Some(message), extra)
    });
    for fields in [fields, extra] {
        take_all(fields, visit, |field| shared.take(field));
    }
    let Shared { timestamp, host, tags, extra } = shared;
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

/// A message, and the fields behind it: it may have bars, and clients put where they run behind it.
fn split_extra(text: &str) -> (&str, &str) {
    let mut end = text.len();
    while let Some(bar) = text[..end].rfind('|')
        && take_extra(&mut Extra::default(), &text.as_bytes()[bar + 1..end])
    {
        end = bar;
    }
    text.split_at(end)
}
