//! Event parsing.

use super::shared::{CommonFields, EventLine, FieldStatus, set_fields};
use crate::{Event, Extra, Fault, Visit, number};

pub const PREFIX: &[u8] = b"_e{";

const PRIORITIES: [&str; 2] = ["normal", "low"];
const ALERTS: [&str; 4] = ["error", "warning", "info", "success"];

/// Parses the event at the start of `rest` and returns the length of its line.
///
/// The frame is checked first, which reads only a few bytes. If the frame is invalid, only the
/// first line is skipped, and the rest of the text is parsed as lines. If the frame is valid, every
/// byte is read only once.
pub fn parse<'a>(rest: &'a [u8], arrived: u64, visit: &mut impl Visit<'a>) -> Result<usize, Fault> {
    let (start, title_len, end) = frame(rest).ok_or(Fault::BadEvent)?;
    let EventLine { text: line, len } = EventLine::of(rest, end);
    let Ok(text) = std::str::from_utf8(&line[start..]) else {
        visit.fault(Fault::Utf8, line);
        return Ok(len);
    };
    // `frame` has checked that there is a bar at both positions, so they are character boundaries.
    let (title, rest_of_event) = text.split_at(title_len);
    let (text, fields) = rest_of_event[1..].split_at(end - start - title_len - 1);
    let event = with_fields(title, text, fields, arrived, visit);
    visit.event(&event);
    Ok(len)
}

/// Returns the start of the title, the length of the title, and the end of the text. Returns `None`
/// if the delimiters do not match the lengths.
fn frame(rest: &[u8]) -> Option<(usize, usize, usize)> {
    let (start, title_len, text_len) = lengths(rest)?;
    let bar = start.checked_add(title_len)?;
    let end = bar.checked_add(1)?.checked_add(text_len)?;
    let is_ended =
        matches!(rest.get(end..)?, [] | [b'|' | b'\n', ..] | [b'\r'] | [b'\r', b'\n', ..]);
    (title_len > 0 && rest.get(bar) == Some(&b'|') && is_ended).then_some((start, title_len, end))
}

/// Returns the start of the title, and the lengths of the title and the text. Returns `None` if the
/// lengths are invalid.
fn lengths(rest: &[u8]) -> Option<(usize, usize, usize)> {
    let end = rest.iter().take(LENGTHS_BYTES_MAX).position(|byte| *byte == b'}')?;
    let lengths = rest.get(PREFIX.len()..end)?;
    let comma = lengths.iter().position(|byte| *byte == b',')?;
    let [title, text] = [&lengths[..comma], &lengths[comma + 1..]].map(number::parse_int);
    let is_followed = rest.get(end + 1) == Some(&b':');
    is_followed.then_some((end + 2, title?.try_into().ok()?, text?.try_into().ok()?))
}

/// Maximum bytes up to the closing brace of the lengths: two numbers with twenty digits each, and
/// the delimiters.
const LENGTHS_BYTES_MAX: usize = 48;

fn with_fields<'a>(
    title: &'a str,
    text: &'a str,
    fields: &'a str,
    arrived: u64,
    visit: &mut impl Visit<'a>,
) -> Event<'a> {
    let mut shared = CommonFields::default();
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
    set_fields(fields, visit, |field| match set_event_field(&mut event, field) {
        FieldStatus::Unknown => shared.set(field),
        taken => taken,
    });
    let CommonFields { timestamp, host, tags, extra } = shared;
    Event { timestamp, host, tags, extra, ..event }
}

/// Parses a field that exists only for events.
fn set_event_field<'a>(event: &mut Event<'a>, field: &'a str) -> FieldStatus {
    let Some((key, value)) = field.split_once(':') else { return FieldStatus::Unknown };
    match key {
        "k" => event.aggregation_key = Some(value),
        "s" => event.source = Some(value),
        "p" => {
            event.priority = Some(value).filter(|value| PRIORITIES.contains(value));
            return FieldStatus::valid_if(event.priority.is_some());
        }
        "t" => {
            event.alert = Some(value).filter(|value| ALERTS.contains(value));
            return FieldStatus::valid_if(event.alert.is_some());
        }
        _ => return FieldStatus::Unknown,
    }
    FieldStatus::Valid
}
