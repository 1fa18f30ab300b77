//! DogStatsD up to protocol version 1.6, and plain StatsD.
//!
//! A message consists of lines, and a line consists of fields separated by bars:
//! `name:value|type|@rate|#tags|Ttimestamp|c:container|e:external|card:cardinality`. The fields
//! after the type may be in any order. If a field is repeated, the last one counts. Empty lines are
//! skipped. A line ends with `\n` or `\r\n`. Several values are separated by colons:
//! `name:1:2:3|ms`. Empty values are skipped. Each value may have a separate type and rate, as in
//! `name:1|c:2|ms|@0.1`. If one value is invalid, all values of the line are rejected.
//!
//! Events are `_e{title length,text length}:title|text|…`, with lengths in bytes. The lengths
//! delimit the text, so the text may contain bars and newlines. If the lengths do not match, only
//! the first line is rejected. If they match and the event is not UTF-8, the whole event is
//! rejected. Service checks are `_sc|name|status|…`. The message of a service check, `m:`, extends
//! to the end of the line, except for trailing origin detection fields.

mod event;
mod fields;
mod line;
pub mod scalar;
mod service_check;
mod shared;
mod typed_values;

use crate::{Extra, Fault, Visit, number};
use fields::Fields;
use line::Line;
use millstream_scan::{StatsdLine, StatsdLines, statsd_lines};
use millstream_series::{Kind, Point, Values};

pub use shared::unescaped;

/// Options for the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether a gauge value with a sign changes the current value, as in plain StatsD. Otherwise,
    /// it sets the value, as in DogStatsD.
    pub gauge_deltas: bool,
}

/// Parses a message and passes its contents to `visit`. `arrived` is copied into every point (see
/// [`millstream_series::Point`]).
///
/// # Panics
/// Panics if the message is longer than `u32::MAX` - 1 bytes.
#[inline]
pub fn parse<'a>(message: &'a [u8], options: Options, arrived: u64, visit: &mut impl Visit<'a>) {
    statsd_lines(message, &mut Lines { message, options, arrived, visit, start: 0, consumed: 0 });
}

/// Receives the lines of a message and parses each of them.
struct Lines<'v, 'a, V> {
    message: &'a [u8],
    options: Options,
    arrived: u64,
    visit: &'v mut V,
    /// Start of the next line.
    start: usize,
    /// End of the part that is already parsed, because an event can span several lines.
    consumed: usize,
}

impl<'a, V: Visit<'a>> StatsdLines for Lines<'_, 'a, V> {
    #[inline(always)]
    fn line(&mut self, line: StatsdLine) {
        let fields = Fields::new(self.message, self.start, &line);
        self.start = line.end as usize + 1;
        match parse_common(&fields, self.arrived) {
            Some(point) if fields.start >= self.consumed => self.visit.point(point, Extra::NONE),
            _ if fields.start < self.consumed || fields.is_empty() => {}
            _ => self.consumed = parse_general(&fields, self.options, self.arrived, self.visit),
        }
    }
}

/// Returns the point in a line of the most common form: one value with at most eight digits, a
/// type, optional tags, and nothing else. Returns `None` for any other line.
#[inline(always)]
fn parse_common<'a>(fields: &Fields<'a>, arrived: u64) -> Option<Point<'a>> {
    let (name, value_bytes) = (fields.name(), fields.value_bytes()?);
    let kind = line::kind_of(fields.kind()?).filter(|kind| *kind != Kind::Set)?;
    let tags = fields.only_tags()?;
    if name.first().is_none_or(|first| *first == b'_') {
        return None;
    }
    let values = Values::Number(number::parse_short(fields.value_onward(), value_bytes)?);
    Some(Point { kind, name, tags, values, sample_rate: 1.0, timestamp: None, arrived })
}

/// Parses any line. Returns the end of the part that was parsed, because an event can span several
/// lines.
#[inline(never)]
fn parse_general<'a>(
    fields: &Fields<'a>,
    options: Options,
    arrived: u64,
    visit: &mut impl Visit<'a>,
) -> usize {
    let rest = &fields.message[fields.start..];
    let consumed = match rest[0] {
        b'_' => parse_event_or_check(rest, arrived, visit).transpose(),
        _ => None,
    };
    match consumed.unwrap_or_else(|| parse_metric(fields, options, arrived, visit).map(|()| 0)) {
        Ok(len) => fields.start + len,
        Err(fault) => {
            visit.fault(fault, fields.text());
            0
        }
    }
}

/// Parses a line that contains a metric.
fn parse_metric<'a>(
    fields: &Fields<'a>,
    options: Options,
    arrived: u64,
    visit: &mut impl Visit<'a>,
) -> Result<(), Fault> {
    let name = Some(fields.name()).filter(|name| !name.is_empty()).ok_or(Fault::NoName)?;
    let value_bytes = fields.value_bytes().filter(|bytes| *bytes > 0).ok_or(Fault::NoValue)?;
    let kind = fields.kind().ok_or(Fault::NoType)?;
    // What looks like an invalid type or rate can also contain the next value.
    let typed_values = |visit| typed_values::parse(name, fields.values(), options, arrived, visit);
    let Ok(mut line) = Line::new(name, kind, arrived) else { return typed_values(visit) };
    match fields.optional_fields().try_for_each(|field| line.set(field)) {
        Err(Fault::BadRate) => typed_values(visit),
        Err(fault) => Err(fault),
        Ok(()) => line.emit(fields.value_onward(), value_bytes, options, visit),
    }
}

/// Parses an event or a service check and returns its length. Returns `None` if the line contains
/// neither.
#[cold]
fn parse_event_or_check<'a>(
    rest: &'a [u8],
    arrived: u64,
    visit: &mut impl Visit<'a>,
) -> Result<Option<usize>, Fault> {
    if rest.starts_with(event::PREFIX) {
        event::parse(rest, arrived, visit).map(Some)
    } else if rest.starts_with(service_check::PREFIX) {
        service_check::parse(rest, arrived, visit).map(Some)
    } else {
        Ok(None)
    }
}
