//! One file: its cursors, and reading lines of it into a block.

use super::identity::{Descriptor, HEAD_BYTES_MAX, Head, Inode, Mark, Marks};
use crate::files::content::Content;
use millstream_model::limits::{BATCH_ROWS_MAX, BLOCK_BYTES};
use millstream_model::{
    BatchBuilder, Block, Choice, Cursors, LongLine, Origin, Outcome, Permit, SinkSet, SourceCx, Standing,
    char_boundary,
};
use rustix::fs::fstat;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Smallest read, in bytes, however short the lines are.
const READ_BYTES_MIN: usize = 64 * 1024;

/// From this attempt on an abandoned range travels alone, to answer for itself.
pub const ALONE_FROM: u8 = 2;

/// From this attempt on, having travelled alone before, an abandoned range is halved.
const HALVED_FROM: u8 = 3;

/// A block being filled with lines of one or more files.
pub struct Fill {
    pub block: Block,
    pub permit: Permit,
    pub builder: BatchBuilder,
    /// The sinks of every line in it.
    pub sinks: SinkSet,
    used: usize,
    /// Positions of newlines in the last read; kept for its memory.
    newlines: Vec<u32>,
}

impl Fill {
    /// An empty fill for lines to `sinks`.
    pub fn new(block: Block, permit: Permit, sinks: SinkSet) -> Fill {
        let builder = BatchBuilder::with_capacity(BLOCK_BYTES / 128);
        Fill { block, permit, builder, sinks, used: 0, newlines: Vec::new() }
    }

    /// Bytes filled.
    pub fn used(&self) -> usize {
        self.used
    }

    fn room(&self) -> usize {
        self.block.capacity() - self.used
    }

    /// Whether another read is worth while.
    pub fn is_full(&self) -> bool {
        self.room() < READ_BYTES_MIN / 4 || self.builder.is_full()
    }
}

/// What a read came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Lines were read or passed over, and there is probably more.
    More,
    /// Everything that is there was read, but perhaps an unfinished line.
    End,
    /// There was nothing to read.
    Nothing,
    /// The next line needs a block of its own.
    Full,
    /// What was read before is no longer there.
    Changed,
}

/// A line longer than `max_line` whose end is being looked for.
struct LongScan {
    start: u64,
    scanned: u64,
}

/// Options of reading.
#[derive(Clone, Copy)]
pub struct Limits {
    /// Longest line in bytes.
    pub line_max: usize,
    /// What becomes of a longer one.
    pub long: LongLine,
}

/// A file that is read.
pub struct Tail {
    pub origin: Arc<Origin>,
    /// Its content; `None` while it is closed for want of room.
    pub content: Option<Content>,
    pub inode: Inode,
    pub descriptor: Descriptor,
    pub cursors: Cursors,
    /// Where it is found now, for the watch.
    pub path: PathBuf,
    /// When to look at it next, in engine time.
    pub next: Duration,
    /// Whether it is in the queue of files to be read.
    pub queued: bool,
    /// When it last had something new.
    pub grown: Duration,
    /// From when on it is quiet, if nothing new comes.
    pub quiet_at: Duration,
    /// Whether the next write is noticed by the watch.
    pub watched: bool,
    /// Since when no path leads to it.
    pub gone_since: Option<Duration>,
    /// Where the last look found nothing more.
    pub end: Option<u64>,
    /// The file of which this is a copy, as far as it was read.
    pub copy_of: Option<u64>,
    /// Whether nothing is appended to it any more: what others have of it may be longer.
    pub frozen: bool,
    /// Whether it is to be looked at if it is still what it was, before it is read on.
    pub unchecked: bool,
    marks: Marks,
    /// Long lines whose ends are being looked for, one per cursor at most.
    long: Vec<LongScan>,
    read_bytes: usize,
    block_bytes: usize,
}

impl Tail {
    /// A file to be read from `cursors` on.
    pub fn new(
        origin: Arc<Origin>,
        content: Content,
        descriptor: Descriptor,
        cursors: Cursors,
        path: PathBuf,
    ) -> Tail {
        let inode = Inode { device: descriptor.device, number: descriptor.inode };
        Tail {
            origin,
            content: Some(content),
            inode,
            marks: Marks::new(descriptor.mark),
            descriptor,
            cursors,
            path,
            next: Duration::ZERO,
            queued: false,
            grown: Duration::ZERO,
            quiet_at: Duration::ZERO,
            watched: false,
            gone_since: None,
            end: None,
            copy_of: None,
            frozen: false,
            unchecked: true,
            long: Vec::new(),
            read_bytes: usize::MAX,
            block_bytes: BLOCK_BYTES,
        }
    }

    /// Size of the block the next line needs.
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Its content, which must not be closed.
    pub fn content(&mut self) -> io::Result<&mut Content> {
        self.content.as_mut().ok_or_else(|| io::Error::other("closed for want of room"))
    }

    /// Notes that it was moved.
    pub fn is_at(&mut self, path: &Path) {
        self.path = path.to_path_buf();
        self.origin.state.set_path(path.to_string_lossy());
        self.origin.state.rotations.fetch_add(1, Relaxed);
    }

    /// Notes whether more can come.
    pub fn note_standing(&self) {
        let deleted = || {
            let stat = self.content.as_ref().map(|content| fstat(content.file()));
            stat.is_some_and(|stat| stat.is_ok_and(|stat| stat.st_nlink == 0))
        };
        self.origin.state.set_standing(match self.gone_since {
            Some(_) if deleted() => Standing::Deleted,
            Some(_) => Standing::Gone,
            None if self.frozen || self.is_packed() && self.end.is_some() => Standing::Finished,
            None if self.content.is_none() => Standing::Waiting,
            None => Standing::Active,
        });
    }

    /// Whether it is compressed.
    pub fn is_packed(&self) -> bool {
        self.content.as_ref().is_some_and(Content::is_packed)
    }

    /// Reads lines at the chosen cursor into `fill`. With `finish`, an unfinished last line is one.
    pub fn read(
        &mut self,
        choice: Choice,
        fill: &mut Fill,
        cx: &SourceCx<'_>,
        limits: Limits,
        finish: bool,
    ) -> io::Result<Read> {
        if std::mem::take(&mut self.unchecked) && !self.is_same()? {
            return Ok(Read::Changed);
        }
        let position = choice.cursor.position;
        if self.long.iter().any(|long| long.start == position) {
            return self.scan_long(choice, fill, cx, limits, finish);
        }
        let left =
            choice.limit.map_or(usize::MAX, |limit| (limit - position).min(usize::MAX as u64) as usize);
        let wanted = fill.room().min(left).min(self.read_bytes);
        let (begin, end) = (fill.used, fill.used + wanted);
        let n = self.content()?.read_at(&mut fill.block.memory()[begin..end], position)?;
        let mut newlines = std::mem::take(&mut fill.newlines);
        newlines.clear();
        millstream_scan::newlines(&fill.block.filled(begin + n)[begin..], &mut newlines);
        let read = if newlines.is_empty() {
            self.unfinished(choice, fill, cx, limits, (n, wanted, left), finish)
        } else {
            self.lines(choice, fill, cx, limits, &mut newlines);
            // Only a read that gives nothing proves the end, and only who finishes needs the proof.
            Ok(if n < wanted && !finish { Read::End } else { Read::More })
        };
        fill.newlines = newlines;
        let text = &fill.block.filled(begin + n)[..];
        self.content()?.hand_back(&text[fill.used.clamp(begin, begin + n)..]);
        read
    }

    /// Adds whole lines that end at `newlines`, which count from the end of what is filled.
    fn lines(
        &mut self,
        choice: Choice,
        fill: &mut Fill,
        cx: &SourceCx<'_>,
        limits: Limits,
        newlines: &mut Vec<u32>,
    ) {
        newlines.truncate(BATCH_ROWS_MAX - fill.builder.rows());
        if is_suspect(choice) {
            let first = u64::from(newlines[0]) + 1;
            if choice.cursor.until == Some(choice.cursor.position + first) {
                return self.reject(choice, first, cx);
            }
            newlines.truncate((newlines.len() / 2).max(1));
        }
        let Some(&last) = newlines.last() else { return };
        let (begin, bytes) = (fill.used, last as usize + 1);
        if begin > 0 {
            newlines.iter_mut().for_each(|newline| *newline += begin as u32);
        }
        let rows_before = fill.builder.rows();
        let block = fill.block.filled(begin + bytes);
        let long = fill.builder.lines(block, begin, newlines, limits.line_max, limits.long);
        limits.long.count(cx.counters, long);
        let rows = fill.builder.rows() - rows_before;
        self.mark(&fill.block.filled(begin + bytes)[begin..], choice.cursor.position + bytes as u64);
        self.segment(choice, fill, cx, bytes as u64, bytes);
        self.block_bytes = BLOCK_BYTES;
        self.read_bytes = (bytes / rows.max(1) * BATCH_ROWS_MAX).max(READ_BYTES_MIN);
    }

    /// Notes what was read last: `text`, which ends at `end`.
    fn mark(&mut self, text: &[u8], end: u64) {
        if end > self.marks.last().end {
            let content = self.content.as_mut().filter(|content| !content.is_packed());
            let read = || content.and_then(|content| Mark::read(content, end).ok());
            Mark::behind(text, end).or_else(read).into_iter().for_each(|mark| self.marks.add(mark));
        }
    }

    /// Closes a segment over `source_bytes` of the file, which took `block_bytes` of the block.
    fn segment(
        &mut self,
        choice: Choice,
        fill: &mut Fill,
        cx: &SourceCx<'_>,
        source_bytes: u64,
        block_bytes: usize,
    ) {
        let (cursor, begin) = (choice.cursor, choice.cursor.position);
        let end = begin + source_bytes;
        let ack =
            cx.ledger.issue(self.origin.id, (begin, end), cursor.sinks, cursor.attempt, cx.now.since_start);
        fill.builder.segment(self.origin.clone(), begin.wrapping_sub(fill.used as u64), ack);
        fill.used += block_bytes;
        self.cursors.advance(choice.index, end);
        self.origin.state.read(source_bytes, end);
        cx.counters.received(0, source_bytes);
    }

    /// No line end in the `n` bytes read of `wanted`; `left` are left up to the cursor's limit.
    fn unfinished(
        &mut self,
        choice: Choice,
        fill: &mut Fill,
        cx: &SourceCx<'_>,
        limits: Limits,
        (n, wanted, left): (usize, usize, usize),
        finish: bool,
    ) -> io::Result<Read> {
        let position = choice.cursor.position;
        if n > limits.line_max + 1 {
            return Ok(self.begin_long(choice, fill, cx, limits, n));
        }
        if n == 0 {
            return Ok(Read::Nothing);
        }
        if n == left || finish && self.is_end(position + n as u64)? {
            self.last_line(choice, fill, cx, limits, n);
            return Ok(Read::More);
        }
        if n < wanted {
            return Ok(if finish { Read::More } else { Read::End });
        }
        if fill.used > 0 {
            return Ok(Read::Full);
        }
        if wanted < fill.room() {
            self.read_bytes = usize::MAX;
            return Ok(Read::More);
        }
        self.block_bytes = limits.line_max + READ_BYTES_MIN;
        Ok(Read::Full)
    }

    fn is_end(&mut self, offset: u64) -> io::Result<bool> {
        self.content()?.is_end(offset)
    }

    /// Delivers the `n` bytes of a last line that has no end.
    fn last_line(&mut self, choice: Choice, fill: &mut Fill, cx: &SourceCx<'_>, limits: Limits, n: usize) {
        if is_suspect(choice) {
            return self.reject(choice, n as u64, cx);
        }
        let (begin, line) = (fill.used, fill.used + n);
        let text = &fill.block.filled(line)[begin..];
        if text.len() <= limits.line_max {
            fill.builder.row(text, begin);
        } else {
            let cuts = fill.builder.long_row(text, begin, limits.line_max, limits.long);
            limits.long.count(cx.counters, cuts);
        }
        self.mark(&fill.block.filled(line)[begin..], choice.cursor.position + n as u64);
        self.segment(choice, fill, cx, n as u64, n);
    }

    /// A range that panics wherever it goes, down to one line: given up, and counted.
    fn reject(&mut self, choice: Choice, bytes: u64, cx: &SourceCx<'_>) {
        let (cursor, begin) = (choice.cursor, choice.cursor.position);
        let range = (begin, begin + bytes);
        let ack = cx.ledger.issue(self.origin.id, range, cursor.sinks, cursor.attempt, cx.now.since_start);
        cursor.sinks.iter().filter_map(|sink| ack.hold(sink)).for_each(|hold| hold.settle(Outcome::Rejected));
        ack.finish();
        cx.counters.dropped("panic", 1);
        log::error!("{}: line at offset {begin} rejected: a sink panics on it", self.origin.name);
        self.cursors.advance(choice.index, range.1);
    }

    fn begin_long(
        &mut self,
        choice: Choice,
        fill: &mut Fill,
        cx: &SourceCx<'_>,
        limits: Limits,
        n: usize,
    ) -> Read {
        let start = choice.cursor.position;
        if limits.long == LongLine::Split {
            let begin = fill.used;
            let cut = char_boundary(&fill.block.filled(begin + n)[begin..], limits.line_max);
            fill.builder.row(&fill.block.filled(begin + cut)[begin..], begin);
            limits.long.count(cx.counters, 1);
            self.mark(&fill.block.filled(begin + cut)[begin..], start + cut as u64);
            self.segment(choice, fill, cx, cut as u64, cut);
        } else {
            self.long.push(LongScan { start, scanned: start + n as u64 });
        }
        Read::More
    }

    /// Looks for the end of a long line; then cuts its beginning out, or drops it.
    fn scan_long(
        &mut self,
        choice: Choice,
        fill: &mut Fill,
        cx: &SourceCx<'_>,
        limits: Limits,
        finish: bool,
    ) -> io::Result<Read> {
        let at = |long: &LongScan| long.start == choice.cursor.position;
        let Some(index) = self.long.iter().position(at) else { return Ok(Read::More) };
        let (begin, long_start, scanned) = (fill.used, self.long[index].start, self.long[index].scanned);
        if fill.room() < limits.line_max + 4 {
            if begin == 0 {
                self.block_bytes = limits.line_max + READ_BYTES_MIN;
            }
            return Ok(Read::Full);
        }
        let n = self.content()?.read_at(&mut fill.block.memory()[begin..], scanned)?;
        let newline = memchr::memchr(b'\n', &fill.block.filled(begin + n)[begin..]);
        let (start, end) = match newline {
            Some(at) => (long_start, scanned + at as u64 + 1),
            None if n == 0 && finish => (long_start, scanned),
            None => {
                self.long[index].scanned += n as u64;
                return Ok(if n == 0 { Read::Nothing } else { Read::More });
            }
        };
        self.long.swap_remove(index);
        self.block_bytes = BLOCK_BYTES;
        self.end_long(choice, fill, cx, limits, (start, end))?;
        Ok(Read::More)
    }

    fn end_long(
        &mut self,
        choice: Choice,
        fill: &mut Fill,
        cx: &SourceCx<'_>,
        limits: Limits,
        (start, end): (u64, u64),
    ) -> io::Result<()> {
        if is_suspect(choice) && choice.cursor.until == Some(end) {
            self.reject(choice, end - start, cx);
            return Ok(());
        }
        limits.long.count(cx.counters, 1);
        let begin = fill.used;
        let mut kept = 0;
        if limits.long == LongLine::Truncate {
            let room = &mut fill.block.memory()[begin..begin + limits.line_max + 4];
            kept = self.content()?.read_all_at(room, start)?;
            let text = &fill.block.filled(begin + kept)[begin..];
            fill.builder.long_row(text, begin, limits.line_max, limits.long);
        }
        self.mark(&[], end);
        self.segment(choice, fill, cx, end - start, kept);
        Ok(())
    }

    /// Whether the file has become shorter than what was read of it: the byte before the furthest
    /// position is gone. Sizes are not asked: on network file systems they lag.
    pub fn is_truncated(&mut self) -> bool {
        let scanned = self.long.iter().map(|long| long.scanned).max().unwrap_or(0);
        let furthest = self.cursors.head().max(scanned);
        furthest > 0 && !self.frozen && !self.is_packed() && self.is_end(furthest - 1).unwrap_or(false)
    }

    /// Whether what was read of it is still there: it may have been cut, and written again to any
    /// length. What is compressed cannot be cut like this.
    pub fn is_same(&mut self) -> io::Result<bool> {
        let (head, mark, frozen) = (self.descriptor.head, self.marks.last(), self.frozen);
        let content = self.content()?;
        Ok(frozen || content.is_packed() || mark.agrees(content)? && head.agrees(content)?)
    }

    /// The newest mark at or before `end`.
    pub fn mark_before(&self, end: u64) -> Option<Mark> {
        self.marks.before(end)
    }

    /// Brings the descriptor up to what was read; whether that changed it.
    pub fn update(&mut self) -> bool {
        let before = self.descriptor.clone();
        self.descriptor.mark = self.marks.last();
        if !self.descriptor.head.is_whole()
            && let Some(content) = &mut self.content
            && let Ok(head) = Head::read(content, HEAD_BYTES_MAX)
            && head.bytes > self.descriptor.head.bytes
        {
            self.descriptor.head = head;
        }
        before != self.descriptor
    }

    /// Notes that a compressed file was unpacked to its end.
    pub fn note_packed(&mut self) {
        if let Some(content) = self.content.as_mut().filter(|content| content.is_packed()) {
            self.descriptor.packed = content.stamp();
            content.rest();
        }
    }

    /// Goes on in another file, which holds what was read of this one, and perhaps more.
    pub fn go_on_in(&mut self, content: Content, inode: Inode, path: PathBuf) -> Option<Content> {
        (self.descriptor.device, self.descriptor.inode) = (inode.device, inode.number);
        (self.inode, self.path, self.frozen) = (inode, path, true);
        (self.end, self.watched, self.copy_of) = (None, false, None);
        self.content.replace(content)
    }
}

/// Whether what begins here was abandoned although it travelled alone: one line is the culprit, of
/// several the first half is tried alone, then (further on in the same range) the second.
fn is_suspect(choice: Choice) -> bool {
    choice.cursor.attempt >= HALVED_FROM && choice.cursor.position == choice.cursor.begin
}

#[cfg(test)]
mod tests;
