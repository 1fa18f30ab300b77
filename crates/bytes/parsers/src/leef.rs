//! Parses LEEF, the Log Event Extended Format by QRadar.

#[cfg(test)]
mod tests;

use crate::delimited::TOO_FEW;
use crate::events::{EventConfig, EventFields, Header, Line, Signature, Span};
use crate::{Fields, Input, Parser, Reason};
use memchr::{memchr, memmem};

const MISMATCH: Reason = "not_leef";
const BAD_DELIMITER: Reason = "bad_delimiter";
const BAD_ATTRIBUTES: Reason = "bad_attributes";

/// Names of the header fields.
const NAMES: [&str; 6] =
    ["prefix", "leef_version", "vendor", "product", "product_version", "event_id"];

/// Default delimiter between attributes.
const DELIMITER: char = '\t';

/// Maximum number of digits in a hexadecimal delimiter.
const HEX_DIGITS_MAX: usize = 4;

/// The line format of LEEF.
#[derive(Clone, Debug, Default)]
pub struct LeefConfig {
    /// Delimiter between two attributes, which overrides the delimiter in the line.
    pub delimiter: Option<String>,
    /// How to handle values.
    pub values: EventConfig,
}

/// Parser for LEEF lines: `LEEF:2.0|vendor|product|version|event id|^|src=10.0.0.1^usrName=ada`.
///
/// | field | value |
/// |---|---|
/// | `prefix` | the text before `LEEF:`, such as a header of syslog; absent if there is none |
/// | `leef_version`, `vendor`, `product`, `product_version`, `event_id` | the header, without blanks around its values; `\|` and `\\` are escapes |
/// | others | the attributes |
///
/// In version 2, a delimiter may follow the header: a character, or `0x` or `x` and up to four
/// hexadecimal digits. Otherwise, the delimiter is a tab. A key ends at the first `=`. It may
/// contain spaces, but not begin or end with them. If an attribute has the name of a header field,
/// the field is `ext_KEY`. If a key occurs twice in a line, the last value wins.
///
/// A line with an attribute that has no key or no `=` [has a flaw](Fields::flaw).
#[derive(Clone, Debug)]
pub struct Leef {
    delimiter: Option<String>,
    events: EventFields,
}

impl Leef {
    /// Creates a parser.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration is invalid. The error says what to use instead.
    pub fn new(config: LeefConfig) -> Result<Leef, String> {
        let LeefConfig { delimiter, values } = config;
        if delimiter.as_ref().is_some_and(|delimiter| delimiter.is_empty() || delimiter == "=") {
            return Err("delimiter must not be empty or \"=\"; use, for example, \"^\"".into());
        }
        Ok(Leef { delimiter, events: EventFields::new(values, &NAMES) })
    }

    /// Parses a line. Returns the position of the first attribute that has no key or no `=`, if
    /// there is one.
    fn line(&mut self, line: &Line<'_>, fields: &mut Fields) -> Result<Option<usize>, Failed> {
        let text = line.text;
        let signature = Signature::find(text, b"LEEF:").ok_or((MISMATCH, 0))?;
        let header: Header<4> = Header::parse(text, signature).ok_or((TOO_FEW, text.len()))?;
        let (field, begin) = match text[signature.version.begin] {
            b'2' => delimiter_field(text, header.end),
            _ => (&b""[..], header.end),
        };
        let mut bytes = [0; 4];
        let delimiter = match &self.delimiter {
            Some(delimiter) => delimiter.as_bytes(),
            None => {
                let own = delimiter_of(field).ok_or((BAD_DELIMITER, header.end))?;
                own.encode_utf8(&mut bytes).as_bytes()
            }
        };
        self.events.put_header(line, &header, fields);
        let (mut at, mut flaw) = (begin, None);
        while at < text.len() {
            let end = find(delimiter, &text[at..]).map_or(text.len(), |len| at + len);
            let without_key =
                put_attribute(&mut self.events, line, Span { begin: at, end }, fields);
            flaw = flaw.or(without_key);
            at = end + delimiter.len();
        }
        Ok(flaw)
    }
}

/// The reason why a line does not match, and the position of the mismatch.
type Failed = (Reason, usize);

/// Stores an attribute. If the attribute has no key or no `=`, returns its position instead, unless
/// it is blank.
fn put_attribute(
    events: &mut EventFields,
    line: &Line<'_>,
    attribute: Span,
    fields: &mut Fields,
) -> Option<usize> {
    let attribute = attribute.trim_end(line.text);
    let equals = memchr(b'=', &line.text[attribute.begin..attribute.end]);
    let key_end = attribute.begin + equals.unwrap_or(0);
    let key = Span { end: key_end, ..attribute }.trim(line.text);
    if key.len() == 0 {
        let rest = attribute.trim(line.text);
        return (rest.len() > 0).then_some(rest.begin);
    }
    events.put(line, key, Span { begin: key_end + 1, ..attribute }, fields);
    None
}

/// Returns the delimiter field of a version 2 header, which is at `at`, and the start of the
/// attributes. Some programs omit the field instead of leaving it empty.
fn delimiter_field(text: &[u8], at: usize) -> (&[u8], usize) {
    let rest = &text[at..];
    // The delimiter is a pipe.
    if rest.starts_with(b"||") {
        return (&rest[..1], at + 2);
    }
    let len = memchr(b'|', rest).filter(|len| !rest[..*len].contains(&b'='));
    len.map_or((b"", at), |len| (&rest[..len], at + len + 1))
}

/// Returns the delimiter that a header field specifies, or `None` if the field is invalid.
fn delimiter_of(field: &[u8]) -> Option<char> {
    let field = std::str::from_utf8(field).ok()?;
    let mut characters = field.chars();
    match (characters.next(), characters.next()) {
        (None, _) => Some(DELIMITER),
        (Some(only), None) => Some(only),
        _ => hexadecimal(field).filter(|delimiter| *delimiter != '='),
    }
}

/// Decodes a character that is written as `0x09` or `x09`. Returns `None` for any other text.
fn hexadecimal(field: &str) -> Option<char> {
    let field = field.strip_prefix('0').unwrap_or(field);
    let digits = field.strip_prefix(['x', 'X'])?;
    let is_valid =
        digits.len() <= HEX_DIGITS_MAX && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let code = u32::from_str_radix(digits, 16).ok().filter(|_| is_valid)?;
    char::from_u32(code)
}

/// Finds the first occurrence of a delimiter.
fn find(delimiter: &[u8], text: &[u8]) -> Option<usize> {
    match delimiter {
        [byte] => memchr(*byte, text),
        _ => memmem::find(text, delimiter),
    }
}

impl Parser for Leef {
    fn parse(&mut self, input: &Input<'_>, fields: &mut Fields) {
        self.events.begin(fields);
        for (row, cell, text) in input.rows() {
            match self.line(&Line::new(row, cell, text), fields) {
                Ok(None) => {}
                Ok(Some(at)) => fields.flaw(row, BAD_ATTRIBUTES, at),
                Err((reason, at)) => fields.fail(row, reason, at),
            }
        }
        self.events.finish(input, fields);
    }

    fn clone_boxed(&self) -> Box<dyn Parser> {
        Box::new(self.clone())
    }
}
