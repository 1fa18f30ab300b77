//! Escaping and unescaping of JSON strings.

use std::borrow::Cow;

/// Appends `text` to `out` as a quoted and escaped JSON string. Replaces invalid UTF-8 with U+FFFD.
pub fn push_json_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for chunk in text.utf8_chunks() {
        chunk.valid().bytes().for_each(|byte| push_escaped(byte, out));
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{FFFD}".as_bytes());
        }
    }
    out.push(b'"');
}

fn push_escaped(byte: u8, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    match byte {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        0..0x20 => {
            let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&digits);
        }
        _ => out.push(byte),
    }
}

/// Unescapes the contents of a JSON string. Replaces unpaired surrogates and invalid escapes with
/// U+FFFD.
pub fn unescape(contents: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = contents.iter().position(|byte| *byte == b'\\') else {
        return Cow::Borrowed(contents);
    };
    let mut out = Vec::with_capacity(contents.len());
    out.extend_from_slice(&contents[..first]);
    unescape_into(&contents[first..], &mut out);
    Cow::Owned(out)
}

/// Appends the result of [`unescape`] to `out`.
pub fn unescape_into(contents: &[u8], out: &mut Vec<u8>) {
    let first = contents.iter().position(|byte| *byte == b'\\').unwrap_or(contents.len());
    let (mut plain, mut rest) = contents.split_at(first);
    loop {
        out.extend_from_slice(plain);
        let Some(escape) = rest.get(1) else { return };
        let len = match escape {
            b'u' => unescape_utf16(rest, out),
            escape => {
                out.extend_from_slice(unescape_byte(*escape).as_bytes());
                2
            }
        };
        rest = &rest[len..];
        let next = rest.iter().position(|byte| *byte == b'\\').unwrap_or(rest.len());
        (plain, rest) = rest.split_at(next);
    }
}

fn unescape_byte(escape: u8) -> &'static str {
    match escape {
        b'"' => "\"",
        b'\\' => "\\",
        b'/' => "/",
        b'b' => "\u{8}",
        b'f' => "\u{c}",
        b'n' => "\n",
        b'r' => "\r",
        b't' => "\t",
        _ => "\u{FFFD}",
    }
}

/// Decodes one `\uXXXX` escape, or a surrogate pair of two, at the start of `text` and returns the
/// length in bytes.
fn unescape_utf16(text: &[u8], out: &mut Vec<u8>) -> usize {
    let unit = |at: usize| -> Option<u16> {
        let digits = text.get(at..at + 6).filter(|escape| escape.starts_with(b"\\u"))?;
        let digits = std::str::from_utf8(&digits[2..]).ok()?;
        u16::from_str_radix(digits, 16).ok()
    };
    let Some(first) = unit(0) else {
        out.extend_from_slice("\u{FFFD}".as_bytes());
        return 2;
    };
    let units = [first, unit(6).unwrap_or(0)];
    let decoded = char::decode_utf16(units).next().and_then(Result::ok);
    let character = decoded.unwrap_or(char::REPLACEMENT_CHARACTER);
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    6 * decoded.map_or(1, char::len_utf16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(contents: &str) -> String {
        String::from_utf8(unescape(contents.as_bytes()).into_owned()).unwrap()
    }

    #[test]
    fn escapes_are_decoded_and_invalid_ones_replaced() {
        assert!(matches!(unescape(b"plain"), Cow::Borrowed(_)));
        assert_eq!(text(r#"a\"b\\c\/d\b\f\n\r\te"#), "a\"b\\c/d\u{8}\u{c}\n\r\te");
        assert_eq!(text(r"\u0041\u00e9\u20ac\ud83d\ude00!"), "Aé€😀!");
        assert_eq!(text(r"\ud83dx"), "\u{FFFD}x");
        assert_eq!(text(r"\ude00\u0041"), "\u{FFFD}A");
        assert_eq!(text(r"\ud83d\u0041"), "\u{FFFD}A");
        assert_eq!(text(r"x\u12"), "x\u{FFFD}12");
        assert_eq!(text("x\\"), "x");
    }

    #[test]
    fn escaping_round_trips() {
        let all: String = (0..0x300).filter_map(char::from_u32).collect();
        let mut out = Vec::new();
        push_json_string(all.as_bytes(), &mut out);
        assert_eq!(text(std::str::from_utf8(&out[1..out.len() - 1]).unwrap()), all);
        out.clear();
        push_json_string(b"a\xFFb", &mut out);
        assert_eq!(out, "\"a\u{FFFD}b\"".as_bytes());
    }
}
