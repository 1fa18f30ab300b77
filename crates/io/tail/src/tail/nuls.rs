//! NUL bytes at the start of a line, which are not text.
//!
//! After a truncation, a writer that does not append continues at its old offset, and the file
//! begins with a hole that reads as NUL bytes. These bytes are skipped once other data follows,
//! because NUL bytes at the end of a file may be space that its writer has allocated and will
//! overwrite.

use super::{Fill, READ_BYTES_MIN, Read, Request, Tail};
use crate::file_framer::LineLimits;
use millstream_model::BatchBuilder;
use std::io;

/// Maximum number of blocks of NUL bytes that one read skips.
const BLOCKS_MAX: usize = 64;

/// A run of NUL bytes at a cursor.
pub(super) struct NulRun {
    /// Offset at which the run begins.
    start: u64,
    /// Offset up to which there are only NUL bytes.
    scanned: u64,
}

/// Returns the number of NUL bytes at the start of `text`.
pub(super) fn leading_nuls(text: &[u8]) -> usize {
    let (words, _) = text.as_chunks::<64>();
    let zero = words.iter().take_while(|word| **word == [0; 64]).count() * 64;
    let rest = &text[zero..];
    zero + rest.iter().position(|byte| *byte != 0).unwrap_or(rest.len())
}

/// Returns the offset of the first line in `raw` that starts with NUL bytes. Returns `None` if
/// there is no such line, or if it is the first line. NUL bytes at the end of `raw` count only if
/// `is_final`, because they may be space that a writer will overwrite.
pub(super) fn before_nuls(raw: &[u8], is_final: bool) -> Option<usize> {
    let starts = memchr::memchr_iter(0, raw).filter(|at| *at > 0 && raw[at - 1] == b'\n');
    starts
        .map(|at| (at, leading_nuls(&raw[at..])))
        .find_map(|(at, nuls)| (is_final || at + nuls < raw.len()).then_some(at))
}

impl Tail {
    /// Returns whether a line begins at this offset, rather than another piece of a long line that
    /// `on_long_line: split` has cut. NUL bytes before the offset belong to the same run.
    pub(super) fn starts_line(&mut self, offset: u64) -> bool {
        if self.is_compressed() {
            return self.piece_end != Some(offset);
        }
        let mut before = vec![0; READ_BYTES_MIN.min(offset as usize)];
        let from = offset - before.len() as u64;
        let read = self.content().and_then(|content| content.read_all_at(&mut before, from));
        let last = before.iter().rev().find(|byte| **byte != 0);
        read.is_err() || last.is_none_or(|byte| *byte == b'\n')
    }

    /// Adds lines like [`BatchBuilder::lines`], without leading NUL bytes: the lines that end at
    /// `newlines`, except the first `done` lines. The very first line is at `begin` and at the
    /// cursor.
    #[cold]
    pub(super) fn lines_without_nuls(
        &mut self,
        request: Request<'_>,
        builder: &mut BatchBuilder,
        block: &[u8],
        begin: usize,
        newlines: &[u32],
        done: usize,
    ) -> u64 {
        let LineLimits { line_max, long } = request.limits;
        let is_piece = done == 0 && !self.starts_line(request.position());
        let after = |newline: u32| newline as usize + 1;
        let mut start = begin + request.mark_len(&block[begin..]);
        let mut cuts = 0;
        if let Some(last) = done.checked_sub(1) {
            start = after(newlines[last]);
        }
        for &newline in &newlines[done..] {
            let mut nuls = 0;
            if !is_piece || start > begin {
                nuls = leading_nuls(&block[start..newline as usize]);
            }
            if nuls > 0 {
                let offset = request.position() + (start - begin + nuls) as u64;
                self.count_nuls(request, nuls as u64, offset);
            }
            cuts += builder.lines(block, start + nuls, &[newline], line_max, long);
            start = after(newline);
        }
        cuts
    }

    /// Counts NUL bytes that end at `offset`, and logs a file's first occurrence.
    fn count_nuls(&mut self, request: Request<'_>, nuls: u64, offset: u64) {
        request.cx.counters.noted("leading_nuls", 1);
        if !std::mem::replace(&mut self.nuls_logged, true) {
            log::warn!(
                "source {}: {}: skipped {nuls} NUL bytes before the line at offset {offset}; a \
                 writer that does not open the file for appending leaves such bytes after a truncation",
                request.cx.info.id,
                self.path().display()
            );
        }
    }

    /// Skips the NUL bytes at the start of the line at the cursor: the first `nuls` of the `n`
    /// bytes that were read there.
    #[cold]
    pub(super) fn skip_nuls(
        &mut self,
        request: Request<'_>,
        fill: &mut Fill,
        nuls: usize,
        n: usize,
    ) -> io::Result<Read> {
        let end = request.position() + nuls as u64;
        self.note_end(request.position() + n as u64, request.cx);
        if nuls < n {
            self.count_nuls(request, nuls as u64, end);
        } else if nuls < request.left() && !self.is_compressed() {
            return self.scan_nuls(request, fill, end);
        }
        // Either the range ends here, or the data is compressed, so that no writer overwrites it.
        self.pass_nuls(request, fill, end);
        Ok(Read::More)
    }

    /// Searches for the end of the NUL bytes at the cursor, which extend at least to `from`.
    fn scan_nuls(&mut self, request: Request<'_>, fill: &mut Fill, from: u64) -> io::Result<Read> {
        let start = request.position();
        let known = self.nuls.take().filter(|run| run.start == start).map_or(0, |run| run.scanned);
        let size = self.content()?.bytes()?;
        let mut scanned = if known <= size { known.max(from) } else { from };
        let mut buffer = vec![0; READ_BYTES_MIN];
        for _ in 0..BLOCKS_MAX {
            scanned = self.content()?.next_data(scanned)?;
            let n = self.content()?.read_at(&mut buffer, scanned)?;
            let nuls = leading_nuls(&buffer[..n]);
            scanned += nuls as u64;
            if nuls < n {
                let end = request.choice.limit.map_or(scanned, |limit| limit.min(scanned));
                self.count_nuls(request, end - start, end);
                self.pass_nuls(request, fill, end);
                return Ok(Read::More);
            }
            if n == 0 {
                self.note_end(scanned, request.cx);
                if self.ends_at(scanned, request)? {
                    self.count_nuls(request, scanned - start, scanned);
                    self.pass_nuls(request, fill, scanned);
                    return Ok(Read::More);
                }
                self.nuls = Some(Box::new(NulRun { start, scanned }));
                return Ok(Read::End);
            }
        }
        self.nuls = Some(Box::new(NulRun { start, scanned }));
        Ok(Read::More)
    }

    /// Moves the cursor past NUL bytes that end at `end`.
    fn pass_nuls(&mut self, request: Request<'_>, fill: &mut Fill, end: u64) {
        self.record_read(&[], end);
        self.segment(request, fill, end - request.position(), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_nuls_are_counted_whatever_their_number() {
        for nuls in [0, 1, 63, 64, 65, 1000] {
            let mut text = vec![0; nuls];
            assert_eq!(leading_nuls(&text), nuls);
            text.extend_from_slice(b"a\0b");
            assert_eq!(leading_nuls(&text), nuls);
        }
    }

    #[test]
    fn lines_end_before_nuls_that_other_bytes_follow() {
        assert_eq!(before_nuls(b"a\nb\n\0\0c", false), Some(4));
        assert_eq!(before_nuls(b"a\0\nb\n\0\0", false), None, "its writer may overwrite them");
        assert_eq!(before_nuls(b"a\0\nb\n\0\0", true), Some(5));
        assert_eq!(before_nuls(b"\0\0a\nb\0\n", true), None);
    }
}
