//! DogStatsD, its protocol up to version 1.6, and plain StatsD.
//!
//! A message has lines, a line fields between bars:
//! `name:value|type|@rate|#tags|Ttimestamp|c:container|e:external|card:cardinality`. What follows
//! the type comes in any order; of a field that comes twice the last one counts. Empty lines mean
//! nothing, `\r\n` ends a line as `\n` does. Several values stand between colons, `name:1:2:3|ms`;
//! empty ones among them mean nothing, and of those that are no numbers each is a fault of its own,
//! while the others are taken.
//!
//! Events are `_e{bytes of title,bytes of text}:title|text|…`. The lengths decide where the text
//! ends, so it may have bars and line ends. If they do not fit, only the line is at fault; if they
//! fit and the event is not UTF-8, all of it is. Service checks are `_sc|name|status|…`. The
//! message of one, `m:`, goes to the end of the line, but for what says where the client runs.

mod event;
mod fields;
mod line;
pub mod scalar;
mod service_check;
mod shared;

use crate::{Extra, Fault, Visit, number};
use fields::Fields;
use line::Line;
use millstream_scan::{StatsdLine, StatsdLines, statsd_lines};
use millstream_series::{Kind, Point, Values};

pub use shared::unescaped;

/// What of the protocol can be chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Gauges with a sign change the value there is, as plain StatsD has it. Else they are values,
    /// as DogStatsD has it.
    pub gauge_deltas: bool,
}

/// Tells what a message has. `arrived` is given on with every point, see
/// [`millstream_series::Point`].
///
/// # Panics
/// If the message is longer than `u32::MAX` - 1 bytes.
#[inline]
pub fn parse<'a>(message: &'a [u8], options: Options, arrived: u64, visit: &mut impl Visit<'a>) {
    statsd_lines(message, &mut Lines { message, options, arrived, visit, start: 0, told: 0 });
}

/// The lines of a message on their way to who is told.
struct Lines<'v, 'a, V> {
    message: &'a [u8],
    options: Options,
    arrived: u64,
    visit: &'v mut V,
    /// Where the next line begins.
    start: usize,
    /// Where that ends which was told: an event has several lines.
    told: usize,
}

impl<'a, V: Visit<'a>> StatsdLines for Lines<'_, 'a, V> {
    #[inline(always)]
    fn line(&mut self, line: StatsdLine) {
        let fields = Fields::new(self.message, self.start, &line);
        self.start = line.end as usize + 1;
        match usual(&fields, self.arrived) {
            Some(point) if fields.start >= self.told => self.visit.point(point, Extra::NONE),
            _ if fields.start < self.told || fields.is_empty() => {}
            _ => self.told = any(&fields, self.options, self.arrived, self.visit),
        }
    }
}

/// The point of a line as most are: with one value of usual length, a type, tags, and nothing else.
#[inline(always)]
fn usual<'a>(fields: &Fields<'a>, arrived: u64) -> Option<Point<'a>> {
    let (name, value_bytes) = (fields.name(), fields.value_bytes()?);
    let kind = line::kind_of(fields.kind()?).filter(|kind| *kind != Kind::Set)?;
    let tags = fields.only_tags()?;
    if name.first().is_none_or(|first| *first == b'_') {
        return None;
    }
    let values = Values::Number(number::unsigned(fields.value_onwards(), value_bytes)?);
    Some(Point { kind, name, tags, values, sample_rate: 1.0, timestamp: None, arrived })
}

/// Tells what any line has, and gives the place where what was told ends: an event has several
/// lines.
#[inline(never)]
fn any<'a>(
    fields: &Fields<'a>,
    options: Options,
    arrived: u64,
    visit: &mut impl Visit<'a>,
) -> usize {
    let rest = &fields.message[fields.start..];
    let told = match rest[0] {
        b'_' => other(rest, arrived, visit).transpose(),
        _ => None,
    };
    match told.unwrap_or_else(|| metric(fields, options, arrived, visit).map(|()| 0)) {
        Ok(len) => fields.start + len,
        Err(fault) => {
            visit.fault(fault, fields.text());
            0
        }
    }
}

/// Tells a line that is a metric.
fn metric<'a>(
    fields: &Fields<'a>,
    options: Options,
    arrived: u64,
    visit: &mut impl Visit<'a>,
) -> Result<(), Fault> {
    let name = Some(fields.name()).filter(|name| !name.is_empty()).ok_or(Fault::NoName)?;
    let value_bytes = fields.value_bytes().filter(|bytes| *bytes > 0).ok_or(Fault::NoValue)?;
    let mut line = Line::new(name, fields.kind().ok_or(Fault::NoType)?, arrived)?;
    fields.others().try_for_each(|field| line.take(field))?;
    line.tell(fields.value_onwards(), value_bytes, options, visit)
}

/// Tells what a line has that is no metric, and how long it is; `None` if it is one.
#[cold]
fn other<'a>(
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
