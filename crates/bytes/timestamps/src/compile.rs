//! Compilation of formats into steps, and rejection of invalid formats.

use crate::civil::{Day, year_is_constant_within};
use crate::fields::{Fields, TimeField};
use crate::step::{EPOCH_UNITS, Step};
use crate::{Fault, SECOND_NS, Stamp, Zone};

/// Maximum length of a format in bytes.
const FORMAT_BYTES_MAX: usize = 128;

/// A compiled time format.
#[derive(Clone, Debug)]
pub struct Format {
    steps: Vec<Step>,
    day: Day,
    /// Time zone of times that do not include one.
    zone: Zone,
}

impl Format {
    /// Compiles a format: a preset (`iso8601`, `rfc3339`, `epoch_s`, `epoch_ms`, `epoch_us`,
    /// `epoch_ns`) or conversion specifiers as in `strptime`. `zone` is the time zone of times that
    /// do not include one; the default is UTC. If the zone is a place, `%Z` also accepts the names
    /// that the place uses.
    ///
    /// # Errors
    ///
    /// Returns an error if the format is invalid. The error says what to use instead.
    pub fn new(text: &str, zone: Option<Zone>) -> Result<Format, String> {
        let mut steps = match preset(text) {
            Some(steps) => steps,
            None => parse_specifiers(text)?,
        };
        if zone.as_ref().is_some_and(|zone| zone.fixed_seconds().is_none()) {
            steps
                .iter_mut()
                .filter(|step| **step == Step::Utc)
                .for_each(|step| *step = Step::ZoneName);
        }
        let has = |part| steps.iter().any(|step| step.sets(part));
        let is_epoch = steps.iter().any(|step| matches!(step, Step::Epoch(_)));
        let has_zone = |step: &Step| matches!(step, Step::Offset { optional: false } | Step::Utc);
        if zone.is_some() && (is_epoch || steps.iter().any(has_zone)) {
            return Err("times in this format include their time zone; remove timezone".into());
        }
        let day = if is_epoch { Day::Epoch } else { day(&has)? };
        if !is_epoch && !has(TimeField::Hour) {
            return Err("contains no hour; add %H, or %I and %p".into());
        }
        let is_meridiem = |step: &&Step| matches!(step, Step::Meridiem | Step::Hour12 { .. });
        if steps.iter().filter(is_meridiem).count() % 2 == 1 {
            return Err("%I needs %p, and %p needs %I; set both, or %H for a 24-hour clock".into());
        }
        reject_duplicates(&steps)?;
        Ok(Format { steps: fuse(&steps), day, zone: zone.unwrap_or(Zone::fixed(0)) })
    }

    /// Returns whether the times have no year. The inferred year is the latest one in which the
    /// time is at most one day after the reference.
    pub fn infers_year(&self) -> bool {
        self.day == Day::WithoutYear
    }

    /// Parses the time at the start of `text`. If the format has no year, the inferred year places
    /// the time at most one day after `reference_ns`.
    #[inline]
    pub fn parse(&self, text: &[u8], reference_ns: i64) -> Result<Stamp, Fault> {
        self.read(text, reference_ns, &mut self.fields())
    }

    #[inline]
    pub(crate) fn fields(&self) -> Fields {
        Fields::new(self.zone.fixed_seconds())
    }

    #[inline]
    pub(crate) fn read(
        &self,
        text: &[u8],
        reference_ns: i64,
        fields: &mut Fields,
    ) -> Result<Stamp, Fault> {
        let mut len = 0;
        for step in &self.steps {
            len = step.read(text, len, fields).ok_or(Fault::Text(len))?;
        }
        Ok(Stamp { ns: fields.resolve(self.day, &self.zone, reference_ns)?, len })
    }

    /// Returns the time `ns` without seconds and fraction, if the caller may add any second of the
    /// same minute to the result. Returns `None` for a count since 1970, and for a minute in which
    /// the inferred year changes.
    pub(crate) fn minute_ns(&self, ns: i64, fields: &Fields, reference_ns: i64) -> Option<i64> {
        let minute_ns = ns - fields.get(TimeField::Second) * SECOND_NS - fields.fraction_ns;
        match self.day {
            Day::Epoch => None,
            Day::WithoutYear => {
                year_is_constant_within(minute_ns, reference_ns).then_some(minute_ns)
            }
            Day::OfMonth | Day::OfYear => Some(minute_ns),
        }
    }

    /// Returns whether bytes after a time can affect where the time ends.
    pub(crate) fn looks_ahead(&self) -> bool {
        use Step::{Fraction, Hour12, Offset, Padded, PointFraction, ZoneName};
        let last = self.steps.last();
        matches!(
            last,
            Some(
                Fraction(..) | PointFraction | Offset { .. } | Padded(_) | Hour12 { .. } | ZoneName
            )
        )
    }
}

fn preset(text: &str) -> Option<Vec<Step>> {
    if let Some((_, unit_ns)) = EPOCH_UNITS.iter().find(|(name, _)| *name == text) {
        let whole = Step::Epoch(*unit_ns);
        return Some(if *unit_ns == SECOND_NS {
            vec![whole, Step::PointFraction]
        } else {
            vec![whole]
        });
    }
    let optional = match text {
        "iso8601" => true,
        "rfc3339" => false,
        _ => return None,
    };
    let mut steps = steps_of("F");
    steps.push(Step::DateEnd);
    steps.extend(steps_of("T"));
    steps.extend([Step::PointFraction, Step::Offset { optional }]);
    Some(steps)
}

/// Returns the steps for several specifiers.
fn steps_of(abbreviation: &str) -> Vec<Step> {
    abbreviation.chars().filter_map(specifier).flatten().collect()
}

fn parse_specifiers(text: &str) -> Result<Vec<Step>, String> {
    if text.len() > FORMAT_BYTES_MAX {
        return Err(format!("longer than {FORMAT_BYTES_MAX} bytes; use a shorter format"));
    }
    if !text.contains('%') {
        return Err(
            "not a time format; use, for example, \"%Y-%m-%d %H:%M:%S\", or one of iso8601, \
             rfc3339, epoch_s, epoch_ms, epoch_us, epoch_ns"
                .into(),
        );
    }
    let (mut steps, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.find('%') {
        steps.extend(rest[..at].bytes().map(Step::Byte));
        let (found, after) = next_specifier(&rest[at + 1..])?;
        steps.extend(found);
        rest = after;
    }
    steps.extend(rest.bytes().map(Step::Byte));
    Ok(steps)
}

/// Parses the specifier after a percent sign. Returns its steps and the rest of the format.
fn next_specifier(rest: &str) -> Result<(Vec<Step>, &str), String> {
    let special = |len: usize, steps: Vec<Step>| Ok((steps, &rest[len..]));
    if rest.starts_with(".f") {
        return special(2, vec![Step::PointFraction]);
    }
    if let [count @ b'1'..=b'9', b'f', ..] = rest.as_bytes() {
        return special(2, vec![Step::Fraction(count - b'0', count - b'0')]);
    }
    if let Some(part) =
        rest.strip_prefix('-').and_then(|rest| rest.chars().next()).and_then(unpadded)
    {
        return special(2, vec![part]);
    }
    let letter = rest.chars().next();
    match letter.and_then(specifier) {
        Some(steps) => special(1, steps),
        None => Err(format!(
            "`%{}` is not a time specifier; the specifiers are %Y %y %m %d %e %j %b %B %a %A %H %I %p %k %l %M %S %f %3f \
             %.f %z %Z %s %F %T %D %R, and %% for a percent sign",
            letter.map_or(String::new(), String::from),
        )),
    }
}

fn unpadded(letter: char) -> Option<Step> {
    match letter {
        'd' => Some(Step::Padded(TimeField::Day)),
        'm' => Some(Step::Padded(TimeField::Month)),
        'H' => Some(Step::Padded(TimeField::Hour)),
        'I' => Some(Step::Hour12 { padded: true }),
        _ => None,
    }
}

/// Returns the steps for a specifier.
fn specifier(letter: char) -> Option<Vec<Step>> {
    use Step::{Byte, Two};
    use TimeField::{Day, Hour, Minute, Month, Second};
    let steps = match letter {
        'F' => vec![Step::Year, Byte(b'-'), Two(Month), Byte(b'-'), Two(Day)],
        'D' => vec![Two(Month), Byte(b'/'), Two(Day), Byte(b'/'), Step::YearOfCentury],
        'T' => vec![Two(Hour), Byte(b':'), Two(Minute), Byte(b':'), Two(Second)],
        'R' => vec![Two(Hour), Byte(b':'), Two(Minute)],
        letter => vec![single_step(letter)?],
    };
    Some(steps)
}

/// Returns the step for a specifier that consists of a single step.
fn single_step(letter: char) -> Option<Step> {
    use TimeField::{Day, Hour, Minute, Month, Second};
    let step = match letter {
        'Y' => Step::Year,
        'y' => Step::YearOfCentury,
        'm' => Step::Two(Month),
        'b' | 'h' => Step::Month { full: false },
        'B' => Step::Month { full: true },
        'd' => Step::Two(Day),
        'e' => Step::Padded(Day),
        'j' => Step::DayOfYear,
        'a' => Step::Weekday { full: false },
        'A' => Step::Weekday { full: true },
        'H' => Step::Two(Hour),
        'k' => Step::Padded(Hour),
        'I' => Step::Hour12 { padded: false },
        'l' => Step::Hour12 { padded: true },
        'p' => Step::Meridiem,
        'M' => Step::Two(Minute),
        'S' => Step::Two(Second),
        'f' => Step::Fraction(1, 9),
        'z' => Step::Offset { optional: false },
        'Z' => Step::Utc,
        's' => Step::Epoch(SECOND_NS),
        '%' => Step::Byte(b'%'),
        _ => return None,
    };
    Some(step)
}

impl Step {
    /// Returns whether the step sets this field.
    fn sets(&self, part: TimeField) -> bool {
        match self {
            Step::Two(own) | Step::Padded(own) => *own == part,
            Step::Year | Step::YearOfCentury => part == TimeField::Year,
            Step::DayOfYear => part == TimeField::DayOfYear,
            Step::Month { .. } => part == TimeField::Month,
            Step::Hour12 { .. } => part == TimeField::Hour,
            _ => false,
        }
    }
}

/// Returns which fields determine the day in this format.
fn day(has: &dyn Fn(TimeField) -> bool) -> Result<Day, String> {
    match [TimeField::Year, TimeField::Month, TimeField::Day, TimeField::DayOfYear].map(has) {
        [true, true, true, false] => Ok(Day::OfMonth),
        [true, false, false, true] => Ok(Day::OfYear),
        [false, true, true, false] => Ok(Day::WithoutYear),
        [_, _, _, true] => {
            Err("%j is the day of the year; combine it with %Y, not with a month and day".into())
        }
        _ => Err("contains no day; use %Y, %m (or %b) and %d (or %e)".into()),
    }
}

/// Rejects a format that sets a field twice.
fn reject_duplicates(steps: &[Step]) -> Result<(), String> {
    use TimeField::{Day, DayOfYear, Hour, Minute, Month, Second, Year};
    let named = [
        ("the year", Year),
        ("the month", Month),
        ("the day", Day),
        ("the day", DayOfYear),
        ("the hour", Hour),
        ("the minute", Minute),
        ("the second", Second),
    ];
    let count = |is: &dyn Fn(&&Step) -> bool| steps.iter().filter(is).count();
    let more = [
        ("the fraction", count(&|step| matches!(step, Step::Fraction(..) | Step::PointFraction))),
        (
            "the time zone",
            count(&|step| matches!(step, Step::Offset { .. } | Step::Utc | Step::ZoneName)),
        ),
        ("the time since 1970", count(&|step| matches!(step, Step::Epoch(_)))),
        ("%p", count(&|step| matches!(step, Step::Meridiem))),
    ];
    let parts = named.iter().map(|(name, part)| (*name, count(&|step| step.sets(*part))));
    match parts.chain(more).find(|(_, count)| *count > 1) {
        Some((name, _)) => Err(format!("contains {name} twice; remove one of them")),
        None => Ok(()),
    }
}

/// Combines `%H:%M:%S`, `%Y-%m-%d` and `%d/%b/%Y`, with any separator, into one step each.
fn fuse(steps: &[Step]) -> Vec<Step> {
    use Step::{Byte, Two};
    use TimeField::{Day, Hour, Minute, Month, Second};
    let (mut fused, mut rest) = (Vec::new(), steps);
    while let Some((first, after)) = rest.split_first() {
        let (step, after) = match rest {
            [Two(Hour), Byte(a), Two(Minute), Byte(b), Two(Second), after @ ..] if a == b => {
                (Step::Clock(*a), after)
            }
            [Step::Year, Byte(a), Two(Month), Byte(b), Two(Day), after @ ..] if a == b => {
                (Step::YearMonthDay(*a), after)
            }
            [Two(Day), Byte(a), Step::Month { full: false }, Byte(b), Step::Year, after @ ..]
                if a == b =>
            {
                (Step::DayMonthYear(*a), after)
            }
            _ => (*first, after),
        };
        fused.push(step);
        rest = after;
    }
    fused
}
