//! Header lines: lines in a file that name the columns of the lines after them.

use millstream_framing::bom_len;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Maximum length of a header line in bytes. The columns after a longer header line are unknown.
pub const HEADER_BYTES_MAX: usize = 64 * 1024;

/// Maximum number of header lines remembered per file. If an earlier header line is needed, for
/// example to reread data, the file is searched for it.
const HEADERS_MAX: usize = 32;

/// Maximum total size, in bytes, of header lines remembered per file. They are kept in memory and
/// saved with the file's checkpoints.
const HEADERS_BYTES_MAX: usize = HEADER_BYTES_MAX;

/// Start of a header line in W3C, IIS and Zeek logs, in any letter case.
const FIELDS: &[u8] = b"#fields";

/// Which lines in files are headers. A header names the columns of the lines that follow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderLines {
    /// Lines that begin with `#Fields:`, in files that contain such lines.
    IfPresent {
        /// The delimiter between two columns.
        delimiter: String,
    },
    /// Lines that begin with `#Fields:`. The other lines that begin with `#` are comments.
    FieldsLine {
        /// The delimiter between two columns.
        delimiter: String,
    },
    /// The first line of a file, and other lines with the same columns in any order.
    FirstLine {
        /// The delimiter between two columns.
        delimiter: String,
    },
}

/// The role of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// A line with values.
    Row,
    /// A line that is not an event and names no columns.
    Comment,
    /// A header line.
    Header(Arc<str>),
}

impl HeaderLines {
    /// Returns the role of a line. `offset` is the line's position in the file, and `current` is
    /// the header before the line.
    #[inline]
    pub fn kind(&self, line: &[u8], offset: u64, current: Option<&str>) -> LineKind {
        let line = trimmed(line, offset);
        match self {
            HeaderLines::IfPresent { delimiter } | HeaderLines::FieldsLine { delimiter } => {
                match line.first() {
                    Some(b'#') => self.kind_of_comment(line, delimiter),
                    _ => LineKind::Row,
                }
            }
            HeaderLines::FirstLine { .. } if offset == 0 => header(line),
            HeaderLines::FirstLine { delimiter } => {
                if current.is_some_and(|current| has_columns_of(line, current, delimiter)) {
                    header(line)
                } else {
                    LineKind::Row
                }
            }
        }
    }

    /// Returns whether an unfinished line may still become a line that names columns.
    pub fn may_become_header(&self, line: &[u8], offset: u64, current: Option<&str>) -> bool {
        let line = trimmed(line, offset);
        match self {
            HeaderLines::IfPresent { .. } | HeaderLines::FieldsLine { .. } => {
                line.first() == Some(&b'#')
            }
            HeaderLines::FirstLine { .. } if offset == 0 => true,
            HeaderLines::FirstLine { delimiter } => current.is_some_and(|current| {
                begins_with_column_of(&String::from_utf8_lossy(line), current, delimiter)
            }),
        }
    }

    #[cold]
    fn kind_of_comment(&self, line: &[u8], delimiter: &str) -> LineKind {
        let rest = line.get(FIELDS.len()..).unwrap_or_default();
        let is_header = line.len() > FIELDS.len()
            && line[..FIELDS.len()].eq_ignore_ascii_case(FIELDS)
            && (matches!(rest[0], b':' | b'\t') || rest.starts_with(delimiter.as_bytes()));
        if is_header {
            return header(line);
        }
        match self {
            HeaderLines::FieldsLine { .. } => LineKind::Comment,
            _ => LineKind::Row,
        }
    }
}

/// Returns a line without its line ending, and without the file's byte order mark.
fn trimmed(line: &[u8], offset: u64) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if offset == 0 { &line[bom_len(line)..] } else { line }
}

/// Returns the header in a line. If a header is too long, it is replaced by an empty one, which
/// names no columns.
fn header(line: &[u8]) -> LineKind {
    if line.len() > HEADER_BYTES_MAX {
        return LineKind::Header("".into());
    }
    LineKind::Header(String::from_utf8_lossy(line).into())
}

/// Returns whether a line contains the columns of a header, in any order, with or without blanks
/// and quotation marks around them.
fn has_columns_of(line: &[u8], header: &str, delimiter: &str) -> bool {
    let Ok(line) = std::str::from_utf8(line) else { return false };
    if !begins_with_column_of(line, header, delimiter) {
        return false;
    }
    let sorted = |text: &str| {
        let mut columns: Vec<String> =
            text.split(delimiter).map(|part| bare(part).into()).collect();
        columns.sort_unstable();
        columns
    };
    sorted(line) == sorted(header)
}

/// Returns whether a line, which may be unfinished, begins with a name from a header. Few lines
/// with values pass this check.
fn begins_with_column_of(line: &str, header: &str, delimiter: &str) -> bool {
    let first = line.split(delimiter).next().map(bare).unwrap_or_default();
    !line.is_empty() && header.contains(first)
}

/// Returns the name of a column without the blanks and quotation marks around it.
fn bare(column: &str) -> &str {
    column.trim_matches([' ', '\t', '"', '\''])
}

/// The header lines that are known in a part of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownHeaders {
    /// Offset at which the known part begins.
    from: u64,
    /// Offset at which the known part ends.
    to: u64,
    /// Header lines in ascending order, each with the offset at which it ends.
    list: Vec<(u64, Arc<str>)>,
}

impl KnownHeaders {
    /// Returns whether nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == KnownHeaders::default()
    }

    /// Returns the offset up to which the headers are known.
    pub fn known_to(&self) -> u64 {
        self.to
    }

    /// Returns whether the header at an offset is known.
    pub fn covers(&self, offset: u64) -> bool {
        (self.from..=self.to).contains(&offset)
    }

    /// Returns the header at an offset, which is the last header line before it.
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
        while self.list.len() > 1 && self.is_too_large() {
            self.list.remove(0);
            self.from = self.list[0].0;
        }
    }

    fn is_too_large(&self) -> bool {
        let bytes: usize = self.list.iter().map(|(_, header)| header.len()).sum();
        self.list.len() > HEADERS_MAX || bytes > HEADERS_BYTES_MAX
    }

    /// Records that all header lines between two offsets have been added.
    pub fn reach(&mut self, begin: u64, end: u64) {
        // The first of many header lines may already have been removed.
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
    fn long_headers_are_forgotten_earlier() {
        let mut headers = KnownHeaders::default();
        for n in 1..=3 {
            headers.add(n * 10, n.to_string().repeat(HEADERS_BYTES_MAX / 2).into());
            headers.reach(n * 10 - 10, n * 10);
        }
        assert!(!headers.covers(15) && headers.covers(20) && headers.at(30).is_some());
        headers.add(40, "4".repeat(2 * HEADERS_BYTES_MAX).into());
        assert!(headers.at(40).is_some(), "the last one is always known");
    }

    #[test]
    fn an_unfinished_line_may_become_a_header() {
        let delimiter = || ",".to_owned();
        let first = HeaderLines::FirstLine { delimiter: delimiter() };
        assert!(first.may_become_header(b"x", 0, None));
        assert!(first.may_become_header(b"b,", 9, Some("a,b")));
        assert!(!first.may_become_header(b"1,", 9, Some("a,b")));
        for lines in [
            HeaderLines::IfPresent { delimiter: delimiter() },
            HeaderLines::FieldsLine { delimiter: delimiter() },
        ] {
            assert!(lines.may_become_header(b"#Fi", 9, None));
            assert!(lines.may_become_header(b"\xef\xbb\xbf#", 0, None));
            assert!(!lines.may_become_header(b"1", 0, None));
        }
    }

    #[test]
    fn the_first_line_and_its_repetitions_name_columns() {
        let first = HeaderLines::FirstLine { delimiter: ",".into() };
        let header = |text: &str| LineKind::Header(text.into());
        assert_eq!(first.kind(b"\xef\xbb\xbfa,b\n", 0, None), header("a,b"));
        assert_eq!(first.kind(b"a,b\n", 9, Some("a,b")), header("a,b"));
        assert_eq!(first.kind(b"b,a\r\n", 9, Some("a,b")), header("b,a"));
        assert_eq!(first.kind(b"b,\"a\"\n", 9, Some("a,b")), header("b,\"a\""));
        assert_eq!(first.kind(b" b , a\n", 9, Some("'a',b")), header(" b , a"));
        for row in [&b"a,c\n"[..], b"ab,\n", b"\n", b"a,a\n", b"a,b,\n", b"b\n"] {
            assert_eq!(first.kind(row, 9, Some("a,b")), LineKind::Row);
        }
        assert_eq!(first.kind(b"a,b\n", 9, None), LineKind::Row);
    }
}
