//! Components of timestamps and durations.

use crate::time::{DAY_SECONDS, SECOND};
use crate::value::{Error, Outcome, Value};
use millstream_timestamps::civil;

/// Returns a component of a timestamp or duration, by the name of its function.
pub fn part(name: &str, operand: &Value<'_>, zone: Option<&Value<'_>>) -> Outcome<'static> {
    let value = match (operand, zone) {
        (Value::Time(ns), None) => part_of_time(name, *ns),
        (Value::Time(ns), Some(zone)) => {
            let zone = std::str::from_utf8(zone.text()?).map_err(|_| Error::Mistyped)?;
            let seconds = zone_seconds(zone).ok_or(Error::Mistyped)?;
            let local = ns.checked_add(seconds * SECOND).ok_or(Error::Arithmetic)?;
            part_of_time(name, local)
        }
        (Value::Duration(ns), None) => part_of_duration(name, *ns),
        _ => None,
    };
    value.map(Value::Int).ok_or(Error::Mistyped)
}

/// Parses a UTC offset into seconds: `UTC`, `+02:00`, `-02:30`, `02:00`. Returns `None` for any
/// other text.
fn zone_seconds(zone: &str) -> Option<i64> {
    let signed = if zone.starts_with(|c: char| c.is_ascii_digit()) {
        format!("+{zone}")
    } else {
        zone.into()
    };
    millstream_timestamps::parse_utc_offset(&signed).map(i64::from)
}

fn part_of_time(name: &str, unix_ns: i64) -> Option<i64> {
    let seconds = unix_ns.div_euclid(SECOND);
    let (days, second) = (seconds.div_euclid(DAY_SECONDS), seconds.rem_euclid(DAY_SECONDS));
    let (year, month, day) = civil(days);
    Some(match name {
        "getFullYear" => year,
        "getMonth" => i64::from(month) - 1,
        "getDate" => i64::from(day),
        "getDayOfMonth" => i64::from(day) - 1,
        // 1970 began on a Thursday, which is day 4 if Sunday is day 0.
        "getDayOfWeek" => (days + 4).rem_euclid(7),
        "getDayOfYear" => day_of_year(year, month, day),
        "getHours" => second / 3600,
        "getMinutes" => second / 60 % 60,
        "getSeconds" => second % 60,
        "getMilliseconds" => unix_ns.rem_euclid(SECOND) / 1_000_000,
        _ => return None,
    })
}

/// Returns the day of the year, counted from 0.
fn day_of_year(year: i64, month: u32, day: u32) -> i64 {
    const BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    BEFORE[month as usize - 1] + i64::from(is_leap && month > 2) + i64::from(day) - 1
}

fn part_of_duration(name: &str, ns: i64) -> Option<i64> {
    Some(match name {
        "getHours" => ns / (3600 * SECOND),
        "getMinutes" => ns / (60 * SECOND),
        "getSeconds" => ns / SECOND,
        "getMilliseconds" => ns % SECOND / 1_000_000,
        _ => return None,
    })
}
