//! From the fields of a date to nanoseconds.

use crate::step::{Fields, Part, Said};
use crate::{Fault, SECOND_NS, Zone};

const DAY_SECONDS: i64 = 86_400;

/// How far in the future an event may lie whose year is not in its text.
const AHEAD_NS_MAX: i64 = DAY_SECONDS * SECOND_NS;

/// Years to look back for one that has the day: 29 February may be eight years away (1896, 1904).
const YEARS_BACK: i64 = 8;

/// What of a text says the day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Day {
    /// Year, month and day of the month.
    OfMonth,
    /// Year and day of the year.
    OfYear,
    /// Month and day; the year is found.
    WithoutYear,
    /// Nothing: the text is a number of seconds since 1970.
    Epoch,
}

impl Fields {
    /// Nanoseconds since 1970 of what was read. A second 60 is the first of the next minute.
    #[inline]
    pub fn resolve(&self, day: Day, zone: &Zone, reference_ns: i64) -> Result<i64, Fault> {
        if day == Day::Epoch {
            return self.epoch_ns.checked_add(self.fraction_ns).ok_or(Fault::Range);
        }
        match self.zone {
            Said::Offset(seconds) => self.at(day, reference_ns, |_| seconds),
            Said::Nothing => self.at(day, reference_ns, |minute| zone.offset_seconds(minute)),
            Said::Name(name) if zone.named_seconds(0, name).is_none() => Err(Fault::Zone),
            Said::Name(name) => self.at(day, reference_ns, |minute| {
                zone.named_seconds(minute, name).unwrap_or_default()
            }),
        }
    }

    /// The same of a date, where local time is ahead of UTC by so many seconds at a local minute.
    #[inline]
    fn at(
        &self,
        day: Day,
        reference_ns: i64,
        offset_seconds: impl Fn(i64) -> i32,
    ) -> Result<i64, Fault> {
        let [hour, minute, second] =
            [Part::Hour, Part::Minute, Part::Second].map(|part| self.get(part));
        if hour > 23 || minute > 59 || second > 60 {
            return Err(Fault::Date);
        }
        let of_day = hour * 3600 + minute * 60;
        let (month, day_of_month) = (self.get(Part::Month), self.get(Part::Day));
        let to_ns = |days: i64| {
            let minute = days * DAY_SECONDS + of_day;
            (minute + second - i64::from(offset_seconds(minute))) * SECOND_NS + self.fraction_ns
        };
        let days = match day {
            Day::OfMonth => days_of_date(self.year()?, month, day_of_month),
            Day::OfYear => days_of_year(self.year()?, self.get(Part::DayOfYear)),
            Day::WithoutYear | Day::Epoch => {
                return latest(month, day_of_month, reference_ns, to_ns).ok_or(Fault::Date);
            }
        };
        days.map(to_ns).ok_or(Fault::Date)
    }

    fn year(&self) -> Result<i64, Fault> {
        let year = self.get(Part::Year);
        if (1678..=2261).contains(&year) { Ok(year) } else { Err(Fault::Range) }
    }
}

/// The time in the latest year that has this day and with which it is at most a day after the
/// reference.
fn latest(month: i64, day: i64, reference_ns: i64, to_ns: impl Fn(i64) -> i64) -> Option<i64> {
    let limit = reference_ns.saturating_add(AHEAD_NS_MAX);
    // Close enough: a year too far is above the limit.
    let next = 1970 + reference_ns / (365 * DAY_SECONDS * SECOND_NS) + 1;
    let years = (next - 1 - YEARS_BACK..=next).rev().filter(|year| (1678..=2261).contains(year));
    years.filter_map(|year| days_of_date(year, month, day)).map(to_ns).find(|ns| *ns <= limit)
}

/// Whether the year that was found for this minute is that of each of its seconds.
pub fn has_one_year(minute_ns: i64, reference_ns: i64) -> bool {
    let behind = reference_ns.saturating_add(AHEAD_NS_MAX).saturating_sub(minute_ns);
    // From within the minute to within the same minute of the next year, which may come up to a day
    // earlier where a place has moved its clocks.
    (61 * SECOND_NS..363 * DAY_SECONDS * SECOND_NS).contains(&behind)
}

/// Days from 1970-01-01, if there is such a date.
#[inline]
fn days_of_date(year: i64, month: i64, day: i64) -> Option<i64> {
    const LENGTHS: [i64; 16] = [0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 0, 0, 0];
    const BEFORE: [i64; 16] = [0, 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 0, 0, 0];
    let leap = i64::from(is_leap(year));
    let index = usize::try_from(month).ok().filter(|month| *month <= 12)?;
    if day < 1 || day > LENGTHS[index] + if month == 2 { leap } else { 0 } {
        return None;
    }
    Some(days_before(year) + BEFORE[index] + if month > 2 { leap } else { 0 } + day - 1)
}

/// The same by day of the year.
fn days_of_year(year: i64, day: i64) -> Option<i64> {
    (1..=365 + i64::from(is_leap(year))).contains(&day).then(|| days_before(year) + day - 1)
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days from 1970 to the first day of a year after 0: the leap days are those of the years before
/// it.
fn days_before(year: i64) -> i64 {
    let past = year - 1;
    past * 365 + past / 4 - past / 100 + past / 400 - 719_162
}
