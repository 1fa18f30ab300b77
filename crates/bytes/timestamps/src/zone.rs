//! Time zones: one distance to UTC, or those of a place one after the other.

use crate::step::{Fields, Step};
use std::sync::Arc;

const MINUTE_SECONDS: i64 = 60;

/// The time zone of texts that do not say their distance to UTC.
///
/// Where the clocks of a place are put back, a local time has two meanings; it is read as the
/// earlier one. Where they are put forward, some local times are left out; such a time is read as
/// if the distance before still held. The distance is the same all through a minute: where it
/// changes within one, as some did before 1973, the later one counts from its beginning.
#[derive(Clone, Debug)]
pub struct Zone(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Fixed(i32),
    Place(Arc<[Span]>),
}

/// A time over which a place has one distance to UTC.
#[derive(Clone, Copy, Debug)]
pub struct Period<'a> {
    /// Where it begins, in seconds since 1970 in UTC. That of the first one does not matter.
    pub begin_seconds: i64,
    /// Local time minus UTC, in seconds.
    pub offset_seconds: i32,
    /// What `%Z` reads as this distance, such as `CEST`.
    pub name: &'a str,
}

/// The local times that are read with one distance.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// The first of them in seconds since 1970, a whole minute.
    begin_seconds: i64,
    offset_seconds: i32,
    name: Option<u64>,
}

impl Zone {
    /// One distance to UTC in seconds, at all times.
    pub fn fixed(offset_seconds: i32) -> Zone {
        Zone(Kind::Fixed(offset_seconds))
    }

    /// A place with these distances, in the order of time; without any, it is UTC.
    pub fn of_periods<'a>(periods: impl IntoIterator<Item = Period<'a>>) -> Zone {
        let mut spans: Vec<Span> = Vec::new();
        for Period { begin_seconds, offset_seconds, name } in periods {
            let begin_seconds = match spans.last() {
                None => i64::MIN,
                // Of two meanings the one before counts, and so it does for a time that is left
                // out.
                Some(before) => {
                    let local =
                        begin_seconds + i64::from(before.offset_seconds.max(offset_seconds));
                    before.begin_seconds.max(local - local.rem_euclid(MINUTE_SECONDS))
                }
            };
            spans.push(Span { begin_seconds, offset_seconds, name: packed(name.as_bytes()) });
        }
        if spans.is_empty() { Zone::fixed(0) } else { Zone(Kind::Place(spans.into())) }
    }

    /// The one distance to UTC in seconds, if it is not a place.
    pub(crate) fn fixed_seconds(&self) -> Option<i32> {
        match self.0 {
            Kind::Fixed(seconds) => Some(seconds),
            Kind::Place(_) => None,
        }
    }

    /// Local time minus UTC in seconds, at this local minute in seconds since 1970.
    pub(crate) fn offset_seconds(&self, minute_seconds: i64) -> i32 {
        match &self.0 {
            Kind::Fixed(seconds) => *seconds,
            Kind::Place(spans) => spans[index(spans, minute_seconds)].offset_seconds,
        }
    }

    /// The same as a text says it by a name; `None` if the place never has that name. Where it has
    /// not at that time, the distance is the one of the nearest span that has: `CEST` is the same
    /// all year.
    pub(crate) fn named_seconds(&self, minute_seconds: i64, name: u64) -> Option<i32> {
        let Kind::Place(spans) = &self.0 else { return None };
        let (past, rest) = spans.split_at(index(spans, minute_seconds));
        // The span behind is the other meaning of a time that has two.
        let (near, future) = rest.split_at(rest.len().min(2));
        let mut spans = near.iter().chain(past.iter().rev()).chain(future);
        spans.find(|span| span.name == Some(name)).map(|span| span.offset_seconds)
    }
}

/// The span with this local time.
fn index(spans: &[Span], seconds: i64) -> usize {
    spans.partition_point(|span| span.begin_seconds <= seconds) - 1
}

/// A name of up to eight bytes as a number; longer ones do not occur.
fn packed(name: &[u8]) -> Option<u64> {
    let mut bytes = [0; 8];
    bytes.get_mut(..name.len())?.copy_from_slice(name);
    (!name.is_empty()).then_some(u64::from_le_bytes(bytes))
}

/// The name of a zone, or its distance where it has no name (`-03`), with which `text` begins: its
/// number and its bytes.
pub(crate) fn name(text: &[u8]) -> Option<(u64, usize)> {
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(**byte, b'+' | b'-');
    let len = text.iter().take_while(is_part).count();
    packed(&text[..len]).map(|name| (name, len))
}

/// The number of the name `UTC` or `GMT`, which every zone takes.
pub(crate) fn is_utc(name: u64) -> bool {
    [b"UTC", b"GMT"].iter().any(|utc| packed(*utc) == Some(name))
}

/// Distance to UTC in seconds as it is written: `UTC`, `+02:00`; `None` if it is something else.
pub fn distance(text: &str) -> Option<i32> {
    if text == "UTC" {
        return Some(0);
    }
    let mut fields = Fields::new(Some(0));
    let end = Step::Offset { optional: false }.read(text.as_bytes(), 0, &mut fields)?;
    let is_whole = end == text.len() && text.len() == "+02:00".len();
    fields.offset_seconds().filter(|_| is_whole)
}
