//! Code shared by events and service checks.

use crate::{Extra, Note, Visit, number};
use std::borrow::Cow;

/// The result of parsing a field.
pub enum FieldStatus {
    Valid,
    /// The field exists, but its value is not allowed.
    Invalid,
    Unknown,
}

impl FieldStatus {
    pub fn valid_if(is_valid: bool) -> FieldStatus {
        if is_valid { FieldStatus::Valid } else { FieldStatus::Invalid }
    }
}

/// Fields that events and service checks share.
#[derive(Default)]
pub struct CommonFields<'a> {
    pub timestamp: Option<i64>,
    pub host: Option<&'a str>,
    pub tags: &'a str,
    pub extra: Extra<'a>,
}

impl<'a> CommonFields<'a> {
    /// Parses a field if it is one that events and service checks share.
    pub fn set(&mut self, field: &'a str) -> FieldStatus {
        if let Some(tags) = field.strip_prefix('#') {
            self.tags = tags;
        } else if let Some(seconds) = field.strip_prefix("d:") {
            self.timestamp = number::parse_int(seconds.as_bytes()).and_then(number::valid_seconds);
            return FieldStatus::valid_if(self.timestamp.is_some());
        } else if let Some(host) = field.strip_prefix("h:") {
            self.host = Some(host);
        } else if !set_origin_field(&mut self.extra, field.as_bytes()) {
            return FieldStatus::Unknown;
        }
        FieldStatus::Valid
    }
}

/// Parses `fields`, each of which starts with a bar, and reports notes about invalid and unknown
/// fields.
pub fn set_fields<'a>(
    fields: &'a str,
    visit: &mut impl Visit<'a>,
    mut set: impl FnMut(&'a str) -> FieldStatus,
) {
    let mut has_unknown = false;
    for field in fields.split('|').skip(1) {
        match set(field) {
            FieldStatus::Valid => {}
            FieldStatus::Invalid => visit.note(Note::BadField, field.as_bytes()),
            FieldStatus::Unknown if has_unknown => {}
            FieldStatus::Unknown => {
                has_unknown = true;
                visit.note(Note::UnknownField, field.as_bytes());
            }
        }
    }
}

/// Parses an origin detection field. Returns false for any other field.
#[inline(always)]
pub fn set_origin_field<'a>(extra: &mut Extra<'a>, field: &'a [u8]) -> bool {
    match field {
        [b'c', b':', container @ ..] => extra.container = container,
        [b'e', b':', external @ ..] => extra.external = external,
        [b'c', b'a', b'r', b'd', b':', cardinality @ ..] => extra.cardinality = cardinality,
        _ => return false,
    }
    true
}

/// The line of an event or a service check.
pub struct EventLine<'a> {
    /// The line, excluding its line ending.
    pub text: &'a [u8],
    /// Length of the line, excluding its `\n`.
    pub len: usize,
}

impl<'a> EventLine<'a> {
    /// Returns the line at the start of `rest`. Newlines before byte `inner` are part of the line.
    pub fn of(rest: &'a [u8], inner: usize) -> EventLine<'a> {
        let end = rest[inner..].iter().position(|byte| *byte == b'\n');
        let len = end.map_or(rest.len(), |at| inner + at);
        let has_return = rest[inner..len].ends_with(b"\r");
        EventLine { text: &rest[..len - usize::from(has_return)], len }
    }
}

/// Undoes the escaping that clients apply to a title, text or message: the two characters `\n`
/// become a newline, and `m\:` becomes `m:`.
pub fn unescaped(text: &str) -> Cow<'_, str> {
    if text.contains('\\') {
        text.replace("\\n", "\n").replace("m\\:", "m:").into()
    } else {
        text.into()
    }
}
