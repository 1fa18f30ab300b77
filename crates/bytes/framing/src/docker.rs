//! The format of Docker's `json-file` logging driver: one JSON object per line.
//! `{"log":"GET /\n","stream":"stdout","time":"2026-11-21T20:29:46.123456789Z"}`

use crate::record::{Fields, stream_index};
use memchr::memchr2;

/// Parses a line. Returns `None` if the line is not in this format. Keys may be in any order, and
/// unknown keys are ignored.
#[inline]
pub fn fields(line: &[u8]) -> Option<Fields<'_>> {
    let (mut log, mut time, mut stream) = (None, None, None);
    let mut cursor = Cursor { line, at: 0 };
    cursor.expect(b'{')?;
    loop {
        let key = cursor.string()?;
        cursor.expect(b':')?;
        match &line[key.0..key.1] {
            b"log" => log = Some(cursor.string()?),
            b"time" => time = Some(cursor.string()?),
            b"stream" => stream = Some(cursor.string()?),
            _ => cursor.skip()?,
        }
        if cursor.expect(b',').is_none() {
            cursor.expect(b'}')?;
            break;
        }
    }
    if !line[cursor.at..].trim_ascii_start().is_empty() {
        return None;
    }
    let (log, time, stream) = (log?, time?, stream?);
    let text = &line[log.0..log.1];
    let is_complete = ends_with_newline(text);
    let text = if is_complete { &text[..text.len() - 2] } else { text };
    let stream = stream_index(&line[stream.0..stream.1])?;
    Some(Fields {
        time: &line[time.0..time.1],
        stream,
        is_partial: !is_complete,
        text,
        start: log.0,
    })
}

/// Returns whether `line` starts like a Docker log line, for lines that are available only in part.
pub fn has_prefix(line: &[u8]) -> bool {
    line.starts_with(b"{\"log\":\"")
}

/// Returns whether a JSON string ends with an escaped newline: `\n` whose backslash is not escaped.
fn ends_with_newline(text: &[u8]) -> bool {
    let Some(before) = text.strip_suffix(b"n") else { return false };
    before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// A read position in a line of JSON.
struct Cursor<'a> {
    line: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    /// Skips whitespace, then consumes `byte`.
    #[inline]
    fn expect(&mut self, byte: u8) -> Option<()> {
        while self.line.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        (self.line.get(self.at) == Some(&byte)).then(|| self.at += 1)
    }

    /// Consumes a string and returns its range without the quotes.
    #[inline]
    fn string(&mut self) -> Option<(usize, usize)> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            let found = self.at + memchr2(b'"', b'\\', &self.line[self.at..])?;
            if self.line[found] == b'"' {
                self.at = found + 1;
                return Some((start, found));
            }
            self.at = (found + 2).min(self.line.len());
        }
    }

    /// Skips a value of any type.
    fn skip(&mut self) -> Option<()> {
        let mut depth = 0u32;
        loop {
            match self.line.get(self.at)? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' | b',' if depth == 0 => return Some(()),
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
        }
    }
}

/// Unescapes `text`, the contents of a JSON string, into the beginning of `dst`, which must be as
/// long as `text`. Returns the number of bytes written. An invalid escape is copied unchanged; an
/// unpaired surrogate becomes U+FFFD. The output offset of each replacement or invalid escape, plus
/// `base`, is appended to `invalid`.
#[inline]
pub fn unescape(text: &[u8], dst: &mut [u8], base: usize, invalid: &mut Vec<u32>) -> usize {
    let (mut rest, mut written) = (text, 0);
    while let Some(at) = memchr::memchr(b'\\', rest) {
        dst[written..written + at].copy_from_slice(&rest[..at]);
        written += at;
        rest = &rest[at..];
        let (character, bytes) = escape(rest).unwrap_or((Err('\\'), 1));
        if character.is_err() {
            invalid.push((base + written) as u32);
        }
        let (Ok(character) | Err(character)) = character;
        written += character.encode_utf8(&mut dst[written..]).len();
        rest = &rest[bytes..];
    }
    dst[written..written + rest.len()].copy_from_slice(rest);
    written + rest.len()
}

/// Decodes the escape at the beginning of `text`. Returns the character, or U+FFFD as an error for
/// an unpaired surrogate, and the length of the escape in bytes. Returns `None` if JSON has no such
/// escape.
#[inline]
fn escape(text: &[u8]) -> Option<(Result<char, char>, usize)> {
    let character = match text.get(1)? {
        b'n' => '\n',
        b't' => '\t',
        b'r' => '\r',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        letter @ (b'"' | b'\\' | b'/') => char::from(*letter),
        b'u' => return unicode(text),
        _ => return None,
    };
    Some((Ok(character), 2))
}

/// Decodes `\u00e9` or a surrogate pair such as `\ud83d\ude00`.
fn unicode(text: &[u8]) -> Option<(Result<char, char>, usize)> {
    let unit = |at: usize| -> Option<u16> {
        let digits = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
        digits
            .iter()
            .try_fold(0, |unit, byte| Some(unit << 4 | char::from(*byte).to_digit(16)? as u16))
    };
    let first = unit(0)?;
    let pair = [first, unit(6).unwrap_or(0)];
    let decoded = char::decode_utf16(pair).next()?;
    Some(match decoded {
        Ok(character) => (Ok(character), 6 * character.len_utf16()),
        Err(_) => (Err(char::REPLACEMENT_CHARACTER), 6),
    })
}
