//! Writes events as lines that are safe on a terminal: control characters, and characters that
//! change the direction of text, are escaped.

use millstream_model::char_boundary;

/// Maximum length of a message as text, in bytes.
pub const TEXT_BYTES_MAX: usize = 4 << 10;

/// Returns whether a character could control a terminal or make one string look like another.
fn is_harmful(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            '\u{61C}'
                | '\u{200E}'
                | '\u{200F}'
                | '\u{2028}'..='\u{202E}'
                | '\u{2066}'..='\u{2069}'
        )
}

/// Appends a line of JSON, with harmful characters as `\u00XX`. The JSON value stays the same.
///
/// Printable ASCII, which is most of a line, is copied in runs instead of character by character.
pub fn push_json(line: &[u8], out: &mut Vec<u8>) {
    let mut rest = line;
    while !rest.is_empty() {
        let plain = rest.iter().take_while(|byte| is_plain(**byte)).count();
        out.extend_from_slice(&rest[..plain]);
        rest = &rest[plain..];
        let other = rest.iter().take_while(|byte| !is_plain(**byte)).count();
        push_json_chars(&rest[..other], out);
        rest = &rest[other..];
    }
}

/// Returns whether a byte is printable ASCII. A multi-byte character contains no such byte.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~')
}

fn push_json_chars(bytes: &[u8], out: &mut Vec<u8>) {
    for char in String::from_utf8_lossy(bytes).chars() {
        match char {
            // The character is outside of strings; inside they are already escaped.
            '\0'..' ' => out.push(b' '),
            char if is_harmful(char) => {
                out.extend_from_slice(format!("\\u{:04x}", u32::from(char)).as_bytes());
            }
            char => push_char(char, out),
        }
    }
}

/// Appends a message as text, up to [`TEXT_BYTES_MAX`] bytes, and the number of bytes that are
/// omitted: the rest of the message, and `more`.
pub fn push_text(message: &[u8], more: u64, out: &mut Vec<u8>) {
    let shown = char_boundary(message, TEXT_BYTES_MAX);
    for chunk in message[..shown].utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '\t' => out.extend_from_slice(b"\\t"),
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                '\0'..='\x7F' if is_harmful(char) => push_byte(char as u8, out),
                char if is_harmful(char) => {
                    out.extend_from_slice(format!("\\u{{{:x}}}", u32::from(char)).as_bytes());
                }
                char => push_char(char, out),
            }
        }
        chunk.invalid().iter().for_each(|byte| push_byte(*byte, out));
    }
    let rest = (message.len() - shown) as u64 + more;
    if rest > 0 {
        out.extend_from_slice(cut_note(rest).as_bytes());
    }
}

/// Returns a note that the text was truncated by this many bytes.
pub fn cut_note(bytes: u64) -> String {
    format!("… (+{bytes} bytes)")
}

fn push_byte(byte: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
}

fn push_char(char: char, out: &mut Vec<u8>) {
    out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(message: &[u8]) -> String {
        let mut out = Vec::new();
        push_text(message, 0, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn text_has_no_character_that_controls_a_terminal() {
        assert_eq!(text("grün \\ 日本 🙂".as_bytes()), "grün \\ 日本 🙂");
        assert_eq!(text(b"\x1b]0;title\x07\r\n\t\x00\x7f"), r"\x1b]0;title\x07\r\n\t\x00\x7f");
        assert_eq!(text("a\u{9b}31m\u{202e}b\u{2066}".as_bytes()), r"a\u{9b}31m\u{202e}b\u{2066}");
        assert_eq!(text(b"a\xff\xc3"), r"a\xff\xc3");
        for code in (0..0x20).chain(0x7F..0xA0).chain(0x202A..0x202F).chain(0x2066..0x206A) {
            let char = char::from_u32(code).unwrap();
            let shown = text(char.to_string().as_bytes());
            assert!(shown.is_ascii() && shown.starts_with('\\'), "{code:x}: {shown:?}");
        }
    }

    #[test]
    fn long_text_is_cut_and_says_what_follows() {
        let shown = text("é".repeat(3000).as_bytes());
        assert_eq!(shown, format!("{}… (+1904 bytes)", "é".repeat(2048)));
        let mut out = Vec::new();
        push_text(b"abc", 7, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "abc… (+7 bytes)");
    }

    #[test]
    fn json_stays_the_same_and_has_no_harmful_character() {
        let value = serde_json::json!({ "m": "a\u{7f}\u{85}\u{202e}\u{2069}\u{200f}é\u{1b}" });
        let (mut out, line) = (Vec::new(), value.to_string());
        push_json(format!("{line}\t").as_bytes(), &mut out);
        let shown = String::from_utf8(out).unwrap();
        assert_eq!(shown, r#"{"m":"a\u007f\u0085\u202e\u2069\u200fé\u001b"} "#);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
