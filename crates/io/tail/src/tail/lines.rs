//! Reading files in which each line is an event.

use super::nuls::leading_nuls;
use super::{Fill, READ_BYTES_MIN, Read, Request, Tail};
use crate::identity::Fingerprint;
use millstream_model::limits::{BATCH_ROWS_MAX, BLOCK_BYTES};
use millstream_model::{AddedLines, Choice, Outcome};
use std::io;

/// Starting with this attempt, an abandoned range is halved, after it was sent in a batch without
/// other data.
const HALVED_FROM: u8 = 3;

impl Tail {
    pub(super) fn read_lines(
        &mut self,
        request: Request<'_>,
        fill: &mut Fill,
        newlines: &mut Vec<u32>,
    ) -> io::Result<Read> {
        let requested = fill.space_left().min(request.left()).min(self.read_bytes);
        let begin = fill.used;
        let n = self
            .content()?
            .read_at(&mut fill.block.memory()[begin..begin + requested], request.position())?;
        newlines.clear();
        millstream_scan::newlines(&fill.block.filled(begin + n)[begin..], newlines);
        let begins_with_nul = n > 0 && fill.block.filled(begin + n)[begin] == 0;
        let is_run = begins_with_nul && newlines.is_empty();
        let read = if is_run && self.starts_line(request.position()) {
            let text = &fill.block.filled(begin + n)[begin..];
            let nuls = leading_nuls(text);
            self.content()?.unread_last(&text[nuls..]);
            return self.skip_nuls(request, fill, nuls, n);
        } else if newlines.is_empty() {
            self.unfinished(request, fill, n, requested)
        } else {
            let whole = newlines.last().map_or(0, |last| *last as usize + 1);
            if !self.lines(request, fill, newlines) {
                let text = fill.block.filled(begin + n);
                self.content()?.unread_last(&text[begin..]);
                return Ok(Read::Full);
            }
            // A short read is enough reason to stop here. Only `finish` needs an empty read as
            // proof of the end.
            let is_end = fill.used == begin + whole && n < requested && !request.finish;
            Ok(if is_end { Read::End } else { Read::More })
        };
        if fill.used < begin + n {
            self.note_end(request.position() + n as u64, request.cx);
        }
        let text = fill.block.filled(begin + n);
        self.content()?.unread_last(&text[fill.used.clamp(begin, begin + n)..]);
        read
    }

    /// Adds the complete lines that end at `newlines`, offsets in the block after `fill.used`.
    /// Returns `false`, without any effect, if their header differs from the header of the block.
    fn lines(&mut self, request: Request<'_>, fill: &mut Fill, newlines: &mut Vec<u32>) -> bool {
        newlines.truncate(BATCH_ROWS_MAX - fill.builder.rows());
        if is_suspect(request.choice) {
            let first = newlines[0] as usize + 1;
            if is_whole_range(request.choice, first) {
                self.reject(request, first as u64);
                return true;
            }
            newlines.truncate((newlines.len() / 2).max(1));
        }
        let mut found = None;
        if self.header.is_some() {
            let end = newlines.last().map_or(0, |last| *last as usize + 1);
            let text = &fill.block.filled(fill.used + end)[fill.used..];
            found = self.split_at_header(request, text, newlines);
            if !self.admit_with(request, fill, found.as_ref()) {
                return false;
            }
        }
        let Some(&last) = newlines.last() else { return true };
        let bytes = last as usize + 1;
        let rows_before = fill.builder.rows();
        self.add_lines(request, fill, newlines, bytes);
        let rows = fill.builder.rows() - rows_before;
        if self.header.is_some() {
            self.note_lines(request, fill, rows_before, found, bytes as u64);
        }
        self.segment(request, fill, bytes as u64, bytes);
        self.block_bytes = BLOCK_BYTES;
        self.read_bytes = (bytes / rows.max(1) * BATCH_ROWS_MAX).max(READ_BYTES_MIN);
        true
    }

    /// Adds the rows for lines that take `bytes` in the block.
    fn add_lines(
        &mut self,
        request: Request<'_>,
        fill: &mut Fill,
        newlines: &mut [u32],
        bytes: usize,
    ) {
        let begin = fill.used;
        if begin > 0 {
            for newline in &mut *newlines {
                *newline += begin as u32;
            }
        }
        let block = fill.block.filled(begin + bytes);
        let limits = request.limits;
        let builder = &mut fill.builder;
        let text = begin + request.mark_len(&block[begin..]);
        let AddedLines { lines, mut cuts } =
            builder.lines_before_nul(block, text, newlines, limits.line_max, limits.long);
        if lines < newlines.len() {
            cuts += self.lines_without_nuls(request, builder, block, begin, newlines, lines);
        }
        self.count_long(request, cuts);
        self.record_read(&block[begin..], request.position() + bytes as u64);
    }

    /// Fingerprints the last bytes read: `text`, which ends at offset `end`.
    pub fn record_read(&mut self, text: &[u8], end: u64) {
        if end > self.fingerprints.last().end {
            let content = self.content.as_mut().filter(|content| !content.is_compressed());
            let read = || content.and_then(|content| Fingerprint::read(content, end).ok());
            if let Some(fingerprint) = Fingerprint::of_text(text, end).or_else(read) {
                self.fingerprints.add(fingerprint);
            }
            self.fingerprints.keep_recent(text, end);
        }
    }

    /// Adds a segment for `source_bytes` of the file, which take `block_bytes` in the block, and
    /// advances the cursor.
    pub(super) fn segment(
        &mut self,
        request: Request<'_>,
        fill: &mut Fill,
        source_bytes: u64,
        block_bytes: usize,
    ) {
        let cursor = request.choice.cursor;
        let begin = request.position();
        let cx = request.cx;
        let end = begin + source_bytes;
        let ack = cx.ledger.issue(
            self.origin.id,
            begin..end,
            cursor.sinks,
            cursor.attempt,
            cx.now.since_start,
        );
        fill.builder.segment(self.origin.clone(), begin.wrapping_sub(fill.used as u64), ack);
        fill.used += block_bytes;
        self.cursors.advance(request.choice.index, end);
        self.origin.state.read(source_bytes, end);
        cx.counters.received(0, source_bytes);
    }

    /// Handles a read that returned `n` of `requested` bytes without a line ending.
    fn unfinished(
        &mut self,
        request: Request<'_>,
        fill: &mut Fill,
        n: usize,
        requested: usize,
    ) -> io::Result<Read> {
        let line_max = request.limits.line_max;
        let mark = request.mark_len(&fill.block.filled(fill.used + n)[fill.used..]);
        if n > mark + line_max + 1 {
            return self.start_long(request, fill, n);
        }
        if n == 0 {
            return Ok(Read::Nothing);
        }
        if n == request.left() || self.ends_at(request.position() + n as u64, request)? {
            return Ok(if self.last_line(request, fill, n) { Read::More } else { Read::Full });
        }
        if n < requested {
            let text = &fill.block.filled(fill.used + n)[fill.used..];
            self.note_unfinished(request, text, request.position() + n as u64);
            return Ok(if request.finish { Read::More } else { Read::End });
        }
        if fill.used > 0 {
            return Ok(Read::Full);
        }
        if requested < fill.space_left() {
            self.read_bytes = usize::MAX;
            return Ok(Read::More);
        }
        self.block_bytes = line_max + READ_BYTES_MIN;
        Ok(Read::Full)
    }

    /// Adds the `n` bytes of a last line without a line ending. Returns `false`, without any
    /// effect, if its header differs from the header of the block.
    fn last_line(&mut self, request: Request<'_>, fill: &mut Fill, n: usize) -> bool {
        if is_suspect(request.choice) {
            self.reject(request, n as u64);
            return true;
        }
        let rows_before = fill.builder.rows();
        let mut found = None;
        if self.header.is_some() {
            let text = &fill.block.filled(fill.used + n)[fill.used..];
            found = self.split_at_header(request, text, &mut vec![n as u32]);
            if !self.admit_with(request, fill, found.as_ref()) {
                return false;
            }
        }
        let begin = fill.used;
        let limits = request.limits;
        let read = &fill.block.filled(begin + n)[begin..];
        let mark = request.mark_len(read);
        let text = &read[mark..];
        let start = begin + mark;
        if text.len() <= limits.line_max {
            fill.builder.row(text, start);
        } else {
            let cuts = fill.builder.long_row(text, start, limits.line_max, limits.long);
            self.count_long(request, cuts);
        }
        self.record_read(read, request.position() + n as u64);
        if self.header.is_some() {
            self.note_lines(request, fill, rows_before, found, n as u64);
        }
        self.segment(request, fill, n as u64, n);
        true
    }

    /// Rejects and counts a single line or event on which a sink panics at every attempt.
    pub(super) fn reject(&mut self, request: Request<'_>, bytes: u64) {
        let cursor = request.choice.cursor;
        let begin = request.position();
        let cx = request.cx;
        let end = begin + bytes;
        let ack = cx.ledger.issue(
            self.origin.id,
            begin..end,
            cursor.sinks,
            cursor.attempt,
            cx.now.since_start,
        );
        for hold in cursor.sinks.iter().filter_map(|sink| ack.hold(sink)) {
            hold.settle(Outcome::Rejected);
        }
        ack.finish();
        cx.counters.dropped("panic", 1);
        log::error!(
            "{}: rejected the line at offset {begin} because a sink panics on it",
            self.origin.name
        );
        self.cursors.advance(request.choice.index, end);
    }
}

/// Returns whether the range at the cursor was abandoned although its batch contained no other
/// data. If the range is a single line, that line is the cause. If it has several lines, the first
/// half is sent alone, and then the second half.
pub(super) fn is_suspect(choice: Choice) -> bool {
    choice.cursor.attempt >= HALVED_FROM && choice.cursor.position == choice.cursor.begin
}

/// Returns whether the first `bytes` at the cursor are the whole range of the cursor.
pub(super) fn is_whole_range(choice: Choice, bytes: usize) -> bool {
    choice.cursor.until == Some(choice.cursor.position + bytes as u64)
}
