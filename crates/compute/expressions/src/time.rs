//! Timestamps and durations, in nanoseconds.

use crate::value::{Error, Outcome, Value};
use millstream_timestamps::{Format, civil};
use std::io::Write;
use std::sync::LazyLock;

const SECOND: i64 = 1_000_000_000;
const DAY_SECONDS: i64 = 86_400;

static RFC3339: LazyLock<Option<Format>> = LazyLock::new(|| Format::new("rfc3339", None).ok());

/// Parses an RFC 3339 timestamp into nanoseconds since 1970.
pub fn timestamp(text: &[u8]) -> Option<i64> {
    let stamp = RFC3339.as_ref()?.parse(text, 0).ok()?;
    (stamp.len == text.len()).then_some(stamp.ns)
}

/// Appends an RFC 3339 timestamp with as few fractional digits as needed.
pub fn push_timestamp(unix_ns: i64, out: &mut Vec<u8>) {
    let (seconds, fraction) = (unix_ns.div_euclid(SECOND), unix_ns.rem_euclid(SECOND));
    let (year, month, day) = civil(seconds.div_euclid(DAY_SECONDS));
    let second = seconds.rem_euclid(DAY_SECONDS);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    // Writing to a vector does not fail.
    let _ = write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    push_fraction(fraction, out);
    out.push(b'Z');
}

/// Appends a duration in seconds, such as `1.5s`.
pub fn push_duration(ns: i64, out: &mut Vec<u8>) {
    let symbol = if ns < 0 { "-" } else { "" };
    let ns = ns.unsigned_abs();
    let _ = write!(out, "{symbol}{}", ns / SECOND as u64);
    push_fraction((ns % SECOND as u64) as i64, out);
    out.push(b's');
}

fn push_fraction(ns: i64, out: &mut Vec<u8>) {
    if ns != 0 {
        let digits = format!("{ns:09}");
        out.push(b'.');
        out.extend_from_slice(digits.trim_end_matches('0').as_bytes());
    }
}

const UNITS: &[(&str, i64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("h", 3600 * SECOND),
    ("m", 60 * SECOND),
    ("s", SECOND),
];

/// Parses a duration: numbers with units, such as `1h30m` or `-1.5s`.
pub fn duration(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total = 0i128;
    loop {
        let len = rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        let (number, after) = rest.split_at(len);
        let (unit, ns) = UNITS.iter().find(|(unit, _)| after.starts_with(unit))?;
        total = total.checked_add(scaled(number, *ns)?)?;
        rest = &after[unit.len()..];
        if rest.is_empty() {
            return i64::try_from(if negative { -total } else { total }).ok();
        }
    }
}

/// Returns a decimal number times a unit, truncated to nanoseconds.
fn scaled(number: &str, unit_ns: i64) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_empty = whole.is_empty() && fraction.is_empty();
    if is_empty || fraction.contains('.') || whole.len() > 19 {
        return None;
    }
    let mut ns =
        if whole.is_empty() { 0 } else { whole.parse::<i128>().ok()? } * i128::from(unit_ns);
    let mut place = i128::from(unit_ns);
    for digit in fraction.bytes().take(15) {
        // Repeated division could accumulate rounding errors, but `place` stays exact down to a
        // nanosecond.
        ns += i128::from(digit - b'0') * place / 10;
        place /= 10;
    }
    Some(ns)
}

/// Returns a component of a timestamp or a duration.
pub fn part(name: &str, of: &Value<'_>, zone: Option<&Value<'_>>) -> Outcome<'static> {
    let value = match (of, zone) {
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

/// Parses an offset from UTC: `UTC`, `+02:00`, `-02:30`, `02:00`.
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
        // 1970 began on a Thursday, day 4 of a week that starts with Sunday as day 0.
        "getDayOfWeek" => (days + 4).rem_euclid(7),
        "getDayOfYear" => day_of_year(year, month, day),
        "getHours" => second / 3600,
        "getMinutes" => second / 60 % 60,
        "getSeconds" => second % 60,
        "getMilliseconds" => unix_ns.rem_euclid(SECOND) / 1_000_000,
        _ => return None,
    })
}

/// Returns the day of the year, starting at 0.
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
