//! The state of a file: its identity, its cursors, and its place in the source's schedule.

use super::Tail;
use crate::content::Content;
use crate::held::HeldFile;
use crate::identity::{Descriptor, Fingerprint, Inode};
use crate::records::FileRecord;
use crate::watch::Watch;
use millstream_model::{
    Choice, Cursor, Cursors, EngineTime, Origin, OriginId, Reread, SinkIndex, SinkSet,
};
use rustix::fs::Stat;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

// Identity.
impl Tail {
    /// Returns the id of the file.
    pub fn id(&self) -> OriginId {
        self.origin.id
    }

    /// Returns the first path of the file.
    pub fn name(&self) -> &str {
        &self.origin.name
    }

    /// Returns the origin of the file's events.
    pub fn origin(&self) -> &Arc<Origin> {
        &self.origin
    }

    /// Returns the saved state.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Consumes the tail; returns its record, with the checkpoints of `sinks`.
    pub fn into_record(self, sinks: &[(SinkIndex, String)]) -> FileRecord {
        FileRecord {
            id: self.id(),
            checkpoints: self.checkpoints(sinks),
            descriptor: self.descriptor,
        }
    }

    /// Consumes the tail; returns its saved state.
    pub fn into_descriptor(self) -> Descriptor {
        self.descriptor
    }

    /// Returns the inode.
    pub fn inode(&self) -> Inode {
        self.inode
    }

    /// Returns the current path.
    pub fn path(&self) -> &Path {
        self.path.as_deref().unwrap_or(Path::new(&*self.descriptor.path))
    }

    /// Records which file this file is a copy of; `None` if the file is no longer treated as a
    /// copy.
    pub fn set_copy_of(&mut self, original: Option<OriginId>) {
        self.descriptor.copy_of = original;
    }

    /// Records that a copy contains this file up to the end of the fingerprinted bytes.
    pub fn note_copied(&mut self, last: Fingerprint) {
        if self.copied.as_ref().is_none_or(|copied| copied.end < last.end) {
            self.copied = Some(Box::new(last));
        }
    }

    /// Continues in a copy with this status.
    pub fn resume_in_copy(&mut self, stat: &Stat) {
        self.descriptor.inode = stat.st_ino;
        self.descriptor.compressed = None;
        self.inode = Inode::of(stat);
        self.frozen = true;
    }
}

// The open file, and its paths.
impl Tail {
    /// Returns the content; `None` while the file is closed because of the limit on open files.
    pub fn open_content(&self) -> Option<&Content> {
        self.content.as_ref()
    }

    /// Reopens a file that was closed because of the limit on open files. The identity is checked
    /// before the next read.
    pub fn reopen(&mut self, content: Content) {
        self.content = Some(content);
        self.checked = None;
    }

    /// Frees the decompressor's memory, if the file is compressed.
    pub fn release_decoder(&mut self) {
        if let Some(content) = &mut self.content {
            content.release_decoder();
        }
    }

    /// Returns the time since which the file has no matching path.
    pub fn gone_since(&self) -> Option<EngineTime> {
        self.gone_since
    }

    /// Records that the file has had no matching path since `now`, unless this is already recorded.
    pub fn mark_gone(&mut self, now: EngineTime) {
        self.gone_since.get_or_insert(now);
    }

    /// Records that the file has a matching path.
    pub fn mark_present(&mut self) {
        self.gone_since = None;
    }

    /// Returns whether the file was renamed since the last check for linking, or lost its path at
    /// `now`.
    pub fn has_moved(&self, now: EngineTime) -> bool {
        self.renamed || self.gone_since == Some(now)
    }

    /// Records that the file was checked for linking.
    pub fn clear_moved(&mut self) {
        self.renamed = false;
    }

    /// Returns the link or copy that holds the file.
    pub fn held(&self) -> Option<&HeldFile> {
        self.held.as_deref()
    }

    /// Records the link or copy that holds the file.
    pub fn set_held(&mut self, held: HeldFile) {
        self.held = Some(Box::new(held));
    }

    /// Forgets and returns the link or copy that holds the file.
    pub fn take_held(&mut self) -> Option<HeldFile> {
        self.held.take().map(|held| *held)
    }
}

// Cursors and the end.
impl Tail {
    /// Returns the cursors.
    pub fn cursors(&self) -> &Cursors {
        &self.cursors
    }

    /// Returns the offset from which each sink must read to miss nothing.
    pub fn checkpoints(&self, sinks: &[(SinkIndex, String)]) -> Vec<(String, u64)> {
        let position = |sink| {
            let has_sink = |cursor: &&Cursor| cursor.sinks.contains(sink);
            let cursors = self.cursors.list().iter().filter(has_sink);
            let positions = cursors.map(|cursor| cursor.position);
            positions.min().unwrap_or(self.cursors.head())
        };
        sinks.iter().map(|(sink, name)| (name.clone(), position(*sink))).collect()
    }

    /// Picks the cursor to read at; returns `None` if all sinks are blocked, or have read to the
    /// end.
    pub fn choose(&mut self, ready: SinkSet, blocked: SinkSet) -> Option<Choice> {
        self.cursors.choose(ready, blocked, self.end)
    }

    /// Returns whether all cursors are at the end that reads have found.
    pub fn is_read(&self) -> bool {
        self.end.is_some_and(|end| !self.cursors.is_behind(end))
    }

    /// Returns whether the file ends at this cursor, before data up to `head` that other cursors
    /// have read, because reading continues in a copy that lacks this data.
    pub fn lacks_data(&self, cursor: Cursor, head: u64) -> bool {
        self.frozen && cursor.position < head && self.cursors.list().contains(&cursor)
    }

    /// Returns the offset at which reads ended, if the end was reached since the last poll.
    pub fn end(&self) -> Option<u64> {
        self.end
    }

    /// Records the offset at which a read ended.
    pub fn reached(&mut self, end: u64) {
        self.end = Some(end);
    }

    /// Rereads an abandoned range, after checking the identity, because the file may have been
    /// rewritten.
    pub fn reread(&mut self, again: &Reread) {
        self.cursors.reread(again);
        self.checked = None;
    }

    /// Moves the cursor at `index` to `end`.
    pub fn advance(&mut self, index: usize, end: u64) {
        self.cursors.advance(index, end);
    }

    /// Changes the sinks, and adds cursors for new ones.
    pub fn set_sinks(&mut self, kept: SinkSet, new: Vec<(SinkIndex, u64)>) {
        self.cursors.set_sinks(kept, new);
    }
}

// The schedule.
impl Tail {
    /// Queues the file at `now`, for the first time.
    pub fn start(&mut self, now: EngineTime, quiet_after: Duration) {
        self.quiet_at = now + quiet_after;
        self.queued = true;
        self.next = now;
    }

    /// Returns the time of the file's next poll.
    pub fn next(&self) -> EngineTime {
        self.next
    }

    /// Sets the time of the file's next poll.
    pub fn set_next(&mut self, next: EngineTime) {
        self.next = next;
    }

    /// Schedules the file for a read, which checks the file's identity and looks for its end.
    /// Returns `false` if the file was already queued.
    pub fn enqueue(&mut self) -> bool {
        self.end = None;
        self.checked = None;
        !std::mem::replace(&mut self.queued, true)
    }

    /// Returns whether the file is in the read queue.
    pub fn is_queued(&self) -> bool {
        self.queued
    }

    /// Takes the file off the read queue.
    pub fn dequeue(&mut self) {
        self.queued = false;
    }

    /// Takes the file off the read queue until its next poll, as if it had been read.
    pub fn skip_poll(&mut self) {
        self.queued = false;
        self.end = Some(self.cursors.head());
    }

    /// Records new data. The file becomes quiet if no more data arrives for `quiet_after`.
    pub fn note_growth(&mut self, now: EngineTime, quiet_after: Duration) {
        self.grown = now;
        self.quiet_at = now + quiet_after;
    }

    /// Returns the time at which the file last had new data.
    pub fn grown(&self) -> EngineTime {
        self.grown
    }

    /// Returns whether no data has arrived for so long that inotify may replace polling.
    pub fn is_quiet(&self, now: EngineTime) -> bool {
        now >= self.quiet_at
    }

    /// Returns whether inotify reports the next write.
    pub fn is_watched(&self) -> bool {
        self.watched
    }

    /// Asks inotify to report the next write; returns whether this succeeded.
    pub fn watch(&mut self, watch: &mut Watch) -> bool {
        let content = self.content.as_ref();
        self.watched =
            content.is_some_and(|content| watch.watch_file(self.origin.id, content.file()));
        self.watched
    }

    /// Stops waiting for inotify; returns whether the file was waiting.
    pub fn unwatch(&mut self) -> bool {
        std::mem::take(&mut self.watched)
    }
}
