//! What events and service checks have in common.

use crate::{Extra, Note, Visit, number};
use std::borrow::Cow;

/// What a field was found to be.
pub enum Taken {
    Good,
    /// With a value that is not allowed.
    Bad,
    Unknown,
}

impl Taken {
    pub fn good_if(is_good: bool) -> Taken {
        if is_good { Taken::Good } else { Taken::Bad }
    }
}

/// Fields that both have.
#[derive(Default)]
pub struct Shared<'a> {
    pub timestamp: Option<i64>,
    pub host: Option<&'a str>,
    pub tags: &'a str,
    pub extra: Extra<'a>,
}

impl<'a> Shared<'a> {
    /// Takes a field that is one of both.
    pub fn take(&mut self, field: &'a str) -> Taken {
        if let Some(tags) = field.strip_prefix('#') {
            self.tags = tags;
        } else if let Some(seconds) = field.strip_prefix("d:") {
            self.timestamp = number::parse_whole(seconds.as_bytes()).and_then(number::as_time);
            return Taken::good_if(self.timestamp.is_some());
        } else if let Some(host) = field.strip_prefix("h:") {
            self.host = Some(host);
        } else if !take_extra(&mut self.extra, field.as_bytes()) {
            return Taken::Unknown;
        }
        Taken::Good
    }
}

/// Takes every one of `fields`, which begin with a bar each, and tells what is wrong with them.
pub fn take_all<'a>(
    fields: &'a str,
    visit: &mut impl Visit<'a>,
    mut take: impl FnMut(&'a str) -> Taken,
) {
    let mut has_unknown = false;
    for field in fields.split('|').skip(1) {
        match take(field) {
            Taken::Good => {}
            Taken::Bad => visit.note(Note::BadField, field.as_bytes()),
            Taken::Unknown if has_unknown => {}
            Taken::Unknown => {
                has_unknown = true;
                visit.note(Note::UnknownField, field.as_bytes());
            }
        }
    }
}

/// Takes a field that says where the client runs; whether it is one.
#[inline(always)]
pub fn take_extra<'a>(extra: &mut Extra<'a>, field: &'a [u8]) -> bool {
    match field {
        [b'c', b':', container @ ..] => extra.container = container,
        [b'e', b':', external @ ..] => extra.external = external,
        [b'c', b'a', b'r', b'd', b':', cardinality @ ..] => extra.cardinality = cardinality,
        _ => return false,
    }
    true
}

/// The line of an event or a service check.
pub struct Text<'a> {
    /// Without its end.
    pub text: &'a [u8],
    /// All bytes of the line but its `\n`.
    pub len: usize,
}

impl<'a> Text<'a> {
    /// The line that `rest` begins with. Line ends before byte `inner` are part of it.
    pub fn of(rest: &'a [u8], inner: usize) -> Text<'a> {
        let end = rest[inner..].iter().position(|byte| *byte == b'\n');
        let len = end.map_or(rest.len(), |at| inner + at);
        let has_return = rest[inner..len].ends_with(b"\r");
        Text { text: &rest[..len - usize::from(has_return)], len }
    }
}

/// A title, text or message as it was meant: the two characters `\n` are a line end, `m\:` is `m:`.
pub fn unescaped(text: &str) -> Cow<'_, str> {
    if text.contains('\\') {
        text.replace("\\n", "\n").replace("m\\:", "m:").into()
    } else {
        text.into()
    }
}
