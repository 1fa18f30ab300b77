//! Conversion of date fields to nanoseconds.

use crate::fields::{Fields, TimeField, ZoneField};
use crate::{Fault, SECOND_NS, Zone};

const DAY_SECONDS: i64 = 86_400;

/// Maximum nanoseconds by which a time without a year may be in the future.
const AHEAD_NS_MAX: i64 = DAY_SECONDS * SECOND_NS;

/// Number of years to search back for a year in which the day exists. February 29 can be eight
/// years back (1896, 1904).
const YEARS_BACK: i64 = 8;

/// Which fields determine the day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Day {
    /// Year, month and day of the month.
    OfMonth,
    /// Year and day of the year.
    OfYear,
    /// Month and day of the month. The year is inferred.
    WithoutYear,
    /// No date fields. The text is a count since 1970.
    Epoch,
}

impl Fields {
    /// Returns the time in nanoseconds since 1970. A second of 60 is treated as the first second of
    /// the next minute.
    #[inline]
    pub fn resolve(&self, day: Day, zone: &Zone, reference_ns: i64) -> Result<i64, Fault> {
        if day == Day::Epoch {
            return self.epoch_ns.checked_add(self.fraction_ns).ok_or(Fault::Range);
        }
        match self.zone {
            ZoneField::Offset(seconds) => self.at(day, reference_ns, |_| seconds),
            ZoneField::Nothing => self.at(day, reference_ns, |minute| zone.offset_seconds(minute)),
            ZoneField::Name(name) if zone.named_seconds(0, name).is_none() => Err(Fault::Zone),
            ZoneField::Name(name) => self.at(day, reference_ns, |minute| {
                zone.named_seconds(minute, name).unwrap_or_default()
            }),
        }
    }

    /// Resolves a date. `offset_seconds` returns the offset of local time from UTC for a local
    /// minute.
    #[inline]
    fn at(
        &self,
        day: Day,
        reference_ns: i64,
        offset_seconds: impl Fn(i64) -> i32,
    ) -> Result<i64, Fault> {
        let [hour, minute, second] =
            [TimeField::Hour, TimeField::Minute, TimeField::Second].map(|part| self.get(part));
        if hour > 23 || minute > 59 || second > 60 {
            return Err(Fault::Date);
        }
        let of_day = hour * 3600 + minute * 60;
        let (month, day_of_month) = (self.get(TimeField::Month), self.get(TimeField::Day));
        let to_ns = |days: i64| {
            let minute = days * DAY_SECONDS + of_day;
            (minute + second - i64::from(offset_seconds(minute))) * SECOND_NS + self.fraction_ns
        };
        let days = match day {
            Day::OfMonth => days_of_date(self.year()?, month, day_of_month),
            Day::OfYear => days_of_year(self.year()?, self.get(TimeField::DayOfYear)),
            Day::WithoutYear | Day::Epoch => {
                return resolve_year(month, day_of_month, reference_ns, to_ns).ok_or(Fault::Date);
            }
        };
        days.map(to_ns).ok_or(Fault::Date)
    }

    fn year(&self) -> Result<i64, Fault> {
        let year = self.get(TimeField::Year);
        if (1678..=2261).contains(&year) { Ok(year) } else { Err(Fault::Range) }
    }
}

/// Returns the time in the latest year in which the day exists and the time is at most one day
/// after the reference. Returns `None` if there is no such year within [`YEARS_BACK`].
fn resolve_year(
    month: i64,
    day: i64,
    reference_ns: i64,
    to_ns: impl Fn(i64) -> i64,
) -> Option<i64> {
    let limit = reference_ns.saturating_add(AHEAD_NS_MAX);
    // This is an estimate. If the year is too late, the time is above the limit.
    let next = 1970 + reference_ns / (365 * DAY_SECONDS * SECOND_NS) + 1;
    let years = (next - 1 - YEARS_BACK..=next).rev().filter(|year| (1678..=2261).contains(year));
    years.filter_map(|year| days_of_date(year, month, day)).map(to_ns).find(|ns| *ns <= limit)
}

/// Returns whether the year that is inferred for a minute is also correct for all of its seconds.
pub fn year_is_constant_within(minute_ns: i64, reference_ns: i64) -> bool {
    let elapsed = reference_ns.saturating_add(AHEAD_NS_MAX).saturating_sub(minute_ns);
    // The range starts inside the minute and ends before the same minute of the next year, which
    // can be up to a day earlier if the UTC offset has changed.
    (61 * SECOND_NS..363 * DAY_SECONDS * SECOND_NS).contains(&elapsed)
}

/// Returns the number of days since 1970-01-01, or `None` if the date does not exist.
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

/// Returns the number of days since 1970-01-01 for a day of the year. Returns `None` if the year
/// has no such day.
fn days_of_year(year: i64, day: i64) -> Option<i64> {
    (1..=365 + i64::from(is_leap(year))).contains(&day).then(|| days_before(year) + day - 1)
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Returns the number of days between 1970-01-01 and the first day of a year. Only earlier years
/// contribute leap days. The year must be above 0.
fn days_before(year: i64) -> i64 {
    let past = year - 1;
    past * 365 + past / 4 - past / 100 + past / 400 - 719_162
}
