//! Tokenizes the strings and numbers of JSON text, and maps unescaped characters to their bytes.

use serde::de::IgnoredAny;
use std::ops::Range;

/// A string without its quotes, or a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Range of the token in the text.
    pub range: Range<usize>,
    /// Whether the token is a string.
    pub is_string: bool,
    /// Whether the token is the name of a member.
    pub is_name: bool,
    /// Whether the token is, or is part of, the value of a member with a secret name.
    pub is_secret: bool,
}

/// Returns whether `text` is a complete JSON object or array.
pub fn is_json(text: &[u8]) -> bool {
    let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
    matches!(first, Some(b'{' | b'[')) && serde_json::from_slice::<IgnoredAny>(text).is_ok()
}

/// Returns the strings and numbers of a JSON object or array, or of an object's members, in order.
/// For any other text, the ranges are arbitrary but within the text.
pub fn tokens(text: &[u8], is_secret: impl Fn(&[u8]) -> bool) -> Vec<Token> {
    let mut walk =
        Walk { text, at: 0, depth: 0, secret_from: None, pending: false, tokens: Vec::new() };
    while walk.at < text.len() {
        walk.step(&is_secret);
    }
    walk.tokens
}

struct Walk<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
    /// Depth of the object or array that is a secret name's value.
    secret_from: Option<usize>,
    /// Whether the next value belongs to a secret name.
    pending: bool,
    tokens: Vec<Token>,
}

impl Walk<'_> {
    fn step(&mut self, is_secret: impl Fn(&[u8]) -> bool) {
        match self.text[self.at] {
            b'"' => self.string(is_secret),
            b'-' | b'0'..=b'9' => {
                let is_part = |byte: &&u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
                let len = self.text[self.at..].iter().take_while(is_part).count();
                self.push(self.at..self.at + len, false, false);
                self.at += len;
            }
            byte => {
                match byte {
                    b'{' | b'[' => self.open(),
                    b'}' | b']' => self.close(),
                    b',' => self.pending = false,
                    _ => {}
                }
                self.at += 1;
            }
        }
    }

    fn open(&mut self) {
        self.depth += 1;
        if std::mem::take(&mut self.pending) && self.secret_from.is_none() {
            self.secret_from = Some(self.depth);
        }
    }

    fn close(&mut self) {
        if self.secret_from == Some(self.depth) {
            self.secret_from = None;
        }
        (self.depth, self.pending) = (self.depth.saturating_sub(1), false);
    }

    fn string(&mut self, is_secret: impl Fn(&[u8]) -> bool) {
        let begin = self.at + 1;
        let mut end = begin;
        while end < self.text.len() && self.text[end] != b'"' {
            end += if self.text[end] == b'\\' { 2 } else { 1 };
        }
        let end = end.min(self.text.len());
        self.at = end + 1;
        let behind = self.text.get(self.at..).unwrap_or_default();
        let is_name = behind.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':');
        let pending = is_name && is_secret(&unescape(&self.text[begin..end]).text);
        self.push(begin..end, true, is_name);
        self.pending = pending;
    }

    fn push(&mut self, range: Range<usize>, is_string: bool, is_name: bool) {
        // A name is not a secret.
        let is_secret = !is_name && (self.pending || self.secret_from.is_some());
        self.tokens.push(Token { range, is_string, is_name, is_secret });
    }
}

/// The content of a JSON string, without escapes.
pub struct Unescaped {
    pub text: Vec<u8>,
    /// For each byte of the text, its offset in the content, followed by the length of the content.
    places: Vec<u32>,
}

impl Unescaped {
    /// Returns the content range that corresponds to a text range, with whole escapes.
    pub fn range(&self, part: Range<usize>) -> Range<usize> {
        let start = self.places[part.start] as usize;
        let Some(last) = part.end.checked_sub(1).filter(|_| !part.is_empty()) else {
            return start..start;
        };
        let last = self.places[last];
        let next = self.places[part.end..].iter().find(|place| **place != last);
        start..next.map_or(last as usize + 1, |place| *place as usize)
    }

    /// Returns the text position of the first byte that comes from this content offset or a later
    /// offset.
    pub fn at(&self, place: usize) -> usize {
        self.places.partition_point(|from| (*from as usize) < place).min(self.text.len())
    }
}

/// Unescapes the content of a JSON string.
pub fn unescape(inside: &[u8]) -> Unescaped {
    let (mut text, mut places) =
        (Vec::with_capacity(inside.len()), Vec::with_capacity(inside.len() + 1));
    let mut at = 0;
    while at < inside.len() {
        let len = unit(&inside[at..]);
        let before = text.len();
        match inside[at] {
            b'\\' => {
                let value = millstream_model::Value::Escaped(&inside[at..at + len]).text();
                text.extend_from_slice(&value.unwrap_or_default());
            }
            byte => text.push(byte),
        }
        places.extend(std::iter::repeat_n(at as u32, text.len() - before));
        at += len;
    }
    places.push(inside.len() as u32);
    Unescaped { text, places }
}

/// Escapes text without control characters for the content of a JSON string.
pub fn escape(text: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(text.len() + 2);
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            escaped.push(b'\\');
        }
        escaped.push(*byte);
    }
    escaped
}

/// Returns the length of the first character or escape in a string's content, in bytes.
fn unit(inside: &[u8]) -> usize {
    let len = match inside {
        [b'\\', b'u', rest @ ..] => {
            let is_high =
                rest.len() >= 2 && matches!(rest[0], b'd' | b'D') && b"89abAB".contains(&rest[1]);
            if is_high && rest.get(4..6) == Some(b"\\u") { 12 } else { 6 }
        }
        [b'\\', ..] => 2,
        _ => 1,
    };
    len.min(inside.len())
}

/// Widens a range so that it does not cut an escape.
pub fn align(inside: &[u8], range: Range<usize>) -> Range<usize> {
    if !inside.contains(&b'\\') {
        return range;
    }
    let (mut start, mut end, mut at) = (range.start, range.end, 0);
    while at < inside.len() {
        let behind = at + unit(&inside[at..]);
        if at < range.start && range.start < behind {
            start = at;
        }
        if at < range.end && range.end < behind {
            end = behind;
        }
        at = behind;
    }
    start..end
}
