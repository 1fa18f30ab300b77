//! One file being read: its cursors, its identity, and reading its events into a block.

mod framed;
mod headers;
mod line_ends;
mod lines;
mod long;
mod nuls;
mod state;

use long::LongScan;
use nuls::NulRun;

use crate::container_metadata::ContainerMetadata;
use crate::content::{Content, modified_ns};
use crate::copy_detection::{Candidate, Original, Originals, read_part_in};
use crate::file_framer::{FileFramer, Framing, LineLimits};
use crate::header::HeaderLines;
use crate::held::HeldFile;
use crate::identity::{Descriptor, Fingerprint, Fingerprints, HEAD_BYTES_MAX, Head, Inode};
use crate::rotation_names::is_numbered;
use millstream_framing::{EventBuffer, bom_len};
use millstream_model::limits::BLOCK_BYTES;
use millstream_model::{
    BatchBuilder, Block, Choice, Cursor, Cursors, EngineTime, HeldBy, Origin, OriginStatus,
    OriginStore, Permit, SinkSet, SourceCx,
};
use rustix::fs::fstat;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Minimum read size in bytes, for files with short lines.
const READ_BYTES_MIN: usize = 64 * 1024;

/// Starting with this attempt, an abandoned range is sent in a batch without other data, so that a
/// sink that panics on the range does not abandon other data.
pub const ALONE_FROM: u8 = 2;

/// A block being filled with lines from one or more files.
pub struct Fill {
    pub block: Block,
    pub permit: Permit,
    pub builder: BatchBuilder,
    /// The sinks for every line in the block.
    pub sinks: SinkSet,
    /// Metadata of the lines.
    pub metadata: ContainerMetadata,
    /// The header that names the columns of every line in the block.
    pub header: Option<Arc<str>>,
    /// Rows that are header lines, ascending.
    pub header_rows: Vec<u32>,
    used: usize,
    buffers: Buffers,
}

/// Buffers for reading, kept between blocks.
#[derive(Default)]
pub struct Buffers {
    /// Positions of newlines in the last read.
    newlines: Vec<u32>,
    /// Raw bytes of files in an encoding that is decoded.
    raw: Vec<u8>,
    found: EventBuffer,
    times: Vec<i64>,
}

impl Fill {
    /// Creates an empty fill for lines to `sinks`.
    pub fn new(block: Block, permit: Permit, sinks: SinkSet, buffers: Buffers) -> Fill {
        let builder = BatchBuilder::with_capacity(BLOCK_BYTES / 128);
        let metadata = ContainerMetadata::default();
        let (header, header_rows) = Default::default();
        Fill { block, permit, builder, sinks, metadata, header, header_rows, used: 0, buffers }
    }

    /// Takes the buffers, for reuse.
    pub fn take_buffers(&mut self) -> Buffers {
        std::mem::take(&mut self.buffers)
    }

    /// Returns whether data that is read at `cursor` may join this batch. If `alone`, the data
    /// needs a batch without other data.
    pub fn accepts(&self, cursor: &Cursor, alone: bool) -> bool {
        self.sinks == cursor.sinks && !(alone && self.builder.has_segments())
    }

    /// Returns the number of bytes filled.
    pub fn used(&self) -> usize {
        self.used
    }

    pub(super) fn space_left(&self) -> usize {
        self.block.capacity() - self.used
    }

    /// Returns whether the remaining space is too small for another read.
    pub fn is_full(&self) -> bool {
        self.space_left() < READ_BYTES_MIN / 4 || self.builder.is_full()
    }
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Lines were read or skipped, and more data is likely.
    More,
    /// Everything was read, except possibly an incomplete line.
    End,
    /// There was nothing to read.
    Nothing,
    /// The next line does not fit into this block.
    Full,
    /// The file no longer contains what was read from it.
    Changed,
}

/// A request to read.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The cursor to read at.
    pub choice: Choice,
    pub cx: &'a SourceCx<'a>,
    pub limits: LineLimits,
    /// No more data is expected, so an incomplete last line is treated as complete.
    pub finish: bool,
    /// An incomplete last line that has not grown for this long is treated as complete.
    pub read_timeout: Option<Duration>,
}

impl Request<'_> {
    fn position(&self) -> u64 {
        self.choice.cursor.position
    }

    /// Returns the number of bytes up to the cursor's limit.
    fn left(&self) -> usize {
        let left = |limit: u64| (limit - self.position()).min(usize::MAX as u64) as usize;
        self.choice.limit.map_or(usize::MAX, left)
    }

    /// Returns the length of the UTF-8 byte order mark in the text at the cursor. The mark is text
    /// except at the beginning of a file.
    fn mark_len(&self, text: &[u8]) -> usize {
        if self.position() == 0 { bom_len(text) } else { 0 }
    }
}

/// How long the result of an identity check is valid while a file is read. Without this limit, a
/// file that waits for memory could be rewritten, and could grow beyond the offset read so far.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Byte order marks.
const MARKS: [&[u8]; 3] = [b"\xEF\xBB\xBF", b"\xFF\xFE", b"\xFE\xFF"];

/// An incomplete last line.
#[derive(Clone, Copy)]
struct Unfinished {
    /// Range of the line in the file.
    begin: u64,
    end: u64,
    /// When the line last grew.
    since: EngineTime,
}

/// A file being read.
pub struct Tail {
    origin: Arc<Origin>,
    /// The content; `None` while the file is closed because of the limit on open files.
    content: Option<Content>,
    inode: Inode,
    descriptor: Descriptor,
    cursors: Cursors,
    /// The current path, if it is not the first one.
    path: Option<Box<Path>>,
    /// Time of the file's next poll.
    next: EngineTime,
    /// Whether the file is in the read queue.
    queued: bool,
    /// Time at which the file last had new data.
    grown: EngineTime,
    /// Time at which the file becomes quiet if no new data arrives.
    quiet_at: EngineTime,
    /// Whether inotify reports the next write.
    watched: bool,
    /// Time since which the file has no matching path.
    gone_since: Option<EngineTime>,
    /// Whether the file was renamed since the last check for linking.
    renamed: bool,
    /// The link or copy that holds the file, if any.
    held: Option<Box<HeldFile>>,
    /// The offset at which reads ended, if the end was reached since the last poll.
    end: Option<u64>,
    /// The fingerprint at the end of the bytes that the file shares with a copy, if there is one.
    copied: Option<Box<Fingerprint>>,
    /// Whether an error in compressed data was logged.
    error_logged: bool,
    /// Whether the file is a copy in which reading continues. No writer appends to a copy, and a
    /// copy may be shorter than what was read of its original.
    frozen: bool,
    /// Time of the last identity check; `None` if the identity must be checked before the next
    /// read.
    checked: Option<EngineTime>,
    fingerprints: Fingerprints,
    /// How bytes become events; `None` if each line is an event.
    framer: Option<Box<FileFramer>>,
    /// Which lines are headers that name columns.
    header: Option<Arc<HeaderLines>>,
    /// Overlong lines whose end has not been found yet; at most one for each cursor.
    long: Vec<LongScan>,
    /// The last line, if it is incomplete.
    unfinished: Option<Box<Unfinished>>,
    /// Offset at which the last piece of a split line ends, if more of the line follows.
    piece_end: Option<u64>,
    /// A run of NUL bytes at a cursor, whose end has not been found yet.
    nuls: Option<Box<NulRun>>,
    /// Whether skipped NUL bytes were logged.
    nuls_logged: bool,
    read_bytes: usize,
    block_bytes: usize,
}

impl Tail {
    /// Creates a tail that reads at `cursors`.
    pub fn new(
        origin: Arc<Origin>,
        content: Content,
        descriptor: Descriptor,
        cursors: Cursors,
        path: PathBuf,
    ) -> Tail {
        let inode = Inode { device: descriptor.device, number: descriptor.inode };
        let path = other_path(path, &descriptor);
        Tail {
            origin,
            content: Some(content),
            inode,
            fingerprints: Fingerprints::new(descriptor.fingerprint),
            frozen: descriptor.in_copy,
            descriptor,
            cursors,
            path,
            next: EngineTime::ZERO,
            queued: false,
            grown: EngineTime::ZERO,
            quiet_at: EngineTime::ZERO,
            watched: false,
            gone_since: None,
            renamed: false,
            held: None,
            end: None,
            copied: None,
            error_logged: false,
            checked: None,
            framer: None,
            header: None,
            long: Vec::new(),
            unfinished: None,
            piece_end: None,
            nuls: None,
            nuls_logged: false,
            read_bytes: usize::MAX,
            block_bytes: BLOCK_BYTES,
        }
    }

    /// Sets how bytes become events.
    pub fn with_framing(mut self, framing: Option<&Framing>) -> Tail {
        self.framer = framing.map(FileFramer::new).map(Box::new);
        self
    }

    /// Sets which lines are headers that name columns.
    pub fn with_header(mut self, header: Option<&Arc<HeaderLines>>) -> Tail {
        self.header = header.cloned();
        self
    }

    /// Returns whether an incomplete event is waiting for its timeout.
    pub fn is_open(&self) -> bool {
        self.framer.as_ref().is_some_and(|framer| framer.is_open())
    }

    /// Returns the size of the block that the next line needs.
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Returns the content.
    ///
    /// # Errors
    /// Returns an error if the file is closed because of the limit on open files.
    pub fn content(&mut self) -> io::Result<&mut Content> {
        self.content
            .as_mut()
            .ok_or_else(|| io::Error::other("closed because of the open-file limit"))
    }

    /// Closes the file because of the limit on open files. The file is reopened for the next read.
    pub fn park(&mut self) {
        self.content = None;
    }

    /// Adds the file to the possible originals of copies.
    pub fn add_to(&self, originals: &mut Originals) {
        originals.add(&Original {
            id: self.origin.id,
            name: &self.origin.name,
            path: self.path(),
            head: self.descriptor.head,
        });
    }

    /// Sets the path after a rename, and counts a rotation.
    pub fn set_path(&mut self, path: &Path) {
        self.path = other_path(path.to_path_buf(), &self.descriptor);
        self.renamed = true;
        self.origin.state.set_path(path.to_string_lossy());
        self.origin.state.rotations.fetch_add(1, Relaxed);
    }

    /// Returns whether the file has no name except its held link.
    pub fn is_deleted(&self) -> bool {
        let stat = self.content.as_ref().map(|content| fstat(content.file()));
        stat.is_some_and(|stat| {
            stat.is_ok_and(|stat| stat.st_nlink <= u64::from(self.held.is_some()))
        })
    }

    /// Returns whether the file was renamed or has the name of a rotated file, so that it is likely
    /// to be deleted.
    pub fn is_rotated(&self) -> bool {
        self.gone_since.is_some()
            || self.path() != Path::new(self.descriptor.name())
            || is_numbered(self.path())
    }

    /// Returns whether any cursor is before the end of the file.
    pub fn has_unread(&self) -> bool {
        let Some(content) = &self.content else { return true };
        if content.is_compressed() {
            return self.end.is_none_or(|end| self.cursors.is_behind(end));
        }
        let size = fstat(content.file()).map_or(u64::MAX, |stat| stat.st_size as u64);
        self.cursors.list().iter().any(|cursor| cursor.position < size)
    }

    /// Updates the origin's status, and how the file is held.
    pub fn update_status(&self) {
        let is_deleted = self.is_rotated() && self.is_deleted();
        self.origin.state.set_held_by(match &self.held {
            Some(_) => HeldBy::Disk,
            None if is_deleted => HeldBy::Descriptor,
            None => HeldBy::Nothing,
        });
        self.origin.state.set_status(match self.gone_since {
            _ if is_deleted => OriginStatus::Deleted,
            Some(_) => OriginStatus::Gone,
            None if self.frozen || self.is_compressed() && self.end.is_some() => {
                OriginStatus::Finished
            }
            None if self.content.is_none() => OriginStatus::Waiting,
            None => OriginStatus::Active,
        });
    }

    /// Returns whether the file is compressed.
    pub fn is_compressed(&self) -> bool {
        self.content.as_ref().is_some_and(Content::is_compressed)
    }

    /// Reads events at the chosen cursor into `fill`.
    pub fn read(&mut self, request: Request<'_>, fill: &mut Fill) -> io::Result<Read> {
        if !self.check_identity(request.cx.now.since_start)? {
            return Ok(Read::Changed);
        }
        if self.header.is_some() && !self.find_header(request.position())? {
            return Ok(Read::More);
        }
        if self.long.iter().any(|long| long.start == request.position()) {
            if !self.admit(request, fill) {
                return Ok(Read::Full);
            }
            return self.scan_long(request, fill);
        }
        let mut buffers = std::mem::take(&mut fill.buffers);
        let read = match self.framer.take() {
            None => self.read_lines(request, fill, &mut buffers.newlines),
            Some(mut framer) => {
                let read = self.read_framed(&mut framer, request, fill, &mut buffers);
                self.framer = Some(framer);
                match read {
                    Ok(None) => self.start_long(request, fill, request.limits.line_max),
                    Ok(Some(read)) => Ok(read),
                    Err(error) => Err(error),
                }
            }
        };
        fill.buffers = buffers;
        read
    }

    fn at_end(&mut self, offset: u64) -> io::Result<bool> {
        self.content()?.at_end(offset)
    }

    /// Returns whether the data up to `offset` is complete: no more data is expected, and the
    /// compressed data, if any, is not truncated or corrupt. The latter can be detected only at the
    /// end of the content.
    fn ends_at(&mut self, offset: u64, request: Request<'_>) -> io::Result<bool> {
        let finish = request.finish || self.is_overdue(offset, request);
        Ok(finish && self.at_end(offset)? && !self.is_incomplete())
    }

    /// Returns whether the line at the cursor, which ends at `offset`, has timed out.
    fn is_overdue(&self, offset: u64, request: Request<'_>) -> bool {
        let Some(timeout) = request.read_timeout else { return false };
        self.unfinished.as_deref().is_some_and(|line| {
            (line.begin, line.end) == (request.position(), offset)
                && request.cx.now.since_start - line.since >= timeout
        })
    }

    /// Records that the last line, which begins at the cursor, is still unfinished at `end`. `text`
    /// is the line's beginning or its end.
    fn note_unfinished(&mut self, request: Request<'_>, text: &[u8], end: u64) {
        let begin = request.position();
        let now = request.cx.now.since_start;
        let is_same = |line: &Unfinished| (line.begin, line.end) == (begin, end);
        if request.read_timeout.is_none() || self.unfinished.as_deref().is_some_and(is_same) {
            return;
        }
        let line = Unfinished { begin, end, since: now };
        self.unfinished = self.may_time_out(begin, text).then(|| Box::new(line));
    }

    /// Returns whether an unfinished line may be delivered. A header, an encoding's byte order mark
    /// and a line ending must be complete.
    fn may_time_out(&self, begin: u64, text: &[u8]) -> bool {
        let may_become_header = self.header.as_ref().is_some_and(|lines| {
            lines.may_become_header(text, begin, self.header_at(begin).as_deref())
        });
        let is_mark = begin == 0 && MARKS.iter().any(|mark| mark.starts_with(text));
        !may_become_header && !is_mark && !text.ends_with(b"\r")
    }

    /// Returns the time at which an incomplete last line is treated as complete, `timeout` after
    /// its last byte.
    pub fn overdue_at(&self, timeout: Duration) -> Option<EngineTime> {
        let is_last = |line: &Unfinished| {
            self.cursors.list().iter().any(|cursor| cursor.position == line.begin)
        };
        self.unfinished.as_deref().filter(|line| is_last(line)).map(|line| line.since + timeout)
    }

    /// Returns whether the file is shorter than what was read. Reads the last known byte instead of
    /// using the file size, which can be stale on network file systems.
    pub fn check_truncated(&mut self) -> bool {
        let scanned = self.long.iter().map(|long| long.scanned).max().unwrap_or(0);
        let copied = self.copied.as_ref().map_or(0, |copied| copied.end);
        let furthest = self.cursors.head().max(scanned).max(copied);
        furthest > 0
            && !self.frozen
            && !self.is_compressed()
            && self.at_end(furthest - 1).unwrap_or(false)
    }

    /// Runs [`Tail::check_same`], unless its last result is still valid.
    fn check_identity(&mut self, now: EngineTime) -> io::Result<bool> {
        if self.checked.is_some_and(|checked| now - checked < CHECK_INTERVAL) {
            return Ok(true);
        }
        let is_same = self.check_same()?;
        self.checked = is_same.then_some(now);
        Ok(is_same)
    }

    /// Returns whether the file still contains what was read from it and copied from it. The file
    /// may have been truncated and rewritten to any length. Compressed files are not checked,
    /// because no program rewrites them in place.
    pub fn check_same(&mut self) -> io::Result<bool> {
        let head = self.descriptor.head;
        let fingerprint = self.fingerprints.last();
        let copied = self.copied.as_deref().copied().unwrap_or_default();
        let content = self.content()?;
        Ok(content.is_compressed()
            || fingerprint.matches(content)?
                && head.matches(content)?
                && copied.matches(content)?)
    }

    /// Returns the largest known size of the file: the furthest offset that was read or reported.
    pub fn known_size(&self) -> u64 {
        self.cursors.head().max(self.origin.state.size.load(Relaxed))
    }

    /// Returns whether nothing was read from the file.
    pub fn is_unread(&self) -> bool {
        self.cursors.head() == 0 && self.fingerprints.last().end == 0
    }

    /// Returns the offset up to which `copy` contains what was read from the file: all of it, or
    /// all except the bytes read just before the truncation. `None` if `copy` is not a copy.
    pub fn read_part_in(&self, copy: &mut Candidate) -> Option<u64> {
        read_part_in(copy, self.descriptor.head, &self.fingerprints)
    }

    /// Returns the end offset of the newest fingerprint.
    pub fn fingerprinted(&self) -> u64 {
        self.fingerprints.last().end
    }

    /// Adds the fingerprint that ends at the end of a compressed file, if the last read was too
    /// short for one. This decompresses the file again.
    pub fn fingerprint_end(&mut self, end: u64) {
        let content = self
            .content
            .as_mut()
            .filter(|content| content.is_compressed() && end > self.fingerprints.last().end);
        if let Some(Ok(fingerprint)) = content.map(|content| Fingerprint::read(content, end)) {
            self.fingerprints.add(fingerprint);
        }
    }

    /// Frees the memory of the most recently read bytes. Called once a copy in progress can no
    /// longer lack them.
    pub fn forget_recent(&mut self) {
        self.fingerprints.forget_recent();
    }

    /// Takes the fingerprints, to recognize a copy.
    pub fn take_fingerprints(&mut self) -> Fingerprints {
        std::mem::take(&mut self.fingerprints)
    }

    /// Updates the descriptor's fingerprint to the last bytes read; returns whether it changed.
    pub fn update_fingerprint(&mut self) -> bool {
        let fingerprint = self.fingerprints.last();
        let changed =
            std::mem::replace(&mut self.descriptor.fingerprint, fingerprint) != fingerprint;
        if changed {
            self.note_modified();
        }
        changed
    }

    /// Updates the descriptor's modification time.
    pub fn note_modified(&mut self) {
        self.descriptor.modified_ns = self.modified_ns();
    }

    /// Returns the modification time in nanoseconds since 1970; the last known one if the file is
    /// closed.
    pub fn modified_ns(&self) -> i64 {
        let stat = self.content.as_ref().and_then(|content| fstat(content.file()).ok());
        stat.map_or(self.descriptor.modified_ns, |stat| modified_ns(&stat))
    }

    /// Extends a short head; returns whether the head changed. A changed head must be saved before
    /// the file's data is sent.
    pub fn update_head(&mut self) -> bool {
        let before = self.descriptor.head;
        // After a truncation, the head of the new content must not be recorded.
        if !self.descriptor.head.is_full()
            && self.check_same().unwrap_or(false)
            && let Some(content) = &mut self.content
            && let Ok(head) = Head::read(content, HEAD_BYTES_MAX)
            && head.bytes > self.descriptor.head.bytes
        {
            self.descriptor.head = head;
        }
        before != self.descriptor.head
    }

    /// Returns whether compressed data is truncated or corrupt, so that the last line may be
    /// incomplete.
    pub fn is_incomplete(&self) -> bool {
        self.content.as_ref().is_some_and(|content| content.error().is_some())
    }

    /// Logs and counts an error of compressed data once.
    pub fn log_error(&mut self, cx: &SourceCx<'_>) {
        let error = self.content.as_ref().and_then(Content::error).filter(|_| !self.error_logged);
        if let Some(error) = error {
            cx.counters.error("damaged");
            log::warn!(
                "source {}: {}: {error}; skipping the rest of the file",
                cx.info.id,
                self.path().display()
            );
            self.error_logged = true;
        }
    }

    /// Records that the file extends to `end`, whether read or not.
    pub fn note_end(&self, end: u64, cx: &SourceCx<'_>) {
        self.origin.state.size.fetch_max(end, Relaxed);
        cx.ledger.note_end(self.origin.id, end);
    }

    /// Removes the inode from the descriptor of a truncated file. The inode now has other content,
    /// so the descriptor must match only a copy.
    pub fn leave_inode(&mut self) {
        self.descriptor.inode = 0;
    }

    /// Resets the head, so that the next read hashes and saves it again.
    pub fn forget_head(&mut self) {
        self.descriptor.head = Head::default();
    }

    /// Saves the state of a compressed file that was read to its end, so that the agent does not
    /// decompress it again after a restart. Frees the decompressor.
    pub fn save_compressed_state(&mut self, store: &dyn OriginStore) {
        let Some(content) = self.content.as_mut().filter(|content| content.is_compressed()) else {
            return;
        };
        let state = content.compressed_state();
        content.release_decoder();
        if std::mem::replace(&mut self.descriptor.compressed, state) != state {
            store.note(self.origin.id, self.descriptor.to_bytes());
        }
    }

    /// Continues in a copy of the file. Returns the old content.
    pub fn continue_in(
        &mut self,
        mut content: Content,
        inode: Inode,
        path: PathBuf,
    ) -> Option<Content> {
        self.descriptor.device = inode.device;
        self.descriptor.inode = inode.number;
        self.path = other_path(path, &self.descriptor);
        self.inode = inode;
        self.frozen = true;
        // The copy may lack the last bytes read, so the identity is taken from the copy.
        if let Err(error) = self.descriptor.continue_in(&mut content, &self.fingerprints) {
            log::warn!("cannot read the copy {}: {error}", self.path().display());
        }
        self.fingerprints = Fingerprints::new(self.descriptor.fingerprint);
        self.end = None;
        self.watched = false;
        self.descriptor.copy_of = None;
        self.copied = None;
        self.content.replace(content)
    }
}

/// Returns `None` if a path is the file's first path, and otherwise the path.
fn other_path(path: PathBuf, descriptor: &Descriptor) -> Option<Box<Path>> {
    (path != Path::new(&*descriptor.path)).then(|| path.into_boxed_path())
}

#[cfg(test)]
mod tests;
