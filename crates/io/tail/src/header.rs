//! Header lines: lines of a file that name the columns of the lines after them.

use millstream_framing::bom_len;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Longest header line in bytes. The columns after a longer one are unknown.
pub const HEADER_BYTES_MAX: usize = 64 * 1024;

/// Most header lines of a file that are remembered. Where an earlier one is needed, as for data
/// that is read again, the file is searched.
const HEADERS_MAX: usize = 32;

/// What a header line of W3C, IIS and Zeek begins with, in any case.
const FIELDS: &[u8] = b"#fields";

/// Which lines of files name the columns of the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderLines {
    /// Lines that begin with `#Fields:`, in files that have some.
    IfPresent {
        /// The delimiter between two columns.
        delimiter: String,
    },
    /// Lines that begin with `#Fields:`. The other lines that begin with `#` are comments.
    FieldsLine {
        /// The delimiter between two columns.
        delimiter: String,
    },
    /// The first line of a file, and lines with the same columns in any order.
    FirstLine {
        /// The delimiter between two columns.
        delimiter: String,
    },
}

/// What a line is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// A line with values.
    Row,
    /// A line that is no event and names no columns.
    Comment,
    /// A header line.
    Header(Arc<str>),
}

impl HeaderLines {
    /// Returns what a line is. `offset` is its position in the file, and `current` the header before
    /// it.
    #[inline]
    pub fn kind(&self, line: &[u8], offset: u64, current: Option<&str>) -> LineKind {
        let line = trimmed(line, offset);
        match self {
            HeaderLines::IfPresent { delimiter } | HeaderLines::FieldsLine { delimiter } => {
                match line.first() {
                    Some(b'#') => self.of_comment(line, delimiter),
                    _ => LineKind::Row,
                }
            }
            HeaderLines::FirstLine { .. } if offset == 0 => header(line),
            HeaderLines::FirstLine { delimiter } => {
                match current.is_some_and(|current| has_columns_of(line, current, delimiter)) {
                    true => header(line),
                    false => LineKind::Row,
                }
            }
        }
    }

    #[cold]
    fn of_comment(&self, line: &[u8], delimiter: &str) -> LineKind {
        let rest = line.get(FIELDS.len()..).unwrap_or_default();
        let is_header = line.len() > FIELDS.len()
            && line[..FIELDS.len()].eq_ignore_ascii_case(FIELDS)
            && (matches!(rest[0], b':' | b'\t') || rest.starts_with(delimiter.as_bytes()));
        match self {
            _ if is_header => header(line),
            HeaderLines::FieldsLine { .. } => LineKind::Comment,
            _ => LineKind::Row,
        }
    }
}

/// Returns a line without its line end, and without the byte order mark of the file.
fn trimmed(line: &[u8], offset: u64) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if offset == 0 { &line[bom_len(line)..] } else { line }
}

/// Returns the header in a line. One that is too long is empty, so that it names no column.
fn header(line: &[u8]) -> LineKind {
    match line.len() <= HEADER_BYTES_MAX {
        true => LineKind::Header(String::from_utf8_lossy(line).into()),
        false => LineKind::Header("".into()),
    }
}

/// Whether a line has the columns of a header, in any order.
fn has_columns_of(line: &[u8], header: &str, delimiter: &str) -> bool {
    if line.len() != header.len() || line.is_empty() {
        return false;
    }
    if line == header.as_bytes() {
        return true;
    }
    let Ok(line) = std::str::from_utf8(line) else { return false };
    let sorted = |text: &str| {
        let mut columns: Vec<String> = text.split(delimiter).map(str::to_owned).collect();
        columns.sort_unstable();
        columns
    };
    // Most lines of this length differ already here.
    let first = line.split(delimiter).next().unwrap_or_default();
    header.split(delimiter).any(|column| column == first) && sorted(line) == sorted(header)
}

/// The header lines of a part of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownHeaders {
    /// Offset from which the headers are known.
    from: u64,
    /// Offset up to which the headers are known.
    to: u64,
    /// Header lines, each with the offset at which it ends, ascending.
    list: Vec<(u64, Arc<str>)>,
}

impl KnownHeaders {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == KnownHeaders::default()
    }

    /// Returns the offset up to which the headers are known.
    pub fn known_to(&self) -> u64 {
        self.to
    }

    /// Whether the header at an offset is known.
    pub fn covers(&self, offset: u64) -> bool {
        (self.from..=self.to).contains(&offset)
    }

    /// Returns the header at an offset: that of the last header line before it.
    pub fn at(&self, offset: u64) -> Option<&Arc<str>> {
        let after = self.list.partition_point(|(end, _)| *end <= offset);
        after.checked_sub(1).map(|last| &self.list[last].1)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = KnownHeaders::default();
    }

    /// Adds a header line that ends at an offset.
    pub fn add(&mut self, end: u64, header: Arc<str>) {
        let is_known = self.list.last().is_some_and(|(last, text)| *last >= end || *text == header);
        if is_known {
            return;
        }
        self.list.push((end, header));
        if self.list.len() > HEADERS_MAX {
            self.list.remove(0);
            self.from = self.list[0].0;
        }
    }

    /// Records that all header lines between two offsets were added.
    pub fn reach(&mut self, begin: u64, end: u64) {
        // The first of many header lines may be forgotten already.
        if begin <= self.to {
            self.to = self.to.max(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_applies_from_its_end_on() {
        let mut headers = KnownHeaders::default();
        headers.add(10, "a".into());
        headers.add(20, "a".into());
        headers.add(30, "b".into());
        headers.reach(0, 40);
        let at = [9, 10, 29, 30, 40].map(|offset| headers.at(offset).map(|text| text.to_string()));
        assert_eq!(
            at,
            [None, Some("a"), Some("a"), Some("b"), Some("b")].map(|o| o.map(String::from))
        );
        assert!(headers.covers(40) && !headers.covers(41));
        headers.reach(41, 50);
        assert!(!headers.covers(45), "what is between was not read");
    }

    #[test]
    fn of_many_headers_the_last_are_known() {
        let mut headers = KnownHeaders::default();
        for n in 1..=40 {
            headers.add(n * 10, n.to_string().into());
            headers.reach(n * 10 - 10, n * 10);
        }
        assert!(!headers.covers(85) && headers.covers(90));
        assert_eq!(headers.at(95).map(|text| &**text), Some("9"));
        let mut headers = KnownHeaders::default();
        (1..=40).for_each(|n| headers.add(n * 10, n.to_string().into()));
        headers.reach(0, 450);
        assert!(headers.covers(450), "all were found in one step");
    }

    #[test]
    fn lines_of_w3c_and_zeek_name_columns() {
        let fields = HeaderLines::FieldsLine { delimiter: " ".into() };
        let if_present = HeaderLines::IfPresent { delimiter: " ".into() };
        let header = |text: &str| LineKind::Header(text.into());
        for (line, offset, expected) in [
            (&b"#Fields: a b\r\n"[..], 5, header("#Fields: a b")),
            (b"#fields\ta\tb\n", 5, header("#fields\ta\tb")),
            (b"\xef\xbb\xbf#Fields: a\n", 0, header("#Fields: a")),
            (b"#Fieldset: a\n", 5, LineKind::Comment),
            (b"#fields", 5, LineKind::Comment),
            (b" #Fields: a\n", 5, LineKind::Row),
            (b"\n", 5, LineKind::Row),
        ] {
            assert_eq!(fields.kind(line, offset, None), expected, "{}", line.escape_ascii());
            let is_comment = expected == LineKind::Comment;
            let expected = if is_comment { LineKind::Row } else { expected };
            assert_eq!(if_present.kind(line, offset, None), expected, "{}", line.escape_ascii());
        }
    }

    #[test]
    fn the_first_line_and_its_repetitions_name_columns() {
        let first = HeaderLines::FirstLine { delimiter: ",".into() };
        let header = |text: &str| LineKind::Header(text.into());
        assert_eq!(first.kind(b"\xef\xbb\xbfa,b\n", 0, None), header("a,b"));
        assert_eq!(first.kind(b"a,b\n", 9, Some("a,b")), header("a,b"));
        assert_eq!(first.kind(b"b,a\r\n", 9, Some("a,b")), header("b,a"));
        for row in [&b"a,c\n"[..], b"ab,\n", b"\n", b"a,a\n", b"a,b,\n"] {
            assert_eq!(first.kind(row, 9, Some("a,b")), LineKind::Row);
        }
        assert_eq!(first.kind(b"a,b\n", 9, None), LineKind::Row);
    }
}
