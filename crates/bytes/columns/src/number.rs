//! Number parsing.

/// A parsed number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An integer.
    Int(i64),
    /// Any other finite number.
    Float(f64),
}

impl Number {
    /// Parses a JSON number. An integer outside the range of `i64` becomes a float. Returns `None`
    /// if the text is not a finite number.
    pub fn parse(text: &[u8]) -> Option<Number> {
        parse_int(text).map(Number::Int).or_else(|| parse_float(text).map(Number::Float))
    }

    /// Converts to a float, which can lose precision.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Int(value) => value as f64,
            Number::Float(value) => value,
        }
    }
}

/// Parses digits with an optional minus sign. Returns `None` for any other text and for a number
/// outside the range of `i64`.
#[inline]
pub fn parse_int(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        _ => (false, text),
    };
    // 18 digits cannot overflow.
    if digits.is_empty() || digits.len() > 18 {
        return std::str::from_utf8(text).ok().filter(|text| !text.starts_with('+'))?.parse().ok();
    }
    let mut value = 0;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + i64::from(digit);
    }
    Some(if negative { -value } else { value })
}

/// Parses a decimal number with an optional fraction and exponent. Returns `None` for any other
/// text and for a value that is not finite.
#[inline]
pub fn parse_float(text: &[u8]) -> Option<f64> {
    parse_short(text).or_else(|| {
        let is_part =
            |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+' | b'e' | b'E');
        let text = std::str::from_utf8(text)
            .ok()
            .filter(|text| text.bytes().all(|byte| is_part(&byte)))?;
        text.parse::<f64>().ok().filter(|value| value.is_finite())
    })
}

/// Parses up to 15 characters: digits with an optional decimal point. Returns `None` for any other
/// text. Integers of up to 15 digits and powers of ten up to 10²² are exact in an `f64`, so a
/// single division rounds correctly (Clinger, "How to read floating point numbers accurately").
fn parse_short(text: &[u8]) -> Option<f64> {
    const POWERS: [f64; 16] =
        [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
    let (mut value, mut point) = (0u64, None);
    if text.len() > 15 || !text.first()?.is_ascii_digit() || !text.last()?.is_ascii_digit() {
        return None;
    }
    for (at, byte) in text.iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            value = value * 10 + u64::from(digit);
        } else if *byte == b'.' && point.is_none() {
            point = Some(at);
        } else {
            return None;
        }
    }
    Some(value as f64 / POWERS[point.map_or(0, |at| text.len() - at - 1)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_parsed_over_the_whole_range() {
        let edges = [
            0,
            1,
            -1,
            9,
            10,
            i64::MAX,
            i64::MIN,
            999_999_999_999_999_999,
            -999_999_999_999_999_999,
        ];
        edges
            .iter()
            .for_each(|value| assert_eq!(parse_int(value.to_string().as_bytes()), Some(*value)));
        for text in
            ["", "-", "+1", "1.0", "1e3", " 1", "9223372036854775808", "-9223372036854775809", "x"]
        {
            assert_eq!(parse_int(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn floats_parse_as_in_the_standard_library() {
        let texts = [
            "0.004",
            "1.5",
            "0.1",
            "123456.789",
            "99999999999.999",
            "1e3",
            "-0.25",
            "1.7976931348623157e308",
        ];
        for text in texts {
            let expected: f64 = text.parse().unwrap();
            assert_eq!(
                parse_float(text.as_bytes()).map(f64::to_bits),
                Some(expected.to_bits()),
                "{text}"
            );
        }
        for text in ["", ".", "1.2.3", "1e400", "inf", "nan", "0x1", "1 "] {
            assert_eq!(parse_float(text.as_bytes()), None, "{text}");
        }
        assert_eq!(
            Number::parse(b"18446744073709551616"),
            Some(Number::Float(18446744073709551616.0))
        );
        assert_eq!(Number::parse(b"12"), Some(Number::Int(12)));
    }
}
