//! Timestamps and durations, in nanoseconds.

use millstream_timestamps::{Format, civil};
use std::io::Write;
use std::sync::LazyLock;

pub const SECOND: i64 = 1_000_000_000;
pub const DAY_SECONDS: i64 = 86_400;

static RFC3339: LazyLock<Option<Format>> = LazyLock::new(|| Format::new("rfc3339", None).ok());

/// Parses an RFC 3339 timestamp into nanoseconds since 1970. Returns `None` if the text is not a
/// timestamp.
pub fn timestamp(text: &[u8]) -> Option<i64> {
    let stamp = RFC3339.as_ref()?.parse(text, 0).ok()?;
    (stamp.len == text.len()).then_some(stamp.ns)
}

/// Appends an RFC 3339 timestamp, with as few fractional digits as possible.
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

/// Parses a duration, which consists of numbers with units, such as `1h30m` or `-1.5s`. Returns its
/// nanoseconds, or `None` if the text is not a duration or exceeds 64 bits.
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

/// Returns a decimal number times a unit, truncated to nanoseconds. Returns `None` if the number is
/// invalid or too long.
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
        // Dividing repeatedly could accumulate rounding errors, but `place` stays exact down to a
        // nanosecond.
        ns += i128::from(digit - b'0') * place / 10;
        place /= 10;
    }
    Some(ns)
}
