//! The lines that the bytes of a file hold, decoded or as they stand.

use crate::{Close, TIME_UNKNOWN};

/// The byte order mark of UTF-8. It says nothing that a reader of lines needs.
pub const BOM: &[u8] = "\u{FEFF}".as_bytes();

/// Nothing behind the lines of one call joins a stream of this number or a higher one.
pub const APART: u32 = 3;

/// One line.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Where its text begins and ends, without its line end.
    pub start: u32,
    pub end: u32,
    /// Its bytes in the file: from here up to the next line's.
    pub offset: u32,
    pub next: u32,
    /// The time that its container gives it, or [`TIME_UNKNOWN`].
    pub time_ns: i64,
    /// Lines of different numbers are never joined.
    pub stream: u32,
    /// Its bytes lie among those of the line before: both are used up together.
    pub glued: bool,
    /// A limit ended it.
    pub cut: bool,
}

/// Memory for the lines of one call.
#[derive(Debug, Default)]
pub struct Scratch {
    pub lines: Vec<Line>,
    /// Ends of the lines in the raw bytes, and positions of `\n` in the text.
    pub ends: Vec<u32>,
    pub newlines: Vec<u32>,
    /// Where in `out` something stands that was broken.
    pub faults: Vec<u32>,
    pub records: Vec<crate::container::Record>,
}

impl Scratch {
    pub fn clear(&mut self) {
        self.lines.clear();
        self.ends.clear();
        self.newlines.clear();
        self.faults.clear();
    }
}

/// The lines of text that needs no decoding.
pub fn plain(raw: &[u8], close: Close, lines_max: usize, scratch: &mut Scratch) {
    millstream_scan::newlines(raw, &mut scratch.newlines);
    scratch.newlines.truncate(lines_max);
    let mut offset = 0;
    scratch.lines.extend(scratch.newlines.iter().map(|&newline| {
        let line = whole(raw, (offset, newline), (offset, newline + 1));
        offset = newline + 1;
        line
    }));
    if close == Close::All && scratch.lines.len() < lines_max && (offset as usize) < raw.len() {
        let end = raw.len() as u32;
        scratch.lines.push(unfinished(raw, (offset, end), (offset, end)));
    }
}

/// A line whose `\n` stands at the end of `span` in `text`; `bytes` is where it is in the file.
#[inline]
pub fn whole(text: &[u8], span: (u32, u32), bytes: (u32, u32)) -> Line {
    let has_return = span.1 > span.0 && text[span.1 as usize - 1] == b'\r';
    unfinished(text, (span.0, span.1 - u32::from(has_return)), bytes)
}

/// A line without a line end.
#[inline]
pub fn unfinished(text: &[u8], (start, end): (u32, u32), (offset, next): (u32, u32)) -> Line {
    let begins_with_bom = text[start as usize..end as usize].starts_with(BOM);
    let start = if begins_with_bom { start + BOM.len() as u32 } else { start };
    Line { start, end, offset, next, time_ns: TIME_UNKNOWN, stream: 0, glued: false, cut: false }
}
