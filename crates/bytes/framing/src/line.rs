//! The lines of a file, decoded or raw.

use crate::record::Record;
use crate::{Close, Event, Stream, TIME_UNKNOWN};
use std::ops::Range;

/// The UTF-8 byte order mark, which is not part of the text.
pub const BOM: &[u8] = "\u{FEFF}".as_bytes();

/// First stream number of isolated lines. Lines from a later call never join an isolated line.
pub const ISOLATED: u32 = 3;

/// One line.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Range of the text, excluding the line ending.
    pub start: u32,
    pub end: u32,
    /// Range of the line's bytes in the file, which ends at the start of the next line.
    pub offset: u32,
    pub next: u32,
    /// The timestamp from the container runtime, or [`TIME_UNKNOWN`].
    pub time_ns: i64,
    /// The stream number. Lines with different numbers are never joined.
    pub stream: u32,
    /// Whether the bytes of this line and the previous line are interleaved, so that both lines are
    /// consumed together.
    pub interleaved: bool,
    /// Whether a limit cut the line off.
    pub cut: bool,
    /// The container stream that the line was written to.
    pub source: Option<Stream>,
    /// Whether another part of the line is missing although the container runtime announced it.
    pub is_partial: bool,
}

impl Line {
    /// Returns the event that consists of this line.
    #[inline]
    pub fn event(&self) -> Event {
        Event {
            start: self.start,
            end: self.end,
            offset: self.offset,
            next: self.next,
            time_ns: self.time_ns,
            stream: self.source,
            is_partial: self.is_partial,
        }
    }
}

/// Buffers for the lines of one call, which the next call reuses.
#[derive(Debug, Default)]
pub struct Scratch {
    pub lines: Vec<Line>,
    /// Offsets of line endings in the raw bytes, and offsets of `\n` in the text.
    pub ends: Vec<u32>,
    pub newlines: Vec<u32>,
    /// Offsets in `out` at which the input was invalid.
    pub invalid: Vec<u32>,
    pub records: Vec<Record>,
}

impl Scratch {
    pub fn clear(&mut self) {
        self.lines.clear();
        self.ends.clear();
        self.newlines.clear();
        self.invalid.clear();
    }
}

/// Finds the lines in text that needs no decoding.
pub fn plain(raw: &[u8], close: Close, lines_max: usize, scratch: &mut Scratch) {
    millstream_scan::newlines(raw, &mut scratch.newlines);
    scratch.newlines.truncate(lines_max);
    let mut offset = 0;
    scratch.lines.extend(scratch.newlines.iter().map(|&newline| {
        let next = newline + 1;
        let line = terminated(raw, offset..newline, offset..next);
        offset = next;
        line
    }));
    if close == Close::All && scratch.lines.len() < lines_max && (offset as usize) < raw.len() {
        let end = raw.len() as u32;
        scratch.lines.push(unterminated(raw, offset..end, offset..end));
    }
}

/// Returns the line whose `\n` is at the end of `span` in `text`. `bytes` is the line's range in
/// the file.
#[inline]
pub fn terminated(text: &[u8], span: Range<u32>, bytes: Range<u32>) -> Line {
    let has_carriage_return = span.end > span.start && text[span.end as usize - 1] == b'\r';
    unterminated(text, span.start..span.end - u32::from(has_carriage_return), bytes)
}

/// Returns a line that has no line ending.
#[inline]
pub fn unterminated(text: &[u8], span: Range<u32>, bytes: Range<u32>) -> Line {
    let begins_with_bom = text[span.start as usize..span.end as usize].starts_with(BOM);
    Line {
        start: if begins_with_bom { span.start + BOM.len() as u32 } else { span.start },
        end: span.end,
        offset: bytes.start,
        next: bytes.end,
        time_ns: TIME_UNKNOWN,
        stream: 0,
        interleaved: false,
        cut: false,
        source: None,
        is_partial: false,
    }
}
