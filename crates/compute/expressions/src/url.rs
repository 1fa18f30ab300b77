//! Percent-encoding of URLs.

use crate::hex::{NO_DIGIT, VALUES};
use crate::value::{Outcome, Value};

const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

/// Implements the `urlEncode` function. Returns a string encoded for use in a URL. All bytes except
/// the unreserved ones (RFC 3986) are encoded.
pub fn url_encode<'a>(values: &[Value<'a>]) -> Outcome<'a> {
    let text = values[0].text()?;
    let mut out = Vec::with_capacity(text.len());
    for byte in text.iter() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(*byte),
            _ => out.extend([b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]),
        }
    }
    Ok(Value::owned(out))
}

/// Implements the `urlDecode` function. Returns the string that a part of a URL encodes. A plus
/// sign becomes a space, as in a query. A percent sign that two digits do not follow is kept.
pub fn url_decode<'a>(values: &[Value<'a>]) -> Outcome<'a> {
    let mut rest: &[u8] = values[0].text()?;
    let mut out = Vec::with_capacity(rest.len());
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        let value = |digit: &u8| VALUES[usize::from(*digit)];
        match (first, behind) {
            (b'%', [high, low, behind @ ..]) if value(high) | value(low) != NO_DIGIT => {
                out.push(value(high) << 4 | value(low));
                rest = behind;
            }
            (b'+', _) => out.push(b' '),
            (byte, _) => out.push(*byte),
        }
    }
    Ok(Value::owned(out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    fn run(function: for<'a> fn(&[Value<'a>]) -> Outcome<'a>, text: &[u8]) -> Vec<u8> {
        let Ok(Value::Text(text)) = function(&[Value::Text(Cow::Borrowed(text))]) else {
            panic!("no text")
        };
        text.into_owned()
    }

    #[test]
    fn every_byte_returns() {
        let all: Vec<u8> = (0..=255).collect();
        let encoded = run(url_encode, &all);
        assert!(encoded.iter().all(|byte| byte.is_ascii_alphanumeric() || b"%-._~".contains(byte)));
        assert_eq!(run(url_decode, &encoded), all);
        assert_eq!(run(url_decode, &encoded.to_ascii_lowercase()).len(), all.len());
    }

    #[test]
    fn what_encodes_nothing_stays() {
        let text = run(url_decode, b"100%+%4 %zz%%41%2");
        assert_eq!(text, b"100% %4 %zz%A%2");
    }
}
