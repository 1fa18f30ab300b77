//! The log format of Docker's driver `json-file`: an object for each line.
//! `{"log":"GET /\n","stream":"stdout","time":"2026-11-21T20:29:46.123456789Z"}`

use crate::container::{Fields, stream};
use memchr::memchr2;

/// Takes a line apart. Keys may come in any order, and others with them.
#[inline]
pub fn fields(line: &[u8]) -> Option<Fields<'_>> {
    let (mut log, mut time, mut stream_of) = (None, None, None);
    let mut at = Cursor { line, at: 0 };
    at.byte(b'{')?;
    loop {
        let key = at.text()?;
        at.byte(b':')?;
        match &line[key.0..key.1] {
            b"log" => log = Some(at.text()?),
            b"time" => time = Some(at.text()?),
            b"stream" => stream_of = Some(at.text()?),
            _ => at.skip()?,
        }
        if at.byte(b',').is_none() {
            at.byte(b'}')?;
            break;
        }
    }
    if !line[at.at..].trim_ascii_start().is_empty() {
        return None;
    }
    let (log, time, stream_of) = (log?, time?, stream_of?);
    let text = &line[log.0..log.1];
    let is_whole = ends_with_newline(text);
    let text = if is_whole { &text[..text.len() - 2] } else { text };
    let stream = stream(&line[stream_of.0..stream_of.1])?;
    Some(Fields { time: &line[time.0..time.1], stream, is_partial: !is_whole, text, start: log.0 })
}

/// Whether `line` begins as Docker's lines do.
pub fn begins(line: &[u8]) -> bool {
    line.starts_with(b"{\"log\":\"")
}

/// Whether a text ends with an escaped `\n`: the backslash before the `n` is not escaped itself.
fn ends_with_newline(text: &[u8]) -> bool {
    let Some(before) = text.strip_suffix(b"n") else { return false };
    before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// A place in a line of JSON.
struct Cursor<'a> {
    line: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    /// Goes past this byte and white space before it.
    #[inline]
    fn byte(&mut self, byte: u8) -> Option<()> {
        while self.line.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        (self.line.get(self.at) == Some(&byte)).then(|| self.at += 1)
    }

    /// Goes past a string; where it is, without its quotes.
    #[inline]
    fn text(&mut self) -> Option<(usize, usize)> {
        self.byte(b'"')?;
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

    /// Goes past a value of any kind.
    fn skip(&mut self) -> Option<()> {
        let mut depth = 0u32;
        loop {
            match self.line.get(self.at)? {
                b'"' => {
                    self.text()?;
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

/// Writes what `text`, the inside of a JSON string, stands for to the beginning of `room`, which is
/// as long; its length. An escape that JSON does not have is kept as it stands; it and half a pair
/// of surrogates, which becomes U+FFFD, are `faults`, as places behind `base`.
#[inline]
pub fn unescape(text: &[u8], room: &mut [u8], base: usize, faults: &mut Vec<u32>) -> usize {
    let (mut rest, mut written) = (text, 0);
    while let Some(at) = memchr::memchr(b'\\', rest) {
        room[written..written + at].copy_from_slice(&rest[..at]);
        written += at;
        rest = &rest[at..];
        let (character, bytes) = escape(rest).unwrap_or((Err('\\'), 1));
        if character.is_err() {
            faults.push((base + written) as u32);
        }
        let (Ok(character) | Err(character)) = character;
        written += character.encode_utf8(&mut room[written..]).len();
        rest = &rest[bytes..];
    }
    room[written..written + rest.len()].copy_from_slice(rest);
    written + rest.len()
}

/// The character for which the escape at the beginning of `text` stands, or as an error what takes
/// the place of half a pair of surrogates, and the bytes of the escape. `None` if JSON does not
/// have it.
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

/// `\u00e9`, or a pair of surrogates, `\ud83d\ude00`.
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
