//! Parses CEF, the Common Event Format by ArcSight.

#[cfg(test)]
mod tests;

use crate::delimited::TOO_FEW;
use crate::events::{EventConfig, EventFields, Header, Line, Signature, Span};
use crate::{Fields, Input, Parser, Reason};
use memchr::memchr_iter;

const MISMATCH: Reason = "not_cef";
const BAD_EXTENSION: Reason = "bad_extension";

/// Names of the header fields.
const NAMES: [&str; 8] = [
    "prefix",
    "cef_version",
    "device_vendor",
    "device_product",
    "device_version",
    "device_event_class_id",
    "name",
    "severity",
];

/// Parser for CEF lines:
/// `CEF:0|vendor|product|version|class|name|severity|src=10.0.0.1 msg=a text`.
///
/// | field | value |
/// |---|---|
/// | `prefix` | the text before `CEF:`, such as a header of syslog; absent if there is none |
/// | `cef_version`, `device_vendor`, `device_product`, `device_version`, `device_event_class_id`, `name`, `severity` | the header, without blanks around its values; `\|` and `\\` are escapes |
/// | others | the extension |
///
/// An extension key consists of ASCII letters, digits and `_.[]-`, and follows a space. Any other
/// `=` is part of a value. A value ends before the next key, and trailing blanks are removed. If a
/// key has the name of a header field, the field is `ext_KEY`. If a key occurs twice in a line, the
/// last value wins.
///
/// A line with text before its first key [has a flaw](Fields::flaw).
#[derive(Clone, Debug)]
pub struct Cef {
    events: EventFields,
}

impl Cef {
    /// Creates a parser.
    pub fn new(config: EventConfig) -> Cef {
        Cef { events: EventFields::new(config, &NAMES) }
    }

    /// Parses a line. Returns the position of any text without a key in the extension.
    fn line(&mut self, line: &Line<'_>, fields: &mut Fields) -> Result<Option<usize>, Failed> {
        let signature = Signature::find(line.text, b"CEF:").ok_or((MISMATCH, 0))?;
        let header: Header<6> =
            Header::parse(line.text, signature).ok_or((TOO_FEW, line.text.len()))?;
        self.events.put_header(line, &header, fields);
        Ok(self.extension(line, header.end, fields))
    }

    /// Parses the extension. Returns the position of the text before the first key, if there is
    /// any.
    fn extension(&mut self, line: &Line<'_>, begin: usize, fields: &mut Fields) -> Option<usize> {
        let text = line.text;
        let equals = memchr_iter(b'=', &text[begin..]).map(|at| begin + at);
        let mut keys = equals.filter_map(|equals| key_before(text, begin, equals)).peekable();
        let first = keys.peek().map_or(text.len(), |key| key.begin);
        while let Some(key) = keys.next() {
            let end = keys.peek().map_or(text.len(), |next| next.begin);
            let value = Span { begin: key.end + 1, end }.trim_end(text);
            self.events.put(line, key, value, fields);
        }
        let before = Span { begin, end: first }.trim(text);
        (before.len() > 0).then_some(before.begin)
    }
}

/// The reason why a line does not match, and the position of the mismatch.
type Failed = (Reason, usize);

/// Returns the key before the `=` at `equals`, in an extension that starts at `begin`. Returns
/// `None` if there is no valid key.
#[inline(always)]
fn key_before(text: &[u8], begin: usize, equals: usize) -> Option<Span> {
    let len = text[begin..equals].iter().rev().take_while(|byte| is_in_key(**byte)).count();
    let key = Span { begin: equals - len, end: equals };
    let is_key = len > 0 && (key.begin == begin || text[key.begin - 1] == b' ');
    is_key.then_some(key)
}

fn is_in_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'[' | b']' | b'-')
}

impl Parser for Cef {
    fn parse(&mut self, input: &Input<'_>, fields: &mut Fields) {
        self.events.begin(fields);
        for (row, cell, text) in input.rows() {
            match self.line(&Line::new(row, cell, text), fields) {
                Ok(None) => {}
                Ok(Some(at)) => fields.flaw(row, BAD_EXTENSION, at),
                Err((reason, at)) => fields.fail(row, reason, at),
            }
        }
        self.events.finish(input, fields);
    }

    fn clone_boxed(&self) -> Box<dyn Parser> {
        Box::new(self.clone())
    }
}
