//! A line that is a metric, as it is put together field by field.

use super::Options;
use super::shared::take_extra;
use crate::{Extra, Fault, Note, Visit, number};
use millstream_series::{Kind, Point, Values};

/// Values that are told together at most.
const PACKED_VALUES: usize = 64;

/// A point, and what else its line says.
pub struct Line<'a> {
    point: Point<'a>,
    extra: Extra<'a>,
    /// The first field that is unknown.
    unknown: Option<&'a [u8]>,
}

impl<'a> Line<'a> {
    /// A line with this name and type.
    #[inline(always)]
    pub fn new(name: &'a [u8], kind: &[u8], arrived: u64) -> Result<Line<'a>, Fault> {
        let point = Point {
            kind: kind_of(kind).ok_or(Fault::UnknownType)?,
            name,
            tags: b"",
            values: Values::Number(0.0),
            sample_rate: 1.0,
            timestamp: None,
            arrived,
        };
        Ok(Line { point, extra: *Extra::NONE, unknown: None })
    }

    /// Takes a field that follows the type.
    #[inline(always)]
    pub fn take(&mut self, field: &'a [u8]) -> Result<(), Fault> {
        match field {
            [b'#', tags @ ..] => self.point.tags = tags,
            _ => self.take_rare(field)?,
        }
        Ok(())
    }

    #[inline(never)]
    fn take_rare(&mut self, field: &'a [u8]) -> Result<(), Fault> {
        match field {
            [b'@', rate @ ..] => {
                let is_rate = |rate: &f64| *rate > 0.0 && *rate <= 1.0;
                self.point.sample_rate = number::parse(rate).filter(is_rate).ok_or(Fault::BadRate)?;
            }
            [b'T', seconds @ ..] => {
                let seconds = number::parse_whole(seconds).filter(|seconds| *seconds > 0);
                self.point.timestamp = Some(seconds.ok_or(Fault::BadTimestamp)?);
            }
            _ if take_extra(&mut self.extra, field) => {}
            _ => _ = self.unknown.get_or_insert(field),
        }
        Ok(())
    }

    /// Tells the line, whose value is the first `len` bytes of `rest`.
    #[inline(always)]
    pub fn tell(
        mut self,
        rest: &'a [u8],
        len: usize,
        options: Options,
        visit: &mut impl Visit<'a>,
    ) -> Result<(), Fault> {
        if self.unknown.is_some() || self.point.timestamp.is_some() {
            self.tell_notes(visit);
        }
        let signs = options.gauge_deltas && self.point.kind == Kind::Gauge;
        if self.point.kind == Kind::Set {
            self.point.values = Values::Member(&rest[..len]);
        } else if !signs && let Some(value) = number::parse_start(rest, len) {
            self.point.values = Values::Number(value);
        } else {
            return self.tell_several(&rest[..len], signs, visit);
        }
        visit.point(self.point, &self.extra);
        Ok(())
    }

    /// Tells what is not as it should be.
    #[cold]
    fn tell_notes(&mut self, visit: &mut impl Visit<'a>) {
        if let Some(field) = self.unknown {
            visit.note(Note::UnknownField, field);
        }
        if self.point.timestamp.is_some() && !matches!(self.point.kind, Kind::Count | Kind::Gauge) {
            self.point.timestamp = None;
            visit.note(Note::TimestampUnused, self.point.name);
        }
    }

    /// Tells values between colons. With `signs` those that have a sign are changes.
    #[cold]
    fn tell_several(&self, values: &'a [u8], signs: bool, visit: &mut impl Visit<'a>) -> Result<(), Fault> {
        let (mut packed, mut len, mut texts) = ([0.0; PACKED_VALUES], 0, 0);
        for text in values.split(|byte| *byte == b':').filter(|text| !text.is_empty()) {
            texts += 1;
            match number::parse(text) {
                None if text.len() == values.len() => return Err(Fault::BadValue),
                None => visit.fault(Fault::BadValue, text),
                Some(value) if signs => {
                    let is_change = matches!(text[0], b'+' | b'-');
                    let values = if is_change { Values::Change(value) } else { Values::Number(value) };
                    visit.point(Point { values, ..self.point }, &self.extra);
                }
                Some(value) => {
                    packed[len] = value;
                    len += 1;
                }
            }
            if len == PACKED_VALUES {
                self.tell_packed(&packed, visit);
                len = 0;
            }
        }
        self.tell_packed(&packed[..len], visit);
        if texts == 0 { Err(Fault::NoValue) } else { Ok(()) }
    }

    fn tell_packed(&self, values: &[f64], visit: &mut impl Visit<'a>) {
        if !values.is_empty() {
            visit.packed(&Point { values: Values::Numbers(values), ..self.point }, &self.extra);
        }
    }
}

/// The kind of a type.
#[inline(always)]
fn kind_of(text: &[u8]) -> Option<Kind> {
    Some(match text {
        b"c" => Kind::Count,
        b"g" => Kind::Gauge,
        b"ms" => Kind::Timing,
        b"h" => Kind::DogHistogram,
        b"d" => Kind::Distribution,
        b"s" => Kind::Set,
        _ => return None,
    })
}
