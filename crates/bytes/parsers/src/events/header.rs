//! CEF and LEEF headers: `CEF:0|value|value|` after an optional prefix.

use super::Span;
use memchr::{memchr_iter, memchr2};

/// The UTF-8 byte order mark, which syslog writes before a message.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The start of a header, such as `CEF:0|`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signature {
    /// The text before the signature.
    prefix: Span,
    /// The version of the format.
    pub version: Span,
    /// The position after the signature.
    end: usize,
}

impl Signature {
    /// Finds the first signature with this name, if there is one. The name ends with a colon.
    pub fn find(text: &[u8], name: &[u8]) -> Option<Signature> {
        memchr_iter(b'|', text).find_map(|pipe| Signature::before(text, name, pipe))
    }

    /// Returns the signature that ends with the pipe at `pipe`, if there is one. There may be
    /// blanks around the version.
    fn before(text: &[u8], name: &[u8], pipe: usize) -> Option<Signature> {
        let trimmed = text[..pipe].trim_ascii_end();
        let is_version = |byte: &&u8| byte.is_ascii_digit() || **byte == b'.';
        let len = trimmed.iter().rev().take_while(is_version).count();
        let version = Span { begin: trimmed.len() - len, end: trimmed.len() };
        let before = text[..version.begin].trim_ascii_end().strip_suffix(name)?;
        let before = before.strip_suffix(BYTE_ORDER_MARK).unwrap_or(before);
        let prefix = Span { begin: 0, end: before.len() }.trim(text);
        (len > 0).then_some(Signature { prefix, version, end: pipe + 1 })
    }
}

/// A header with `N` values after the signature.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header<const N: usize> {
    /// The text before the header, without surrounding blanks.
    pub prefix: Span,
    /// The version of the format.
    pub version: Span,
    /// The values, without surrounding blanks.
    pub values: [Span; N],
    /// End of the header: the position after a pipe, or the end of the line.
    pub end: usize,
}

impl<const N: usize> Header<N> {
    /// Parses the values after a signature. Returns `None` if there are too few values. The pipe
    /// after the last value may be missing.
    pub fn parse(text: &[u8], signature: Signature) -> Option<Header<N>> {
        let Signature { prefix, version, end } = signature;
        let mut header = Header { prefix, version, values: [Span::default(); N], end };
        for (index, value) in header.values.iter_mut().enumerate() {
            let end = value_end(text, header.end);
            if end == text.len() && index + 1 < N {
                return None;
            }
            *value = Span { begin: header.end, end }.trim(text);
            header.end = (end + 1).min(text.len());
        }
        Some(header)
    }
}

/// Finds the pipe that ends the value at `begin`, or else the end of the text.
fn value_end(text: &[u8], begin: usize) -> usize {
    let mut at = begin;
    while let Some(len) = memchr2(b'|', b'\\', &text[at..]) {
        if text[at + len] == b'|' {
            return at + len;
        }
        at = (at + len + 2).min(text.len());
    }
    text.len()
}

/// Returns the byte that a backslash escapes in a header value; `None` for any other byte.
pub(super) fn escape(byte: u8) -> Option<u8> {
    matches!(byte, b'|' | b'\\').then_some(byte)
}
