//! Formats numbers and times as text.

use millstream_model::CellKind;
use millstream_timestamps::Format;
pub use millstream_timestamps::{RFC3339_BYTES, Rfc3339, civil, push_rfc3339};
use std::io::Write;

/// Number of digits in the largest `u64`.
pub const DIGITS_MAX: usize = 20;

/// Parses an RFC 3339 time. Returns the time in nanoseconds since 1970.
///
/// # Errors
///
/// Returns an error if the text is not a time; the message shows a valid time.
pub fn parse_rfc3339(text: &str) -> Result<i64, String> {
    let format = Format::new("rfc3339", None)?;
    match format.parse(text.as_bytes(), 0) {
        Ok(stamp) if stamp.len == text.len() => Ok(stamp.ns),
        _ => Err(format!("{text:?} is not a time; use, for example, 2026-11-21T20:29:46Z")),
    }
}

/// Appends `number` in decimal.
#[inline]
pub fn push_decimal(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(decimal(number, &mut [0; DIGITS_MAX]));
}

/// Renders `number` in decimal at the end of `digits`, and returns the rendered part.
#[inline]
pub fn decimal(mut number: u64, digits: &mut [u8; DIGITS_MAX]) -> &[u8] {
    const PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819\
        2021222324252627282930313233343536373839\
        4041424344454647484950515253545556575859\
        6061626364656667686970717273747576777879\
        8081828384858687888990919293949596979899";
    let mut at = digits.len();
    while number >= 10 {
        let pair = (number % 100) as usize * 2;
        number /= 100;
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if number > 0 || at == digits.len() {
        at -= 1;
        digits[at] = b'0' + number as u8;
    }
    &digits[at..]
}

/// Largest absolute value of a whole number that is written as an integer. Above 2^53, some
/// integers have no exact float.
const WHOLE_MAX: f64 = (1u64 << 53) as f64;

/// Appends a finite number as JSON, in the shortest form that reads back as the same value.
pub fn push_number(value: f64, out: &mut Vec<u8>) -> CellKind {
    if value.fract() == 0.0 && value.abs() <= WHOLE_MAX {
        if value < 0.0 {
            out.push(b'-');
        }
        push_decimal(out, value.abs() as u64);
        return CellKind::Int;
    }
    // Writing to memory does not fail.
    let _ = write!(out, "{value:?}");
    CellKind::Float
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_whole_text() {
        assert_eq!(parse_rfc3339("1970-01-01T01:00:01.000000002+01:00"), Ok(1_000_000_002));
        for text in [
            "",
            "noon",
            "1970-01-01",
            "1970-01-01T00:00:00",
            "1970-02-30T00:00:00Z",
            "1970-01-01T00:00:00Z ",
        ] {
            let message = format!("{text:?} is not a time; use, for example, 2026-11-21T20:29:46Z");
            assert_eq!(parse_rfc3339(text), Err(message));
        }
    }

    #[test]
    fn decimals_read_back() {
        let edges = (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        for number in (0..2000).chain(edges).chain([u64::MAX, 99_999, 100_000, 1_000_000_007]) {
            let mut out = Vec::new();
            push_decimal(&mut out, number);
            assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
        }
    }
}
