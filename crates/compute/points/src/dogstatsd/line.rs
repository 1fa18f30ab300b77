//! Metric lines, which are parsed field by field.

use super::Options;
use super::shared::set_origin_field;
use crate::{Extra, Fault, Note, Visit, number};
use millstream_series::{Kind, Point, Values};

/// Maximum number of values that are passed in one call.
const PACKED_VALUES: usize = 64;

/// A point, and the additional fields of its line.
///
/// Rare cases use a copy, so that a common line stays in registers.
#[derive(Clone, Copy)]
pub struct Line<'a> {
    point: Point<'a>,
    extra: Extra<'a>,
    /// The first unknown field, if any.
    unknown: Option<&'a [u8]>,
}

impl<'a> Line<'a> {
    /// Creates a line with this name and type.
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

    /// Parses a field that follows the type.
    #[inline(always)]
    pub fn set(&mut self, field: &'a [u8]) -> Result<(), Fault> {
        match field {
            [b'#', tags @ ..] => self.point.tags = tags,
            [b'@', rate @ ..] => self.point.sample_rate = rate_of(rate)?,
            [b'T', seconds @ ..] => {
                let seconds = number::parse_int(seconds).and_then(number::valid_seconds);
                self.point.timestamp = Some(seconds.ok_or(Fault::BadTimestamp)?);
            }
            _ if set_origin_field(&mut self.extra, field) => {}
            _ => _ = self.unknown.get_or_insert(field),
        }
        Ok(())
    }

    /// Returns a copy with another type.
    pub fn with_kind(self, kind: &[u8]) -> Result<Line<'a>, Fault> {
        let kind = kind_of(kind).ok_or(Fault::UnknownType)?;
        Ok(Line { point: Point { kind, ..self.point }, ..self })
    }

    /// Returns a copy with another sample rate. The rate is 1 if `rate` is `None`.
    pub fn with_rate(mut self, rate: Option<&[u8]>) -> Result<Line<'a>, Fault> {
        self.point.sample_rate = rate.map_or(Ok(1.0), rate_of)?;
        Ok(self)
    }

    /// Removes the unknown field after it was reported.
    pub fn forget_unknown(&mut self) {
        self.unknown = None;
    }

    /// Checks the value, or all values, which are separated by colons.
    pub fn check(&self, values: &[u8]) -> Result<(), Fault> {
        match self.point.kind {
            Kind::Set if values.is_empty() => Err(Fault::NoValue),
            Kind::Set => Ok(()),
            _ => check_values(values),
        }
    }

    /// Passes the point to `visit`. The value is the first `len` bytes of `rest`.
    #[inline(always)]
    pub fn emit(
        mut self,
        rest: &'a [u8],
        len: usize,
        options: Options,
        visit: &mut impl Visit<'a>,
    ) -> Result<(), Fault> {
        if self.unknown.is_some() || self.point.timestamp.is_some() {
            self.point.timestamp = self.emit_notes(visit);
        }
        let signs = options.gauge_deltas && self.point.kind == Kind::Gauge;
        if self.point.kind == Kind::Set {
            self.point.values = Values::Member(&rest[..len]);
        } else if !signs && let Some(value) = number::parse_start(rest, len) {
            self.point.values = Values::Number(value);
        } else {
            return self.emit_values(&rest[..len], signs, visit);
        }
        let Line { point, extra, .. } = self;
        visit.point(point, &extra);
        Ok(())
    }

    /// Reports notes, and returns the timestamp if the kind uses timestamps.
    #[cold]
    fn emit_notes(self, visit: &mut impl Visit<'a>) -> Option<i64> {
        if let Some(field) = self.unknown {
            visit.note(Note::UnknownField, field);
        }
        let timestamp = self.point.timestamp?;
        if matches!(self.point.kind, Kind::Count | Kind::Gauge) {
            return Some(timestamp);
        }
        visit.note(Note::TimestampUnused, self.point.name);
        None
    }

    /// Passes values that are separated by colons to `visit`, either all of them or none. With
    /// `signs`, a value with a sign is a change.
    #[cold]
    fn emit_values(
        self,
        values: &'a [u8],
        signs: bool,
        visit: &mut impl Visit<'a>,
    ) -> Result<(), Fault> {
        let (mut packed, mut len, mut is_noted) = ([0.0; PACKED_VALUES], 0, false);
        // If all values fit into one call, they are checked while they are parsed.
        let mut is_checked = false;
        if signs {
            check_values(values)?;
            is_checked = true;
        }
        for text in split_values(values) {
            if len == PACKED_VALUES {
                if !is_checked {
                    check_values(values)?;
                    is_checked = true;
                }
                self.emit_packed(&packed, visit);
                len = 0;
            }
            match number::parse(text) {
                None => return Err(Fault::BadValue),
                Some(by) if signs && matches!(text[0], b'+' | b'-') => {
                    self.emit_change(by, &mut is_noted, visit);
                }
                Some(value) if signs => {
                    visit.point(Point { values: Values::Number(value), ..self.point }, &self.extra);
                }
                Some(value) => {
                    packed[len] = value;
                    len += 1;
                }
            }
        }
        if len == 0 && !is_checked {
            return Err(Fault::NoValue);
        }
        self.emit_packed(&packed[..len], visit);
        Ok(())
    }

    /// Passes a change of a gauge to `visit`. A change has no timestamp. If the line has one, a
    /// note is reported once.
    fn emit_change(&self, by: f64, is_noted: &mut bool, visit: &mut impl Visit<'a>) {
        if self.point.timestamp.is_some() && !std::mem::replace(is_noted, true) {
            visit.note(Note::TimestampUnused, self.point.name);
        }
        visit.point(
            Point { values: Values::Change(by), timestamp: None, ..self.point },
            &self.extra,
        );
    }

    fn emit_packed(&self, values: &[f64], visit: &mut impl Visit<'a>) {
        if !values.is_empty() {
            visit.packed(&Point { values: Values::Numbers(values), ..self.point }, &self.extra);
        }
    }
}

/// Returns the values between colons, except empty ones.
fn split_values(values: &[u8]) -> impl Iterator<Item = &[u8]> {
    values.split(|byte| *byte == b':').filter(|text| !text.is_empty())
}

/// Checks that there is at least one value, and that all values are numbers.
fn check_values(values: &[u8]) -> Result<(), Fault> {
    let mut texts = split_values(values).peekable();
    texts.peek().ok_or(Fault::NoValue)?;
    match texts.all(|text| number::parse(text).is_some()) {
        true => Ok(()),
        false => Err(Fault::BadValue),
    }
}

/// Parses a sample rate.
fn rate_of(text: &[u8]) -> Result<f64, Fault> {
    number::parse(text).filter(|rate| *rate > 0.0 && *rate <= 1.0).ok_or(Fault::BadRate)
}

/// Returns the kind for a type. There is no branch per type, because types arrive in unpredictable
/// order.
#[inline(always)]
pub fn kind_of(text: &[u8]) -> Option<Kind> {
    let (first, last) = (*text.first()?, *text.last()?);
    let (len, expected_last, kind) = TYPES[usize::from(first)];
    (usize::from(len) == text.len() && expected_last == last).then_some(kind)
}

/// Length, last byte and kind of each type, indexed by the first byte of the type. No type has
/// length 0.
static TYPES: [(u8, u8, Kind); 256] = {
    let mut types = [(0, 0, Kind::Count); 256];
    types[b'c' as usize] = (1, b'c', Kind::Count);
    types[b'g' as usize] = (1, b'g', Kind::Gauge);
    types[b'm' as usize] = (2, b's', Kind::Timing);
    types[b'h' as usize] = (1, b'h', Kind::DogHistogram);
    types[b'd' as usize] = (1, b'd', Kind::Distribution);
    types[b's' as usize] = (1, b's', Kind::Set);
    types
};
