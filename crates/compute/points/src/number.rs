//! Decimal number parsing.

/// Powers of ten that a float represents exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// Maximum integer below which a float represents every integer exactly.
const EXACT_MAX: u64 = 1 << 53;

/// Maximum number of digits that always fit into 64 bits.
const DIGITS_MAX: usize = 19;

/// Parses a number as the standard library does: decimal, with an optional sign, fraction and
/// exponent, or a word for infinity or NaN. Returns `None` if `text` is not a number.
#[inline]
pub fn parse(text: &[u8]) -> Option<f64> {
    parse_short(text, text.len()).or_else(|| parse_slow(text))
}

/// Parses the first `len` bytes of `rest`. Faster than [`parse`], because it may also load the
/// bytes that follow.
///
/// # Panics
/// Panics if `rest` is shorter than `len`.
#[inline(always)]
pub fn parse_start(rest: &[u8], len: usize) -> Option<f64> {
    parse_short(rest, len).or_else(|| parse_slow(&rest[..len]))
}

/// Parses the first `len` bytes of `rest`. Returns `None` unless they are up to eight bytes that
/// consist of digits and possibly a decimal point, and `rest` has at least eight bytes.
#[inline(always)]
pub fn parse_short(rest: &[u8], len: usize) -> Option<f64> {
    let bytes = rest.first_chunk::<8>().filter(|_| (1..=8).contains(&len))?;
    let bits = 8 * len as u32;
    // Shifts out the bytes after the number, and pads the number with leading zeros.
    let padded = u64::from_le_bytes(*bytes) << (64 - bits) | ZEROS.unbounded_shr(bits);
    match without_point(padded) {
        None => are_digits(padded).then(|| value_of(padded) as f64),
        // A single decimal point is not a number.
        Some(_) if len == 1 => None,
        Some((digits, fraction)) => {
            are_digits(digits).then(|| value_of(digits) as f64 / POWERS[fraction])
        }
    }
}

/// Eight ASCII zeros.
const ZEROS: u64 = 0x3030_3030_3030_3030;

/// Removes the first decimal point from eight bytes, and returns the number of bytes after it.
/// Returns `None` if there is no decimal point.
#[inline(always)]
fn without_point(text: u64) -> Option<(u64, usize)> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let points = text ^ (ONES * b'.' as u64);
    // Marks the high bit of the lowest zero byte, and possibly of higher bytes.
    let found = points.wrapping_sub(ONES) & !points & (ONES << 7);
    if found == 0 {
        return None;
    }
    let at = found.trailing_zeros() & !7;
    let before = (1 << at) - 1;
    let after = u64::MAX.unbounded_shl(at + 8);
    Some(((text & before) << 8 | u64::from(b'0') | text & after, 7 - at as usize / 8))
}

/// Returns whether all eight bytes are digits.
#[inline(always)]
fn are_digits(text: u64) -> bool {
    const HIGH: u64 = 0xF0F0_F0F0_F0F0_F0F0;
    // Adding 6 to a byte above '9' changes its high nibble.
    text & HIGH == ZEROS && text.wrapping_add(0x0606_0606_0606_0606) & HIGH == ZEROS
}

/// Returns the value of eight digits by combining neighbors into numbers with two, four and eight
/// digits.
#[inline(always)]
fn value_of(digits: u64) -> u64 {
    let pairs = (digits & 0x0F0F_0F0F_0F0F_0F0F).wrapping_mul((10 << 8) + 1) >> 8;
    let fours = (pairs & 0x00FF_00FF_00FF_00FF).wrapping_mul((100 << 16) + 1) >> 16;
    (fours & 0x0000_FFFF_0000_FFFF).wrapping_mul((10_000 << 32) + 1) >> 32
}

/// Parses a number in any form. Returns `None` if `text` is not a number.
#[inline(never)]
fn parse_slow(text: &[u8]) -> Option<f64> {
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1.0, digits),
        [b'+', digits @ ..] => (1.0, digits),
        _ => (1.0, text),
    };
    decimal(digits)
        .map(|value| sign * value)
        .or_else(|| std::str::from_utf8(text).ok()?.parse().ok())
}

/// Parses digits with a decimal point if a single division rounds correctly (Clinger, "How to read
/// floating point numbers accurately").
fn decimal(text: &[u8]) -> Option<f64> {
    let (mut value, mut point, mut count) = (0_u64, None, 0);
    if text.len() > DIGITS_MAX + 1 {
        return None;
    }
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'0'..=b'9' if count < DIGITS_MAX => {
                value = value * 10 + u64::from(byte - b'0');
                count += 1;
            }
            b'.' if point.is_none() => point = Some(at),
            _ => return None,
        }
    }
    let fraction = point.map_or(0, |at| text.len() - at - 1);
    (count > 0 && value <= EXACT_MAX).then(|| value as f64 / POWERS[fraction])
}

/// The latest time in Unix seconds whose nanoseconds fit into 64 bits, which is in the year 2262.
const SECONDS_MAX: i64 = i64::MAX / 1_000_000_000;

/// Returns a time in Unix seconds if it is positive and its nanoseconds fit into 64 bits.
pub fn valid_seconds(seconds: i64) -> Option<i64> {
    (1..=SECONDS_MAX).contains(&seconds).then_some(seconds)
}

/// Parses an unsigned integer, such as a time in seconds or a length. Returns `None` for any other
/// text, and above the maximum of `i64`.
pub fn parse_int(text: &[u8]) -> Option<i64> {
    let is_digits = text.first().is_some_and(u8::is_ascii_digit);
    let text = std::str::from_utf8(text).ok().filter(|_| is_digits)?;
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_testkit_random::{TestSize, property};
    use proptest::prelude::*;

    fn check(text: &[u8]) {
        let expected = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
        let rest = [text, b"|c|#more:tags"].concat();
        for found in [parse(text), parse_start(&rest, text.len())] {
            assert_eq!(
                found.map(f64::to_bits),
                expected.map(f64::to_bits),
                "{:?}",
                String::from_utf8_lossy(text)
            );
        }
    }

    #[test]
    fn edge_cases_parse_as_in_the_standard_library() {
        let texts = "0 1 9 -0 +0 -0.0 . .5 5. -.5 +5. +. - + -- +-1 1.2.3 ..1 1.. 12345678 1234567. .1234567 123456789 \
            0.1 12.5 99999999 9007199254740992 9007199254740993 18446744073709551616 9999999999999999999 \
            0.0000000000000000001 00000000000000000001 1e3 1E3 1e400 -1e400 1e-400 inf -inf nan NaN infinity INF 0x10 \
            1_000 1,5 : / 12:3 1234567: /2345678 1700000000.123 179769313486231570000000000000000000000";
        texts.split(' ').for_each(|text| check(text.as_bytes()));
        [&b""[..], b" ", b" 1", b"1 ", b"\0", b"1\0", b"\xFF", b"\xB1", b"1\n"]
            .into_iter()
            .for_each(check);
        for len in 1..30 {
            check(&vec![b'9'; len]);
            (0..len)
                .for_each(|at| check(&[&vec![b'4'; at][..], b".", &vec![b'7'; len - at]].concat()));
        }
    }

    #[test]
    fn integers_are_digits_without_a_sign() {
        assert_eq!(parse_int(b"1700000000"), Some(1_700_000_000));
        for text in [&b""[..], b"+1", b"-1", b"1.0", b"1x", b"9223372036854775808", b"\xFF"] {
            assert_eq!(parse_int(text), None);
        }
    }

    /// Number of cases per property.
    const CASES: TestSize = TestSize { gate: 256, long: 10_000 };

    proptest! {
        #![proptest_config(property(CASES))]

        #[test]
        fn any_formatted_float_round_trips(bits in any::<u64>(), digits in 0_usize..20) {
            let value = f64::from_bits(bits);
            check(value.to_string().as_bytes());
            check(format!("{value:e}").as_bytes());
            check(format!("{:.digits$}", bits as f64 / 1e9).as_bytes());
        }

        #[test]
        fn number_like_text_parses_as_in_the_standard_library(text in "[-+]?[0-9.:/]{0,24}(e[0-9]{1,3})?") {
            check(text.as_bytes());
        }
    }
}
