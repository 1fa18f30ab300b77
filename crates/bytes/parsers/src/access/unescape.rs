//! Decoding of the escapes that servers write.

use super::Escape;

/// Decodes the escapes in a value. Invalid escapes stay unchanged.
pub(super) fn unescape(text: &[u8], escape: Escape) -> Vec<u8> {
    if escape == Escape::Json {
        return millstream_columns::unescape(text).into_owned();
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, behind)) = rest.split_first() {
        let (byte, len) = if *byte == b'\\' { escaped(behind, escape) } else { (*byte, 0) };
        out.push(byte);
        rest = &behind[len..];
    }
    out
}

/// Decodes the escape after a backslash. Returns the byte, and the number of bytes of `behind` that
/// belong to the escape.
fn escaped(behind: &[u8], escape: Escape) -> (u8, usize) {
    if let [b'x', high, low, ..] = behind
        && let (Some(high), Some(low)) = (hex(*high), hex(*low))
    {
        return (high << 4 | low, 3);
    }
    let letter = behind.first().filter(|_| escape == Escape::Backslash);
    match letter {
        Some(b'n') => (b'\n', 1),
        Some(b'r') => (b'\r', 1),
        Some(b't') => (b'\t', 1),
        Some(b'b') => (8, 1),
        Some(b'f') => (12, 1),
        Some(b'v') => (11, 1),
        Some(b'"') => (b'"', 1),
        Some(b'\\') => (b'\\', 1),
        _ => (b'\\', 0),
    }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_per_server() {
        let nginx = |text: &str| unescape(text.as_bytes(), Escape::Default);
        assert_eq!(nginx(r"a\x22b\x5Cc\x0a"), b"a\"b\\c\n");
        assert_eq!(nginx(r"\n\x\x1\xZZ\"), br"\n\x\x1\xZZ\");
        let apache = |text: &str| unescape(text.as_bytes(), Escape::Backslash);
        assert_eq!(apache(r#"a\"b\\c\n\t\x7f\q\"#), b"a\"b\\c\n\t\x7f\\q\\");
        assert_eq!(unescape(br#"a\"b\u00e9\\"#, Escape::Json), "a\"b\u{e9}\\".as_bytes());
        assert_eq!(unescape(b"\\x4", Escape::Default), b"\\x4");
    }
}
