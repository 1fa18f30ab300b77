//! Escapes and null values in lines.

use crate::{Fields, Input};
use millstream_columns::{Cell, Kind};

/// Unescapes a value: JSON escapes, a backslash before one of `special`, and doubled quotes. Other
/// backslashes are kept, as in `CORP\ada`.
pub(crate) fn unescape(text: &[u8], special: &[u8], doubled: Option<u8>) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [byte, behind @ ..] = rest {
        rest = behind;
        match (byte, behind.first()) {
            (b'\\', Some(escape)) => {
                rest = &behind[unescape_one(*escape, behind, special, &mut out)..]
            }
            (quote, Some(next)) if Some(*quote) == doubled && next == quote => {
                out.push(*quote);
                rest = &behind[1..];
            }
            _ => out.push(*byte),
        }
    }
    out
}

/// Decodes the escape `escape`, which follows a backslash. Returns the number of bytes of `behind`
/// that belong to the escape.
fn unescape_one(escape: u8, behind: &[u8], special: &[u8], out: &mut Vec<u8>) -> usize {
    let byte = match escape {
        _ if special.contains(&escape) => escape,
        b'"' | b'\\' | b'/' => escape,
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        _ => match utf16(behind) {
            Some((character, len)) => {
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                return len;
            }
            None => {
                out.push(b'\\');
                return 0;
            }
        },
    };
    out.push(byte);
    1
}

/// Decodes `uXXXX`, or a surrogate pair `uXXXX\uXXXX`. Also returns the length.
fn utf16(text: &[u8]) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = text.get(at..at + 5)?.strip_prefix(b"u")?;
        let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
        let digits = std::str::from_utf8(digits).ok().filter(|_| is_hex)?;
        u16::from_str_radix(digits, 16).ok()
    };
    let first = unit(0)?;
    let second = unit(6).filter(|_| text[5] == b'\\').unwrap_or_default();
    let character = char::decode_utf16([first, second]).next()?.ok()?;
    Some((character, 6 * character.len_utf16() - 1))
}

/// Returns whether an odd number of backslashes precedes the byte at `at`. Backslashes before
/// `from` do not count.
pub(crate) fn is_escaped(text: &[u8], from: usize, at: usize) -> bool {
    text[from..at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// Marks the cells of a field as absent in rows where the value is one of `nulls`. A quoted value
/// is never null.
pub(crate) fn remove_nulls(
    nulls: &[Vec<u8>],
    quotes: &[u8],
    field: usize,
    input: &Input<'_>,
    fields: &mut Fields,
) {
    for (row, line, _) in input.rows() {
        let cell = fields.get(field, row);
        let is_of_line = cell.kind() == Kind::Text && cell.is_own() == line.is_own();
        let is_within =
            cell.start() >= line.start() && cell.start() + cell.len() <= line.start() + line.len();
        if !(is_of_line && is_within && nulls.iter().any(|null| null == input.text(cell))) {
            continue;
        }
        let before = if cell.is_own() { input.own } else { input.block };
        let is_quoted = cell.start() > line.start() && quotes.contains(&before[cell.start() - 1]);
        if !is_quoted {
            fields.set(field, row, Cell::ABSENT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str, special: &str, doubled: Option<u8>) -> String {
        String::from_utf8(unescape(text.as_bytes(), special.as_bytes(), doubled)).unwrap()
    }

    #[test]
    fn known_escapes_are_decoded_and_others_kept() {
        let json = |contents| text(contents, "", None);
        assert_eq!(json(r#"a\"b\\c\/d\b\f\n\r\te"#), "a\"b\\c/d\u{8}\u{c}\n\r\te");
        assert_eq!(json(r"\u0041\u00e9\u20ac\ud83d\ude00!"), "Aé€😀!");
        for kept in [r"CORP\ada", r"^\d+\w$", r"C:\Users\x", r"\u12", r"\u+123", r"\ud83dx", "x\\"]
        {
            assert_eq!(json(kept), kept);
        }
        assert_eq!(json(r"\ud83d\u0041 \\d"), r"\ud83dA \d");
        assert_eq!(json(r"it\'s"), r"it\'s");
        assert_eq!(text(r"it\'s", "'", None), "it's");
        assert_eq!(text(r#"a""b\""c"#, "", Some(b'"')), r#"a"b""c"#);
        assert_eq!(text(r#"a"""#, "", Some(b'"')), r#"a""#);
    }
}
