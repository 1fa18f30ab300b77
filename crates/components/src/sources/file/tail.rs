//! One file: its cursors, its identity, and reading its events into a block.

mod framed;
mod lines;
mod long;

use long::LongScan;

use crate::files::content::{Content, modified_ns};
use crate::files::copy_detection::{Candidate, Originals, holds_read_part};
use crate::files::held::HeldFile;
use crate::files::identity::{Descriptor, Fingerprint, Fingerprints, HEAD_BYTES_MAX, Head, Inode};
use crate::files::rotation_names::is_numbered;
use crate::framing::{FileFramer, Framing, LineLimits};
use millstream_framing::Found;
use millstream_model::limits::BLOCK_BYTES;
use millstream_model::{
    BatchBuilder, Block, Choice, Cursor, Cursors, HeldBy, Origin, OriginStatus, OriginStore,
    Permit, SinkSet, SourceCx,
};
use rustix::fs::fstat;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Smallest read, in bytes, however short the lines are.
const READ_BYTES_MIN: usize = 64 * 1024;

/// From this attempt on an abandoned range travels alone, so that no other range shares its fate.
pub const ALONE_FROM: u8 = 2;

/// A block being filled with lines of one or more files.
pub struct Fill {
    pub block: Block,
    pub permit: Permit,
    pub builder: BatchBuilder,
    /// The sinks of all lines in it.
    pub sinks: SinkSet,
    used: usize,
    buffers: Buffers,
}

/// Buffers for reading, kept between blocks.
#[derive(Default)]
pub struct Buffers {
    /// Positions of newlines in the last read.
    newlines: Vec<u32>,
    /// Raw bytes whose decoded text differs.
    raw: Vec<u8>,
    found: Found,
    times: Vec<i64>,
}

impl Fill {
    /// Creates an empty fill for lines to `sinks`.
    pub fn new(block: Block, permit: Permit, sinks: SinkSet, buffers: Buffers) -> Fill {
        let builder = BatchBuilder::with_capacity(BLOCK_BYTES / 128);
        Fill { block, permit, builder, sinks, used: 0, buffers }
    }

    /// Returns the buffers for reuse.
    pub fn take_buffers(&mut self) -> Buffers {
        std::mem::take(&mut self.buffers)
    }

    /// Whether what is read at `cursor` may join this batch.
    pub fn accepts(&self, cursor: &Cursor, alone: bool) -> bool {
        self.sinks == cursor.sinks && !(alone && self.builder.has_segments())
    }

    /// Returns the bytes filled.
    pub fn used(&self) -> usize {
        self.used
    }

    pub(super) fn space_left(&self) -> usize {
        self.block.capacity() - self.used
    }

    /// Whether another read pays off.
    pub fn is_full(&self) -> bool {
        self.space_left() < READ_BYTES_MIN / 4 || self.builder.is_full()
    }
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Lines were read or skipped, and there is probably more.
    More,
    /// Everything was read, except perhaps an incomplete line.
    End,
    /// There was nothing to read.
    Nothing,
    /// The next line needs its own block.
    Full,
    /// What was read before is gone.
    Changed,
}

/// What to read.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The cursor to read at.
    pub choice: Choice,
    pub cx: &'a SourceCx<'a>,
    pub limits: LineLimits,
    /// Nothing more will come: an incomplete last line is a line.
    pub finish: bool,
}

impl Request<'_> {
    fn position(&self) -> u64 {
        self.choice.cursor.position
    }

    /// Returns the bytes up to the cursor's limit.
    fn left(&self) -> usize {
        let left = |limit: u64| (limit - self.position()).min(usize::MAX as u64) as usize;
        self.choice.limit.map_or(usize::MAX, left)
    }
}

/// A file being read.
pub struct Tail {
    pub origin: Arc<Origin>,
    /// Its content; `None` while it is closed because of the limit.
    pub content: Option<Content>,
    pub inode: Inode,
    pub descriptor: Descriptor,
    pub cursors: Cursors,
    /// Its current path, for inotify.
    pub path: PathBuf,
    /// When to poll it next, in engine time.
    pub next: Duration,
    /// Whether it is in the read queue.
    pub queued: bool,
    /// When it last had new data.
    pub grown: Duration,
    /// When it becomes quiet if no new data arrives.
    pub quiet_at: Duration,
    /// Whether inotify reports its next write.
    pub watched: bool,
    /// Since when it has no path.
    pub gone_since: Option<Duration>,
    /// Whether it was renamed since the last check for holding.
    pub renamed: bool,
    /// Its path as a held file, if any: it survives the deletion of its other names.
    pub held: Option<HeldFile>,
    /// Its size at the last end.
    pub end: Option<u64>,
    /// Bytes that a copy of it was seen to share with it.
    pub copied: u64,
    /// Whether its error was logged.
    error_logged: bool,
    /// Whether nobody appends to it any more: what others have of it may be longer.
    pub frozen: bool,
    /// Whether its identity must be checked before the next read.
    pub unchecked: bool,
    fingerprints: Fingerprints,
    /// How its bytes become events; `None` if each line is one.
    framer: Option<FileFramer>,
    /// Long lines whose ends are being searched, at most one per cursor.
    long: Vec<LongScan>,
    read_bytes: usize,
    block_bytes: usize,
}

impl Tail {
    /// Creates a file to be read from `cursors`.
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
            fingerprints: Fingerprints::new(descriptor.fingerprint),
            frozen: descriptor.in_copy,
            descriptor,
            cursors,
            path,
            next: Duration::ZERO,
            queued: false,
            grown: Duration::ZERO,
            quiet_at: Duration::ZERO,
            watched: false,
            gone_since: None,
            renamed: false,
            held: None,
            end: None,
            copied: 0,
            error_logged: false,
            unchecked: true,
            framer: None,
            long: Vec::new(),
            read_bytes: usize::MAX,
            block_bytes: BLOCK_BYTES,
        }
    }

    /// Sets how its bytes become events.
    pub fn with_framing(mut self, framing: Option<&Framing>) -> Tail {
        self.framer = framing.map(FileFramer::new);
        self
    }

    /// Whether it has an incomplete event that ends after enough silence.
    pub fn is_open(&self) -> bool {
        self.framer.as_ref().is_some_and(FileFramer::is_open)
    }

    /// Returns the size of the block that the next line needs.
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Returns its content, which must be open.
    pub fn content(&mut self) -> io::Result<&mut Content> {
        self.content
            .as_mut()
            .ok_or_else(|| io::Error::other("closed because of the limit of open files"))
    }

    /// Closes it because of the limit; it is reopened to be read.
    pub fn park(&mut self) {
        self.content = None;
    }

    /// Adds it to the possible originals of copies.
    pub fn add_to(&self, originals: &mut Originals) {
        originals.add(self.origin.id, (&self.origin.name, &self.path), self.descriptor.head);
    }

    /// Sets its path after a rename.
    pub fn set_path(&mut self, path: &Path) {
        (self.path, self.renamed) = (path.to_path_buf(), true);
        self.origin.state.set_path(path.to_string_lossy());
        self.origin.state.rotations.fetch_add(1, Relaxed);
    }

    /// Whether its held link is its only name.
    pub fn is_deleted(&self) -> bool {
        let stat = self.content.as_ref().map(|content| fstat(content.file()));
        stat.is_some_and(|stat| {
            stat.is_ok_and(|stat| stat.st_nlink <= u64::from(self.held.is_some()))
        })
    }

    /// Whether it was renamed away, or has the name of a rotated file: it will likely be deleted.
    pub fn is_rotated(&self) -> bool {
        self.gone_since.is_some()
            || self.path != Path::new(&self.origin.name)
            || is_numbered(&self.path)
    }

    /// Whether some cursor is not at its end.
    pub fn has_unread(&self) -> bool {
        let Some(content) = &self.content else { return true };
        if content.is_compressed() {
            return self.end.is_none_or(|end| self.cursors.is_behind(end));
        }
        let size = fstat(content.file()).map_or(u64::MAX, |stat| stat.st_size as u64);
        self.cursors.list().iter().any(|cursor| cursor.position < size)
    }

    /// Sets whether more can come.
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

    /// Whether it is compressed.
    pub fn is_compressed(&self) -> bool {
        self.content.as_ref().is_some_and(Content::is_compressed)
    }

    /// Reads events at the chosen cursor into `fill`.
    pub fn read(&mut self, request: Request<'_>, fill: &mut Fill) -> io::Result<Read> {
        if std::mem::take(&mut self.unchecked) && !self.check_same()? {
            return Ok(Read::Changed);
        }
        if self.long.iter().any(|long| long.start == request.position()) {
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

    /// Checks whether the file is shorter than what was read of it: the byte before the furthest
    /// position is gone. File sizes are not used: network file systems report stale ones.
    pub fn check_truncated(&mut self) -> bool {
        let scanned = self.long.iter().map(|long| long.scanned).max().unwrap_or(0);
        let furthest = self.cursors.head().max(scanned).max(self.copied);
        furthest > 0
            && !self.frozen
            && !self.is_compressed()
            && self.at_end(furthest - 1).unwrap_or(false)
    }

    /// Checks that what was read of it is still there: it may have been truncated and rewritten to
    /// any length. Compressed files cannot be truncated like this.
    pub fn check_same(&mut self) -> io::Result<bool> {
        let (head, fingerprint) = (self.descriptor.head, self.fingerprints.last());
        let content = self.content()?;
        Ok(content.is_compressed() || fingerprint.matches(content)? && head.matches(content)?)
    }

    /// Returns the bytes up to which it was read, or seen to extend.
    pub fn known_size(&self) -> u64 {
        self.cursors.head().max(self.origin.state.size.load(Relaxed))
    }

    /// Whether nothing was read of it.
    pub fn is_unread(&self) -> bool {
        self.cursors.head() == 0 && self.fingerprints.last().end == 0
    }

    /// Whether `copy` holds what was read of it, or all but the bytes read just before the
    /// truncation.
    pub fn holds_read_part(&self, copy: &mut Candidate) -> bool {
        holds_read_part(copy, self.descriptor.head, &self.fingerprints)
    }

    /// Marks the end of a compressed file whose last read was too short to be distinctive;
    /// decompresses it again.
    pub fn fingerprint_end(&mut self, end: u64) {
        let content = self
            .content
            .as_mut()
            .filter(|content| content.is_compressed() && end > self.fingerprints.last().end);
        if let Some(Ok(fingerprint)) = content.map(|content| Fingerprint::read(content, end)) {
            self.fingerprints.add(fingerprint);
        }
    }

    /// Takes its marks, to recognize a copy.
    pub fn take_fingerprints(&mut self) -> Fingerprints {
        std::mem::take(&mut self.fingerprints)
    }

    /// Updates the descriptor's mark to what was read; returns whether it changed.
    pub fn update_fingerprint(&mut self) -> bool {
        let fingerprint = self.fingerprints.last();
        let changed =
            std::mem::replace(&mut self.descriptor.fingerprint, fingerprint) != fingerprint;
        if changed {
            self.note_modified();
        }
        changed
    }

    /// Updates the modification time.
    pub fn note_modified(&mut self) {
        let stat = self.content.as_ref().and_then(|content| fstat(content.file()).ok());
        self.descriptor.modified_ns =
            stat.map_or(self.descriptor.modified_ns, |stat| modified_ns(&stat));
    }

    /// Updates a head that is not full. Nothing may be sent before it is saved.
    pub fn update_head(&mut self) -> bool {
        let before = self.descriptor.head;
        // After a truncation the content tells nothing about what was read.
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

    /// Whether compressed data of it is missing: its last line may never be complete.
    pub fn is_incomplete(&self) -> bool {
        self.content.as_ref().is_some_and(|content| content.error().is_some())
    }

    /// Logs an error of compressed data once.
    pub fn log_error(&mut self, cx: &SourceCx<'_>) {
        let fault = self.content.as_ref().and_then(Content::error).filter(|_| !self.error_logged);
        if let Some(fault) = fault {
            cx.counters.error("damaged");
            log::warn!(
                "source {}: {}: {fault}; the rest is not read",
                cx.info.id,
                self.path.display()
            );
            self.error_logged = true;
        }
    }

    /// Notes that the file extends to `end`, read or not.
    pub fn note_end(&self, end: u64, cx: &SourceCx<'_>) {
        self.origin.state.size.fetch_max(end, Relaxed);
        cx.ledger.note_end(self.origin.id, end);
    }

    /// Makes the next read hash and save the head again.
    pub fn forget_head(&mut self) {
        self.descriptor.head = Head::default();
    }

    /// Saves that a compressed file was read to its end, so that the next start need not decompress
    /// it.
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

    /// Continues in another file, which holds what was read of this one, and perhaps more.
    pub fn continue_in(
        &mut self,
        mut content: Content,
        inode: Inode,
        path: PathBuf,
    ) -> Option<Content> {
        (self.descriptor.device, self.descriptor.inode) = (inode.device, inode.number);
        (self.inode, self.path, self.frozen) = (inode, path, true);
        // The copy may lack the last bytes read: its identity must be in it.
        if let Err(error) = self.descriptor.continue_in(&mut content, &self.fingerprints) {
            log::warn!("{}: {error}", self.path.display());
        }
        self.fingerprints = Fingerprints::new(self.descriptor.fingerprint);
        (self.end, self.watched, self.descriptor.copy_of, self.copied) = (None, false, None, 0);
        self.content.replace(content)
    }
}

#[cfg(test)]
mod tests;
