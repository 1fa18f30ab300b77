//! Lines that exceed the limit and do not fit into a block.

use super::lines::{is_suspect, is_whole_range};
use super::{Fill, READ_BYTES_MIN, Read, Request, Tail};
use millstream_model::limits::BLOCK_BYTES;
use millstream_model::{LongLine, char_boundary};
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// Number of additional bytes to read with a piece, to see whether the piece would end inside a
/// character. The bytes also leave room for a byte order mark.
const BEHIND_CUT: usize = 4;

/// A line longer than `max_line` whose end has not been found yet.
pub(super) struct LongScan {
    /// Offset at which the line begins.
    pub start: u64,
    /// Offset up to which no line ending was found.
    pub scanned: u64,
}

/// A piece of a line that was copied into a block.
struct Piece {
    /// Number of bytes in the file.
    used: usize,
    /// Number of bytes in the block.
    written: usize,
}

impl Tail {
    pub(super) fn count_long(&self, request: Request<'_>, cuts: u64) {
        request.limits.long.count(request.cx.counters, cuts);
        self.origin.state.long_lines.fetch_add(cuts, Relaxed);
    }

    /// Handles a line that has no line ending in its first `n` bytes: emits a piece of the line, or
    /// starts searching for its end.
    pub(super) fn start_long(
        &mut self,
        request: Request<'_>,
        fill: &mut Fill,
        n: usize,
    ) -> io::Result<Read> {
        if !self.admit(request, fill) {
            return Ok(Read::Full);
        }
        let start = request.position();
        let line_max = request.limits.line_max;
        if request.limits.long != LongLine::Split {
            self.long.push(LongScan { start, scanned: start + self.whole_units(n) as u64 });
            return Ok(Read::More);
        }
        let begin = fill.used;
        let Piece { used, written } = self.piece(request, fill, line_max, n)?;
        self.count_long(request, 1);
        let text = &fill.block.filled(begin + written)[begin..];
        let mark = request.mark_len(text);
        fill.builder.row_at(&text[mark..], begin + mark, self.text_offset(start, mark));
        self.record_read(&[], start + used as u64);
        self.segment(request, fill, used as u64, written);
        self.piece_end = Some(start + used as u64);
        Ok(Read::More)
    }

    /// Returns the offset of the text of a line that starts at `start` with a byte order mark of
    /// `mark` bytes. With a framer, an event includes the mark.
    fn text_offset(&self, start: u64, mark: usize) -> u64 {
        if self.framer.is_some() { start } else { start + mark as u64 }
    }

    /// Copies the text of the first `bytes` bytes, out of at least `n` bytes at the cursor, into
    /// the block, without splitting a character. A byte order mark is copied as well.
    fn piece(
        &mut self,
        request: Request<'_>,
        fill: &mut Fill,
        bytes: usize,
        n: usize,
    ) -> io::Result<Piece> {
        let begin = fill.used;
        let mut raw = vec![0; n.max(bytes + BEHIND_CUT)];
        let n = self.content()?.read_all_at(&mut raw, request.position())?;
        match self.framer.as_deref().filter(|framer| framer.is_decoding()) {
            Some(framer) => {
                let text = &mut fill.block.memory()[begin..];
                let (used, written) = framer.decode_chunk(&raw[..bytes.min(n)], text);
                Ok(Piece { used, written })
            }
            None => {
                let cut = char_boundary(&raw[..n], request.mark_len(&raw[..n]) + bytes);
                fill.block.memory()[begin..begin + cut].copy_from_slice(&raw[..cut]);
                Ok(Piece { used: cut, written: cut })
            }
        }
    }

    /// Returns how many of `n` bytes are whole code units.
    fn whole_units(&self, n: usize) -> usize {
        let is_decoding = self.framer.as_ref().is_some_and(|framer| framer.is_decoding());
        if is_decoding && n > 1 { n & !1 } else { n }
    }

    /// Searches for the end of an overlong line. Once the end is found, emits the beginning of the
    /// line, or drops the line.
    pub(super) fn scan_long(&mut self, request: Request<'_>, fill: &mut Fill) -> io::Result<Read> {
        let at = |long: &LongScan| long.start == request.position();
        let Some(index) = self.long.iter().position(at) else { return Ok(Read::More) };
        let begin = fill.used;
        let start = self.long[index].start;
        let scanned = self.long[index].scanned;
        let need = self.long_block_bytes(request.limits.line_max);
        if fill.space_left() < need {
            if begin == 0 {
                self.block_bytes = need + READ_BYTES_MIN;
            }
            return Ok(Read::Full);
        }
        let n = self.content()?.read_at(&mut fill.block.memory()[begin..], scanned)?;
        let text = &fill.block.filled(begin + n)[begin..];
        let line_end = match self.framer.as_ref() {
            Some(framer) => framer.line_end(text),
            None => memchr::memchr(b'\n', text).map(|at| at + 1),
        };
        let end = match line_end {
            Some(bytes) => scanned + bytes as u64,
            None if self.ends_at(scanned + n as u64, request)? => scanned + n as u64,
            None => {
                self.note_unfinished(
                    request,
                    &fill.block.filled(begin + n)[begin..],
                    scanned + n as u64,
                );
                self.long[index].scanned += self.whole_units(n) as u64;
                return Ok(if n == 0 { Read::Nothing } else { Read::More });
            }
        };
        self.long.swap_remove(index);
        self.block_bytes = BLOCK_BYTES;
        self.end_long(request, fill, start..end)?;
        Ok(Read::More)
    }

    /// Returns the number of block bytes that the beginning of an overlong line may need.
    fn long_block_bytes(&self, line_max: usize) -> usize {
        let expansion = self.framer.as_ref().map_or(1, |framer| framer.expansion());
        self.long_raw_bytes(line_max) * expansion + crate::file_framer::OUT_MARGIN
    }

    /// Returns the number of file bytes that decode to `line_max` bytes of text, plus some slack.
    fn long_raw_bytes(&self, line_max: usize) -> usize {
        self.framer.as_ref().map_or(line_max, |framer| framer.raw_bytes(line_max)) + 4
    }

    /// Emits the beginning of an overlong line whose end is known, or drops the line.
    fn end_long(
        &mut self,
        request: Request<'_>,
        fill: &mut Fill,
        line: Range<u64>,
    ) -> io::Result<()> {
        let bytes = (line.end - line.start) as usize;
        if is_suspect(request.choice) && is_whole_range(request.choice, bytes) {
            self.reject(request, bytes as u64);
            return Ok(());
        }
        self.count_long(request, 1);
        let begin = fill.used;
        let line_max = request.limits.line_max;
        let mut written = 0;
        if request.limits.long == LongLine::Truncate {
            let raw = self.long_raw_bytes(line_max).min(bytes);
            written = self.piece(request, fill, raw, raw)?.written;
            let text = &fill.block.filled(begin + written)[begin..];
            let mark = request.mark_len(text);
            fill.builder.long_row(&text[mark..], begin + mark, line_max, LongLine::Truncate);
            fill.builder.offset(self.text_offset(line.start, mark));
        }
        self.record_read(&[], line.end);
        self.segment(request, fill, bytes as u64, written);
        Ok(())
    }
}
