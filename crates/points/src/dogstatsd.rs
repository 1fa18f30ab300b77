//! DogStatsD, its protocol up to version 1.6, and plain StatsD.
//!
//! A message has lines, a line fields between bars:
//! `name:value|type|@rate|#tags|Ttimestamp|c:container|e:external|card:cardinality`. What follows the type comes in
//! any order; of a field that comes twice the last one counts. Empty lines mean nothing, `\r\n` ends a line as `\n`
//! does. Several values stand between colons, `name:1:2:3|ms`; empty ones among them mean nothing, and of those that
//! are no numbers each is a fault of its own, while the others are taken.
//!
//! Events are `_e{bytes of title,bytes of text}:title|text|…`. The lengths decide where the text ends, so it may
//! have bars and line ends. If they do not fit, only the line is at fault; if they fit and the event is not UTF-8,
//! all of it is. Service checks are `_sc|name|status|…`. The message of one, `m:`, goes to the end of the line, but
//! for what says where the client runs.

mod event;
mod fields;
mod line;
pub mod scalar;
mod service_check;
mod shared;

use crate::{Extra, Fault, Visit, number};
use fields::{Field, Fields, Plain};
use line::Line;
use millstream_scan::{TagPlaces, TagSyntax, tags};
use millstream_series::{Kind, Point, Values};

pub use shared::unescaped;

/// What of the protocol can be chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Gauges with a sign change the value there is, as plain StatsD has it. Else they are values, as DogStatsD
    /// has it.
    pub gauge_deltas: bool,
}

/// A field ends at a bar or with its line; in the first one of a line the name ends at a colon.
const FIELDS: TagSyntax = TagSyntax { split: b':', ends: *b"|\n" };

/// Reads messages. It keeps room between two of them, and nothing else.
#[derive(Clone, Debug, Default)]
pub struct Parser {
    options: Options,
    places: TagPlaces,
}

impl Parser {
    /// A parser with these options.
    pub fn new(options: Options) -> Parser {
        Parser { options, places: TagPlaces::default() }
    }

    /// Tells what a message has. `arrived` is given on with every point, see [`millstream_series::Point`].
    ///
    /// # Panics
    /// If the message is longer than `u32::MAX` - 1 bytes.
    #[inline]
    pub fn parse<'a>(&mut self, message: &'a [u8], arrived: u64, visit: &mut impl Visit<'a>) {
        tags(message, &FIELDS, &mut self.places);
        let mut fields = Fields::new(message, &self.places);
        loop {
            // What is not told here is looked at again, field by field.
            fields.plain_lines(|line| {
                visit.point(plain(line, arrived)?, Extra::NONE);
                Some(())
            });
            let Some(head) = fields.next() else { return };
            if head.start == head.end && head.is_last {
                continue;
            }
            if let Err(fault) = line(&head, &mut fields, self.options, arrived, visit) {
                visit.fault(fault, &message[head.start..fields.skip_line()]);
            }
        }
    }
}

/// The point of a plain line, if it is one: of one value of usual length.
#[inline(always)]
fn plain(line: Plain<'_>, arrived: u64) -> Option<Point<'_>> {
    let kind = line::kind_of(&[line.kind]).filter(|kind| *kind != Kind::Set && line.name[0] != b'_')?;
    let value = number::unsigned(line.rest, line.value_bytes)?;
    Some(Point {
        kind,
        name: line.name,
        tags: line.tags,
        values: Values::Number(value),
        sample_rate: 1.0,
        timestamp: None,
        arrived,
    })
}

/// Tells what a line has that begins with the field `head`.
#[inline(always)]
fn line<'a>(
    head: &Field,
    fields: &mut Fields<'_, 'a>,
    options: Options,
    arrived: u64,
    visit: &mut impl Visit<'a>,
) -> Result<(), Fault> {
    let rest = &fields.message[head.start..];
    if rest[0] == b'_'
        && let Some(len) = other(rest, arrived, visit)?
    {
        fields.skip_to(head.start + len);
        return Ok(());
    }
    let name = &fields.message[head.start..head.split];
    if name.is_empty() {
        return Err(Fault::NoName);
    }
    if head.split + 1 >= head.end {
        return Err(Fault::NoValue);
    }
    let kind = fields.next_of_line().ok_or(Fault::NoType)?;
    let mut line = Line::new(name, kind, arrived)?;
    while let Some(field) = fields.next_of_line() {
        line.take(field)?;
    }
    line.tell(&fields.message[head.split + 1..], head.end - head.split - 1, options, visit)
}

/// Tells what a line has that is no metric, and how long it is; `None` if it is one.
#[cold]
fn other<'a>(rest: &'a [u8], arrived: u64, visit: &mut impl Visit<'a>) -> Result<Option<usize>, Fault> {
    if rest.starts_with(event::PREFIX) {
        event::parse(rest, arrived, visit).map(Some)
    } else if rest.starts_with(service_check::PREFIX) {
        service_check::parse(rest, arrived, visit).map(Some)
    } else {
        Ok(None)
    }
}
