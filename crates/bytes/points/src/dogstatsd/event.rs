//! Events.

use super::shared::{Shared, Taken, Text, take_all};
use crate::{Event, Extra, Fault, Visit, number};

pub const PREFIX: &[u8] = b"_e{";

const PRIORITIES: [&str; 2] = ["normal", "low"];
const ALERTS: [&str; 4] = ["error", "warning", "info", "success"];

/// Tells the event that `rest` begins with, and gives the length of its line.
///
/// The frame is checked first, by a few bytes: if it is wrong, only the line is skipped, and all
/// else that the lengths cover is read again. What is behind a right frame is read once.
pub fn parse<'a>(rest: &'a [u8], arrived: u64, visit: &mut impl Visit<'a>) -> Result<usize, Fault> {
    let (start, title_len, end) = frame(rest).ok_or(Fault::BadEvent)?;
    let Text { text: line, len } = Text::of(rest, end);
    let Ok(text) = std::str::from_utf8(&line[start..]) else {
        visit.fault(Fault::Utf8, line);
        return Ok(len);
    };
    // The frame has bars, which are no part of another character, at both places.
    let (title, behind) = text.split_at(title_len);
    let (text, fields) = behind[1..].split_at(end - start - title_len - 1);
    let event = with_fields(title, text, fields, arrived, visit);
    visit.event(&event);
    Ok(len)
}

/// Where the title begins, its length, and where the text ends; `None` if what should stand around
/// them does not.
fn frame(rest: &[u8]) -> Option<(usize, usize, usize)> {
    let (start, title_len, text_len) = lengths(rest)?;
    let bar = start.checked_add(title_len)?;
    let end = bar.checked_add(1)?.checked_add(text_len)?;
    let is_ended =
        matches!(rest.get(end..)?, [] | [b'|' | b'\n', ..] | [b'\r'] | [b'\r', b'\n', ..]);
    (title_len > 0 && rest.get(bar) == Some(&b'|') && is_ended).then_some((start, title_len, end))
}

/// Where the title begins, and the lengths of title and text.
fn lengths(rest: &[u8]) -> Option<(usize, usize, usize)> {
    let end = rest.iter().take(LENGTHS_BYTES_MAX).position(|byte| *byte == b'}')?;
    let lengths = rest.get(PREFIX.len()..end)?;
    let comma = lengths.iter().position(|byte| *byte == b',')?;
    let [title, text] = [&lengths[..comma], &lengths[comma + 1..]].map(number::parse_whole);
    let is_followed = rest.get(end + 1) == Some(&b':');
    is_followed.then_some((end + 2, title?.try_into().ok()?, text?.try_into().ok()?))
}

/// Most bytes up to the brace behind the lengths: two numbers of twenty digits with what stands
/// around them.
const LENGTHS_BYTES_MAX: usize = 48;

fn with_fields<'a>(
    title: &'a str,
    text: &'a str,
    fields: &'a str,
    arrived: u64,
    visit: &mut impl Visit<'a>,
) -> Event<'a> {
    let mut shared = Shared::default();
    let mut event = Event {
        title,
        text,
        timestamp: None,
        host: None,
        aggregation_key: None,
        priority: None,
        source: None,
        alert: None,
        tags: "",
        extra: *Extra::NONE,
        arrived,
    };
    take_all(fields, visit, |field| match take_own(&mut event, field) {
        Taken::Unknown => shared.take(field),
        taken => taken,
    });
    let Shared { timestamp, host, tags, extra } = shared;
    Event { timestamp, host, tags, extra, ..event }
}

/// Takes a field that only events have.
fn take_own<'a>(event: &mut Event<'a>, field: &'a str) -> Taken {
    let Some((key, value)) = field.split_once(':') else { return Taken::Unknown };
    match key {
        "k" => event.aggregation_key = Some(value),
        "s" => event.source = Some(value),
        "p" => {
            event.priority = Some(value).filter(|value| PRIORITIES.contains(value));
            return Taken::good_if(event.priority.is_some());
        }
        "t" => {
            event.alert = Some(value).filter(|value| ALERTS.contains(value));
            return Taken::good_if(event.alert.is_some());
        }
        _ => return Taken::Unknown,
    }
    Taken::Good
}
