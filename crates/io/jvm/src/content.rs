//! Checks whether a value's bytes fit its kind.

use serde::de::IgnoredAny;

/// Returns whether the text is a JSON number with neither a fraction nor an exponent.
#[inline]
pub fn is_int(text: &[u8]) -> bool {
    integer(text).is_some_and(<[u8]>::is_empty)
}

/// Returns whether the text is a JSON number with a fraction or an exponent.
#[inline]
pub fn is_float(text: &[u8]) -> bool {
    let Some(rest) = integer(text).filter(|rest| !rest.is_empty()) else { return false };
    let rest = match rest {
        [b'.', fraction @ ..] => digits(fraction),
        rest => Some(rest),
    };
    match rest {
        Some([]) => true,
        Some([b'e' | b'E', b'+' | b'-', exponent @ ..] | [b'e' | b'E', exponent @ ..]) => {
            digits(exponent).is_some_and(<[u8]>::is_empty)
        }
        _ => false,
    }
}

/// Returns the text that follows a JSON integer; `None` if the text does not begin with one.
#[inline]
fn integer(text: &[u8]) -> Option<&[u8]> {
    let unsigned = text.strip_prefix(b"-").unwrap_or(text);
    let rest = digits(unsigned)?;
    let has_leading_zero = unsigned[0] == b'0' && unsigned.len() - rest.len() > 1;
    (!has_leading_zero).then_some(rest)
}

/// Returns the text that follows one or more digits; `None` if the text does not begin with a
/// digit.
#[inline]
fn digits(text: &[u8]) -> Option<&[u8]> {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (count > 0).then(|| &text[count..])
}

/// Returns whether the text is a time such as `2026-01-02T03:04:05.123456789Z`. The fraction of a
/// second is optional and has up to nine digits.
pub fn is_time(text: &[u8]) -> bool {
    const SHAPE: &[u8; 19] = b"0000-00-00T00:00:00";
    let Some((head, tail)) = text.split_at_checked(SHAPE.len()) else { return false };
    let fits = |(byte, shape): (&u8, &u8)| match shape {
        b'0' => byte.is_ascii_digit(),
        other => byte == other,
    };
    if !head.iter().zip(SHAPE).all(fits) {
        return false;
    }
    let two = |at: usize| u32::from(head[at] - b'0') * 10 + u32::from(head[at + 1] - b'0');
    let year = two(0) * 100 + two(2);
    let is_date = (1..=12).contains(&two(5)) && (1..=days(year, two(5))).contains(&two(8));
    is_date && two(11) < 24 && two(14) < 60 && two(17) < 60 && is_fraction(tail)
}

fn is_fraction(tail: &[u8]) -> bool {
    match tail {
        [b'Z'] => true,
        [b'.', fraction @ .., b'Z'] => {
            (1..=9).contains(&fraction.len()) && fraction.iter().all(u8::is_ascii_digit)
        }
        _ => false,
    }
}

fn days(year: u32, month: u32) -> u32 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns whether the text is a JSON object on one line.
pub fn is_object(text: &[u8]) -> bool {
    text.first() == Some(&b'{') && is_json(text)
}

/// Returns whether the text is a JSON array on one line.
pub fn is_array(text: &[u8]) -> bool {
    text.first() == Some(&b'[') && is_json(text)
}

/// Returns whether the text consists of JSON object members on one line, without the braces, and
/// without spaces around names and values. `object` is a buffer that is reused between calls.
pub fn is_members(text: &[u8], object: &mut Vec<u8>) -> bool {
    object.clear();
    object.push(b'{');
    object.extend_from_slice(text);
    object.push(b'}');
    is_json(object) && !has_space_between(text)
}

/// Returns whether valid members contain a space outside of strings, objects and arrays.
fn has_space_between(members: &[u8]) -> bool {
    let (mut depth, mut at) = (0usize, 0);
    let mut is_text = false;
    while let Some(byte) = members.get(at) {
        match (byte, is_text) {
            (b'\\', true) => at += 1,
            (b'"', _) => is_text = !is_text,
            (b'{' | b'[', false) => depth += 1,
            (b'}' | b']', false) => depth = depth.saturating_sub(1),
            (b' ', false) if depth == 0 => return true,
            _ => {}
        }
        at += 1;
    }
    false
}

/// Returns whether the text is JSON on one line. A line break between two tokens is valid in JSON,
/// but would end the line that an encoder writes.
fn is_json(text: &[u8]) -> bool {
    let has_control = text.iter().fold(false, |found, byte| found | (*byte < b' '));
    !has_control
        && str::from_utf8(text).is_ok()
        && serde_json::from_slice::<IgnoredAny>(text).is_ok()
}

/// Returns whether the text is valid between the quotation marks of a JSON string.
pub fn is_escaped(text: &[u8]) -> bool {
    let mut quoted = Vec::with_capacity(text.len() + 2);
    quoted.push(b'"');
    quoted.extend_from_slice(text);
    quoted.push(b'"');
    serde_json::from_slice::<String>(&quoted).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_testkit_random::{Seed, TestSize};

    fn all(check: fn(&[u8]) -> bool, texts: &[&str]) -> bool {
        texts.iter().all(|text| check(text.as_bytes()))
    }

    fn none(check: fn(&[u8]) -> bool, texts: &[&str]) -> bool {
        !texts.iter().any(|text| check(text.as_bytes()))
    }

    #[test]
    fn integers_are_those_of_json() {
        assert!(all(is_int, &["0", "-0", "7", "-12", "123456789012345678901234567890"]));
        assert!(none(
            is_int,
            &["", "-", "+1", "01", "-01", "1.0", "1e3", " 1", "1 ", "x", "0x1", "1-"]
        ));
    }

    #[test]
    fn floats_have_a_fraction_or_an_exponent() {
        assert!(all(is_float, &["0.0", "-1.5", "1e3", "1E+3", "10.25e-7", "0e0"]));
        let wrong = [
            "", "1", "-", "1.", ".5", "1.e3", "1e", "1e+", "01.5", "NaN", "Infinity", "1.5x",
            "1e3.5", "--1.0",
        ];
        assert!(none(is_float, &wrong));
    }

    /// Number of random strings, built from the characters that occur in numbers.
    const TEXTS: TestSize = TestSize { gate: 20_000, long: 1_000_000 };

    #[test]
    fn numbers_agree_with_serde_json() {
        let alphabet = b"01-+.eE9";
        let mut random = Seed::of_test().random();
        for _ in random.rounds(TEXTS) {
            let len = random.usize(0..6);
            let text: Vec<u8> = (0..len).map(|_| alphabet[random.usize(0..8)]).collect();
            let is_number = serde_json::from_slice::<IgnoredAny>(&text).is_ok();
            let shown = String::from_utf8_lossy(&text);
            assert_eq!(is_int(&text) || is_float(&text), is_number, "{shown}");
            assert!(!(is_int(&text) && is_float(&text)), "{shown}");
        }
    }

    #[test]
    fn times_are_in_utc_and_exist() {
        let right = [
            "2026-01-02T03:04:05Z",
            "2026-01-02T03:04:05.1Z",
            "2026-01-02T03:04:05.123456789Z",
            "2024-02-29T23:59:59Z",
            "0000-01-01T00:00:00Z",
        ];
        assert!(all(is_time, &right));
        let wrong = [
            "",
            "2026-01-02",
            "2026-01-02T03:04:05",
            "2026-01-02T03:04:05+00:00",
            "2026-01-02t03:04:05z",
            "2026-01-02T03:04:05.Z",
            "2026-01-02T03:04:05.1234567890Z",
            "2026-13-02T03:04:05Z",
            "2026-00-02T03:04:05Z",
            "2026-02-29T03:04:05Z",
            "1900-02-29T03:04:05Z",
            "2026-04-31T03:04:05Z",
            "2026-01-02T24:04:05Z",
            "2026-01-02T03:60:05Z",
            "2026-01-02T03:04:60Z",
            "2026-01-02T03:04:05.1x3Z",
            "+2026-01-02T03:04:05Z",
        ];
        assert!(none(is_time, &wrong));
    }

    #[test]
    fn objects_and_arrays_are_valid_json_on_one_line() {
        let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
        assert!(all(is_object, &["{}", r#"{"a":[1,{"b":null}],"c":"\n"}"#]));
        assert!(all(is_array, &["[]", "[1, 2]", &deep]));
        assert!(none(is_object, &["", "[]", "{", "{\n}", "{\"a\":1}x", "{a:1}", " {}"]));
        assert!(none(is_array, &["{}", "[1,]", "[", "[\t]"]));
        assert!(!is_object(b"{\"a\":\"\xff\"}"));
    }

    #[test]
    fn escaped_text_can_stand_between_quotes() {
        assert!(all(is_escaped, &["", "plain", r"a\n\u00e9\\", "é"]));
        assert!(none(is_escaped, &["\"", "a\nb", r"\x", r"\", r"\u12"]));
        assert!(!is_escaped(b"\xff"));
    }
}
