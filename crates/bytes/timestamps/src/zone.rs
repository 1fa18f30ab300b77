//! Time zones: a fixed UTC offset, or a place whose UTC offset changes over time.

use std::sync::Arc;

const MINUTE_SECONDS: i64 = 60;

/// The time zone of times without a UTC offset.
///
/// When a place sets its clocks back, a local time can be ambiguous and is treated as the earlier
/// time. When a place sets its clocks forward, some local times are skipped; such a time uses the
/// offset before the change. The offset is constant within a minute. If the offset changes within a
/// minute, as it did in some places before 1973, the later offset applies from the start of the
/// minute.
#[derive(Clone, Debug)]
pub struct Zone(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Fixed(i32),
    Place(Arc<[Span]>),
}

/// A period in which a place uses the same UTC offset.
#[derive(Clone, Copy, Debug)]
pub struct Period<'a> {
    /// Start in seconds since 1970 in UTC. The start of the first period is ignored.
    pub begin_seconds: i64,
    /// Local time minus UTC, in seconds.
    pub offset_seconds: i32,
    /// The abbreviation that `%Z` accepts for this period, such as `CEST`.
    pub name: &'a str,
}

/// A range of local times that have the same offset.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// Start in local seconds since 1970, at a whole minute.
    begin_seconds: i64,
    offset_seconds: i32,
    name: Option<u64>,
}

impl Zone {
    /// Creates a zone with a fixed UTC offset in seconds.
    pub fn fixed(offset_seconds: i32) -> Zone {
        Zone(Kind::Fixed(offset_seconds))
    }

    /// Creates a zone from periods in chronological order. If there are no periods, the zone is
    /// UTC.
    pub fn from_periods<'a>(periods: impl IntoIterator<Item = Period<'a>>) -> Zone {
        let mut spans: Vec<Span> = Vec::new();
        for Period { begin_seconds, offset_seconds, name } in periods {
            let begin_seconds = match spans.last() {
                None => i64::MIN,
                // The previous period applies to both ambiguous and skipped local times.
                Some(before) => {
                    let local =
                        begin_seconds + i64::from(before.offset_seconds.max(offset_seconds));
                    before.begin_seconds.max(local - local.rem_euclid(MINUTE_SECONDS))
                }
            };
            spans.push(Span { begin_seconds, offset_seconds, name: pack(name.as_bytes()) });
        }
        if spans.is_empty() { Zone::fixed(0) } else { Zone(Kind::Place(spans.into())) }
    }

    /// Returns the UTC offset in seconds if it is fixed.
    pub(crate) fn fixed_seconds(&self) -> Option<i32> {
        match self.0 {
            Kind::Fixed(seconds) => Some(seconds),
            Kind::Place(_) => None,
        }
    }

    /// Returns local time minus UTC in seconds, for a local minute given in seconds since 1970.
    pub(crate) fn offset_seconds(&self, minute_seconds: i64) -> i32 {
        match &self.0 {
            Kind::Fixed(seconds) => *seconds,
            Kind::Place(spans) => spans[index(spans, minute_seconds)].offset_seconds,
        }
    }

    /// Returns the offset for an abbreviation, or `None` if the place never uses the abbreviation.
    /// If the abbreviation does not apply at that time, the nearest span in which it applies is
    /// used, because `CEST` means the same all year.
    pub(crate) fn named_seconds(&self, minute_seconds: i64, name: u64) -> Option<i32> {
        let Kind::Place(spans) = &self.0 else { return None };
        let (past, rest) = spans.split_at(index(spans, minute_seconds));
        // If a time is ambiguous, the next span is its other meaning.
        let (near, future) = rest.split_at(rest.len().min(2));
        let mut spans = near.iter().chain(past.iter().rev()).chain(future);
        spans.find(|span| span.name == Some(name)).map(|span| span.offset_seconds)
    }
}

/// Returns the index of the span that contains a local time.
fn index(spans: &[Span], seconds: i64) -> usize {
    spans.partition_point(|span| span.begin_seconds <= seconds) - 1
}

/// Packs a name of up to eight bytes into an integer. Returns `None` for an empty or longer name,
/// which no zone has.
fn pack(name: &[u8]) -> Option<u64> {
    let mut bytes = [0; 8];
    bytes.get_mut(..name.len())?.copy_from_slice(name);
    (!name.is_empty()).then_some(u64::from_le_bytes(bytes))
}

/// Returns the packed zone name at the start of `text`, and the length of the name. Zones that have
/// no name use a number, such as `-03`.
pub(crate) fn parse_name(text: &[u8]) -> Option<(u64, usize)> {
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(**byte, b'+' | b'-');
    let len = text.iter().take_while(is_part).count();
    pack(&text[..len]).map(|name| (name, len))
}

/// Returns whether the name is `UTC` or `GMT`, which are accepted in every zone.
pub(crate) fn is_utc(name: u64) -> bool {
    [b"UTC", b"GMT"].iter().any(|utc| pack(*utc) == Some(name))
}
