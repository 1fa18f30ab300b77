//! Hexadecimal encoding of bytes and integers.

use crate::value::{Error, Outcome, Value};

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The two digits of each byte, so that encoding a byte takes one load and one store.
const PAIRS: [[u8; 2]; 256] = {
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [DIGITS[byte >> 4], DIGITS[byte & 15]];
        byte += 1;
    }
    pairs
};

/// Marks a byte that is not a hexadecimal digit.
pub const NO_DIGIT: u8 = 0xFF;

/// The value of each digit, in either case.
pub const VALUES: [u8; 256] = {
    let mut values = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 16 {
        let digit = DIGITS[value];
        values[digit as usize] = value as u8;
        values[digit.to_ascii_uppercase() as usize] = value as u8;
        value += 1;
    }
    values
};

/// Appends two lowercase digits for each byte.
pub fn encode_hex(bytes: &[u8], out: &mut Vec<u8>) {
    let begin = out.len();
    out.resize(begin + 2 * bytes.len(), 0);
    let (pairs, _) = out[begin..].as_chunks_mut::<2>();
    for (pair, byte) in pairs.iter_mut().zip(bytes) {
        *pair = PAIRS[usize::from(*byte)];
    }
}

fn encode(bytes: &[u8]) -> Vec<u8> {
    let mut digits = Vec::with_capacity(2 * bytes.len());
    encode_hex(bytes, &mut digits);
    digits
}

/// Decodes two digits per byte. Returns `None` if the number of digits is odd, or if any other
/// character occurs.
fn decode(digits: &[u8]) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let mut seen = 0;
    let byte = |[high, low]: &[u8; 2]| {
        let (high, low) = (VALUES[usize::from(*high)], VALUES[usize::from(*low)]);
        seen |= high | low;
        high << 4 | low
    };
    let bytes = pairs.iter().map(byte).collect();
    // The value of a valid digit is below 16.
    (seen < 16).then_some(bytes)
}

/// Implements the `hex` function. Returns the digits of a string's bytes, or the 16 digits of an
/// integer's two's complement.
pub fn hex<'a>(values: &[Value<'a>]) -> Outcome<'a> {
    match &values[0] {
        Value::Text(text) => Ok(Value::owned(encode(text))),
        Value::Int(value) => Ok(Value::owned(encode(&value.to_be_bytes()))),
        _ => Err(Error::Mistyped),
    }
}

/// Implements the `unhex` function. Returns the bytes that a string encodes in hexadecimal.
pub fn unhex<'a>(values: &[Value<'a>]) -> Outcome<'a> {
    decode(values[0].text()?).map(Value::owned).ok_or(Error::Mistyped)
}

/// Implements the `unhexInt` function. Returns the integer that a string encodes in up to 16
/// hexadecimal digits.
pub fn unhex_int<'a>(values: &[Value<'a>]) -> Outcome<'a> {
    let digits = values[0].text()?;
    let value = digits
        .iter()
        .fold(0, |value: u64, digit| value << 4 | u64::from(VALUES[usize::from(*digit)] & 15));
    let is_digit = |digit: &u8| VALUES[usize::from(*digit)] != NO_DIGIT;
    let is_number = (1..=16).contains(&digits.len()) && digits.iter().all(is_digit);
    is_number.then_some(Value::Int(value.cast_signed())).ok_or(Error::Mistyped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    fn text(text: &[u8]) -> Value<'_> {
        Value::Text(Cow::Borrowed(text))
    }

    #[test]
    fn every_byte_has_two_digits_and_returns() {
        let all: Vec<u8> = (0..=255).collect();
        let expected: String = all.iter().map(|byte| format!("{byte:02x}")).collect();
        let digits = encode(&all);
        assert_eq!(String::from_utf8(digits.clone()).unwrap(), expected);
        assert_eq!(decode(&digits).as_deref(), Some(&all[..]));
        assert_eq!(decode(expected.to_uppercase().as_bytes()).as_deref(), Some(&all[..]));
    }

    #[test]
    fn other_characters_are_no_digits() {
        for byte in (0..=255).filter(|byte: &u8| !byte.is_ascii_hexdigit()) {
            assert_eq!((decode(&[b'0', byte]), decode(&[byte, b'0'])), (None, None), "{byte}");
            assert!(unhex_int(&[text(&[b'1', byte])]).is_err(), "{byte}");
        }
        assert_eq!((decode(b""), decode(b"abc")), (Some(Vec::new()), None));
    }

    #[test]
    fn integers_have_sixteen_digits() {
        for value in [0, 1, -1, i64::MIN, i64::MAX, 0x0123_4567_89ab_cdef] {
            let Ok(Value::Text(digits)) = hex(&[Value::Int(value)]) else { panic!("{value}") };
            assert_eq!(*digits, *format!("{value:016x}").as_bytes());
            assert!(matches!(unhex_int(&[text(&digits)]), Ok(Value::Int(back)) if back == value));
        }
        assert!(matches!(unhex_int(&[text(b"fF")]), Ok(Value::Int(255))));
        assert!(unhex_int(&[text(b"")]).is_err() && unhex_int(&[text(&[b'0'; 17])]).is_err());
    }
}
