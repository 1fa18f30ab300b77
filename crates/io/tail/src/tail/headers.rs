//! A file's header lines: which header names the columns at a cursor, and where the next header is.
//!
//! All rows in a batch share one header, so a block ends where another header begins.

use super::{Buffers, Fill, Request, Tail};
use crate::file_framer::{FileFramer, OUT_MARGIN, Portion, together};
use crate::header::{HEADER_BYTES_MAX, HeaderLines, LineKind};
use millstream_framing::{Close, Event, EventBuffer, Framed, Input, bom_len};
use millstream_model::limits::BATCH_ROWS_MAX;
use std::io;
use std::sync::Arc;

/// Bytes searched per step.
const STEP_BYTES: usize = 1024 * 1024;

/// Maximum number of steps per read, so that a long search does not delay other files.
const STEPS_MAX: usize = 8;

/// The header that a group of lines begins with; `None` if the lines begin only with comments.
#[derive(Clone, Debug)]
pub(super) struct LeadingHeader(Option<Arc<str>>);

impl Tail {
    /// Returns the header at an offset.
    pub(super) fn header_at(&self, offset: u64) -> Option<Arc<str>> {
        self.header.as_ref()?;
        self.descriptor.headers.at(offset).cloned()
    }

    /// Returns whether lines at the cursor may join the block.
    pub(super) fn admit(&self, request: Request<'_>, fill: &mut Fill) -> bool {
        self.admit_with(request, fill, None)
    }

    /// Returns whether lines at the cursor that begin with `found` may join the block. A header
    /// line is not an event, so it may join the lines that it describes in one block.
    pub(super) fn admit_with(
        &self,
        request: Request<'_>,
        fill: &mut Fill,
        found: Option<&LeadingHeader>,
    ) -> bool {
        let new = found.and_then(|found| found.0.clone());
        let header = new.or_else(|| self.header_at(request.position()));
        if fill.builder.rows() == 0 {
            fill.header = header;
            return true;
        }
        fill.header == header
    }

    /// Truncates `newlines`, the ends of the lines in `text` at the cursor, so that the lines are
    /// either all header lines and comments, or all rows. Returns the header with which they begin.
    pub(super) fn split_at_header(
        &self,
        request: Request<'_>,
        text: &[u8],
        newlines: &mut Vec<u32>,
    ) -> Option<LeadingHeader> {
        let mut split = Split::default();
        let mut current = self.header_at(request.position());
        let lines = self.header.as_ref()?;
        let mut start = 0;
        for (index, newline) in newlines.iter().enumerate() {
            let end = *newline as usize;
            let offset = request.position() + start as u64;
            let kind = lines.kind(&text[start..end], offset, current.as_deref());
            if split.ends_at(kind, &mut current) {
                newlines.truncate(index);
                break;
            }
            start = end + 1;
        }
        split.found()
    }

    /// Truncates events in the same way as [`Tail::split_at_header`] truncates lines.
    pub(super) fn split_events(
        &self,
        framer: &FileFramer,
        request: Request<'_>,
        fill: &Fill,
        buffers: &mut Buffers,
        portion: Portion,
        framed: &mut Framed,
    ) -> Option<LeadingHeader> {
        let mut split = Split::default();
        let mut current = self.header_at(request.position());
        let lines = self.header.as_ref()?;
        let decoded = framer.is_decoding();
        let bytes = if decoded { framed.written } else { portion.bytes };
        let block = &fill.block.filled(fill.used + bytes)[fill.used..];
        let events = &mut buffers.found.events;
        let mut cut = None;
        for (index, event) in events.iter().enumerate() {
            let text = &block[event.start as usize..event.end as usize];
            let offset = offset_of(index, *event, request.position());
            let kind = kind_of_event(lines, text, offset, current.as_deref());
            if split.ends_at(kind, &mut current) {
                cut = Some(index);
                break;
            }
        }
        if let Some(index) = cut {
            let group = together(events, index);
            let end = events[group.events - 1].end as usize;
            events.truncate(group.events);
            framed.used = group.bytes;
            if decoded {
                framed.written = end;
            }
        }
        split.found()
    }

    /// Records the header lines in the `bytes` at the cursor. The rows of these lines begin at
    /// `rows_before`.
    pub(super) fn note_lines(
        &mut self,
        request: Request<'_>,
        fill: &mut Fill,
        rows_before: usize,
        found: Option<LeadingHeader>,
        bytes: u64,
    ) {
        let begin = request.position();
        if let Some(LeadingHeader(header)) = found {
            fill.header_rows.extend(rows_before as u32..fill.builder.rows() as u32);
            if let Some(header) = header {
                self.descriptor.headers.add(begin + bytes, header);
            }
        }
        self.descriptor.headers.reach(begin, begin + bytes);
    }

    /// Finds the header at an offset if it is not known yet: after a start, if no record contains
    /// it, or if reading begins in the middle of a file. Returns `false` if the search must
    /// continue.
    pub(super) fn find_header(&mut self, offset: u64) -> io::Result<bool> {
        if self.descriptor.headers.covers(offset) {
            return Ok(true);
        }
        self.search_header(offset)
    }

    #[cold]
    fn search_header(&mut self, offset: u64) -> io::Result<bool> {
        if offset < self.descriptor.headers.known_to() {
            self.descriptor.headers.clear();
        }
        let Some(lines) = self.header.clone() else { return Ok(true) };
        for _ in 0..STEPS_MAX {
            let from = self.descriptor.headers.known_to();
            if from >= offset {
                return Ok(true);
            }
            let bytes = (offset - from).min(STEP_BYTES as u64) as usize;
            let mut raw = vec![0; bytes];
            let read = self.content()?.read_all_at(&mut raw, from)?;
            raw.truncate(read);
            let is_relevant = from > 0 || has_header(&lines, &raw);
            let searched = if is_relevant { self.search_in(&lines, &raw, from) } else { 0 };
            let is_done = searched == 0 || matches!(*lines, HeaderLines::FirstLine { .. });
            let end = if is_done { offset } else { from + searched as u64 };
            self.descriptor.headers.reach(from, end.min(offset));
        }
        Ok(self.descriptor.headers.covers(offset))
    }

    /// Adds the header lines in `raw`, which begins at offset `from`. Returns how many bytes were
    /// searched.
    fn search_in(&mut self, lines: &HeaderLines, raw: &[u8], from: u64) -> usize {
        match self.framer.take() {
            Some(mut framer) if framer.is_decoding() => {
                let used = self.search_events(&mut framer, lines, raw, from);
                self.framer = Some(framer);
                used
            }
            framer => {
                self.framer = framer;
                self.search_lines(lines, raw, from)
            }
        }
    }

    fn search_lines(&mut self, lines: &HeaderLines, raw: &[u8], from: u64) -> usize {
        let mut start = 0;
        for newline in memchr::memchr_iter(b'\n', raw) {
            let current = self.descriptor.headers.at(u64::MAX).cloned();
            let kind = lines.kind(&raw[start..newline], from + start as u64, current.as_deref());
            start = newline + 1;
            if let LineKind::Header(header) = kind {
                self.descriptor.headers.add(from + start as u64, header);
            }
        }
        // A line that has no end within this many bytes is not a header line.
        if start == 0 { raw.len() } else { start }
    }

    fn search_events(
        &mut self,
        framer: &mut FileFramer,
        lines: &HeaderLines,
        raw: &[u8],
        from: u64,
    ) -> usize {
        let mut out = vec![0; raw.len() * framer.expansion() + OUT_MARGIN];
        let mut found = EventBuffer::default();
        let input = Input { raw, close: Close::No, rows_max: BATCH_ROWS_MAX, reference_ns: 0 };
        let framed = framer.frame(input, &mut out, &mut found);
        for (index, event) in found.events.iter().enumerate() {
            let current = self.descriptor.headers.at(u64::MAX).cloned();
            let text = &out[event.start as usize..event.end as usize];
            let offset = offset_of(index, *event, from);
            let kind = kind_of_event(lines, text, offset, current.as_deref());
            if let LineKind::Header(header) = kind {
                self.descriptor.headers.add(from + u64::from(event.next), header);
            }
        }
        if framed.used == 0 { raw.len() } else { framed.used }
    }
}

/// Returns the offset of an event in the bytes at `position`. Only a byte order mark may precede
/// the first event in a file.
fn offset_of(index: usize, event: Event, position: u64) -> u64 {
    if index == 0 { position } else { position + u64::from(event.offset) }
}

/// Returns the kind of an event. An event with several lines is a row, so that no line is lost.
fn kind_of_event(lines: &HeaderLines, text: &[u8], offset: u64, current: Option<&str>) -> LineKind {
    if memchr::memchr(b'\n', text).is_some() {
        return LineKind::Row;
    }
    lines.kind(text, offset, current)
}

/// Returns whether a file that begins with `raw` may have a header, so that a search for it is
/// needed. Without this check, files without headers would be reread from the beginning at every
/// agent start.
fn has_header(lines: &HeaderLines, raw: &[u8]) -> bool {
    let head = &raw[..raw.len().min(HEADER_BYTES_MAX)];
    match lines {
        HeaderLines::IfPresent { .. } => head[bom_len(head)..].first() == Some(&b'#'),
        _ => true,
    }
}

/// Collects lines of one kind: header lines and comments, or rows.
#[derive(Default)]
struct Split {
    has_rows: bool,
    has_headers: bool,
    header: Option<Arc<str>>,
}

impl Split {
    /// Adds a line. Returns `true` instead if the kind of the line differs from the kind of the
    /// previous lines.
    fn ends_at(&mut self, kind: LineKind, current: &mut Option<Arc<str>>) -> bool {
        let is_row = kind == LineKind::Row;
        let has_other_sort = if is_row { self.has_headers } else { self.has_rows };
        if has_other_sort {
            return true;
        }
        self.has_rows = is_row;
        self.has_headers = !is_row;
        if let LineKind::Header(header) = kind {
            *current = Some(header.clone());
            self.header = Some(header);
        }
        false
    }

    fn found(self) -> Option<LeadingHeader> {
        self.has_headers.then_some(LeadingHeader(self.header))
    }
}
