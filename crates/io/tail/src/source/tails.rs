//! The files being read: when each one is polled, and how many are open.

use super::files::Files;
use super::open_files::OpenLimit;
use super::schedule::{QUIET_AFTER, Schedule, UNWATCHED_POLL};
use super::scope::Scope;
use crate::content::Content;
use crate::identity::Inode;
use crate::records::Generations;
use crate::tail::Tail;
use crate::watch::Watch;
use millstream_model::{EngineTime, Ledger, Now, OriginId, OriginStore, SourceCx, SourceOpen};
use rustix::fs::fstat;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The files being read, with their schedule.
pub(super) struct Tails {
    files: Files,
    schedule: Schedule,
    limit: OpenLimit,
    /// Ids of files whose heads have grown, and must be saved before the data of these files is
    /// sent.
    grown_heads: Vec<OriginId>,
}

/// Whether a file that was closed because of the limit on open files can be read again.
pub(super) enum Reopening {
    /// The file is open.
    Open,
    /// The file exists, but cannot be opened now. A later poll tries again.
    Later,
    /// No path refers to the file.
    Gone,
}

impl Tails {
    /// Creates an empty set. At most `open_max` files will be open.
    pub(super) fn new(open_max: usize) -> Tails {
        Tails {
            files: Files::default(),
            schedule: Schedule::default(),
            limit: OpenLimit::new(open_max),
            grown_heads: Vec::new(),
        }
    }

    /// Returns the file with this id.
    pub(super) fn get(&self, id: OriginId) -> Option<&Tail> {
        self.files.get(id)
    }

    /// Returns the file with this id.
    pub(super) fn get_mut(&mut self, id: OriginId) -> Option<&mut Tail> {
        self.files.get_mut(id)
    }

    /// Returns all files, ordered by id.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Tail> {
        self.files.iter()
    }

    /// Returns all files, ordered by id.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Tail> {
        self.files.iter_mut()
    }

    /// Returns the number of files.
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// Returns the id of the file with this inode.
    pub(super) fn id_of(&self, inode: Inode) -> Option<OriginId> {
        self.files.id_of(inode)
    }

    /// Returns the inodes of all files, in any order.
    pub(super) fn inodes(&self) -> impl Iterator<Item = Inode> {
        self.files.inodes()
    }

    /// Starts reading files, in the order of their last modification. Their ids must be durable.
    pub(super) fn add(
        &mut self,
        mut new: Vec<Tail>,
        generations: &mut Generations,
        cx: &SourceCx<'_>,
    ) {
        new.sort_by_key(|tail| tail.descriptor().modified_ns);
        for mut tail in new {
            let mut checkpoints = Vec::new();
            for cursor in tail.cursors().list() {
                checkpoints.extend(cursor.sinks.iter().map(|sink| (sink, cursor.position)));
            }
            cx.ledger.open(tail.origin(), checkpoints);
            let quiet_after = QUIET_AFTER.saturating_sub(age(&tail, cx.now));
            self.schedule.add(&mut tail, cx.now.since_start, quiet_after);
            self.limit.note_opened(usize::from(tail.open_content().is_some()));
            generations.open(tail.descriptor());
            self.files.insert(tail);
        }
    }

    /// Removes and returns a file that is no longer read, and stops counting its generation.
    pub(super) fn remove(&mut self, id: OriginId, generations: &mut Generations) -> Option<Tail> {
        let tail = self.remove_counted(id)?;
        generations.release(tail.descriptor());
        Some(tail)
    }

    /// Removes and returns a file whose generation is still counted.
    pub(super) fn remove_counted(&mut self, id: OriginId) -> Option<Tail> {
        self.schedule.finish_decompressing(id, &self.files);
        let tail = self.files.remove(id)?;
        self.schedule.remove(&tail);
        Some(tail)
    }

    /// Frees the memory that removed files used.
    pub(super) fn shrink(&mut self) {
        self.files.shrink();
        self.schedule.shrink(&self.files);
    }

    /// Switches a file to its copy, which has another inode. Returns the file.
    pub(super) fn continue_in(
        &mut self,
        id: OriginId,
        copy: Content,
        inode: Inode,
        path: PathBuf,
    ) -> Option<&mut Tail> {
        self.schedule.unwatch(self.files.get_mut(id)?);
        let tail = self.files.continue_in(id, copy, inode, path)?;
        self.limit.note_opened(1);
        Some(tail)
    }
}

// The limit on open files.
impl Tails {
    /// Adds a file to the files to adopt. If many are already open, closes the file.
    pub(super) fn add_new(&self, new: &mut Vec<Tail>, mut tail: Tail) {
        if new.len() >= self.limit.batch_max() {
            tail.park();
        }
        new.push(tail);
    }

    /// Closes idle files until a walk's `new` files and one more can be open.
    pub(super) fn make_room(&mut self, new: usize) {
        self.limit.close_idle(new.min(self.limit.batch_max()) + 1, &[], &mut self.files);
    }

    /// Closes idle files until one more can be opened. The files in `beside` stay open.
    pub(super) fn make_room_beside(&mut self, beside: &[OriginId]) {
        self.limit.close_idle(1, beside, &mut self.files);
    }

    /// Reopens a file that was closed because of the limit on open files. The files in `beside`
    /// stay open. `held` is the link that holds the file, if there is one.
    pub(super) fn reopen(
        &mut self,
        id: OriginId,
        beside: &[OriginId],
        held: Option<PathBuf>,
        scope: &Scope,
        now: EngineTime,
    ) -> Reopening {
        let Some(tail) = self.files.get(id).filter(|tail| tail.open_content().is_none()) else {
            return Reopening::Open;
        };
        let path = tail.path().to_path_buf();
        let inode = tail.inode();
        self.make_room_beside(&[beside, &[id]].concat());
        let content = open_anywhere(&path, held, inode, scope);
        let Some(tail) = self.files.get_mut(id) else { return Reopening::Later };
        if let Some(mut content) = content {
            if let Some(state) = tail.descriptor().compressed {
                // An unchanged compressed file is not decompressed again.
                content.skip_if_unchanged(state);
            }
            tail.reopen(content);
            self.limit.note_opened(1);
            return Reopening::Open;
        }
        if rustix::fs::stat(&path).is_ok_and(|stat| Inode::of(&stat) == inode) {
            tail.skip_poll();
            self.schedule.poll_at(tail, now + UNWATCHED_POLL);
            return Reopening::Later;
        }
        Reopening::Gone
    }

    /// Returns the upper bound on the number of open files.
    #[cfg(test)]
    pub(super) fn open_bound(&self) -> usize {
        self.limit.open()
    }
}

// Polls.
impl Tails {
    /// Sets the next poll of a file.
    pub(super) fn poll_at(&mut self, id: OriginId, next: EngineTime) {
        if let Some(tail) = self.files.get_mut(id) {
            self.schedule.poll_at(tail, next);
        }
    }

    /// Sets the next poll of every file.
    pub(super) fn poll_all_at(&mut self, next: EngineTime) {
        for tail in self.files.iter_mut() {
            self.schedule.poll_at(tail, next);
        }
    }

    /// Takes a file off the read queue until its next poll.
    pub(super) fn skip_until(&mut self, id: OriginId, next: EngineTime) {
        if let Some(tail) = self.files.get_mut(id) {
            tail.skip_poll();
            self.schedule.poll_at(tail, next);
        }
    }

    /// Polls a file for which inotify reported a write; returns whether the file is read.
    pub(super) fn note_write(&mut self, id: OriginId, now: EngineTime) -> bool {
        let Some(tail) = self.files.get_mut(id) else { return false };
        self.schedule.note_write(tail, now);
        true
    }

    /// Records that reading a file found new data. A head that has grown is saved before the data
    /// is sent.
    pub(super) fn note_growth(&mut self, id: OriginId, now: EngineTime, store: &dyn OriginStore) {
        let Some(tail) = self.files.get_mut(id) else { return };
        self.schedule.note_growth(tail, now);
        if describe(tail, store) {
            self.grown_heads.push(id);
        }
    }

    /// Sets the next poll of a file that was read to its end. An incomplete last line times out
    /// after `read_timeout`. Adds an inotify watch if the file is quiet.
    pub(super) fn poll_for_more(
        &mut self,
        id: OriginId,
        watch: &mut Watch,
        now: EngineTime,
        read_timeout: Option<Duration>,
    ) {
        let Some(tail) = self.files.get_mut(id) else { return };
        let overdue = read_timeout.and_then(|timeout| tail.overdue_at(timeout));
        self.schedule.poll_for_more(tail, watch, now, overdue);
    }

    /// Polls files that were just renamed or lost their name, because their last lines must be read
    /// before the lines of the files that now have their names.
    pub(super) fn poll_moved(&mut self, now: EngineTime) {
        let has_moved = |tail: &&mut Tail| tail.has_moved(now) && tail.held().is_none();
        for tail in self.files.iter_mut().filter(has_moved) {
            self.schedule.poll_at(tail, now);
        }
    }

    /// Returns the time until a file's next poll, limited so that inotify is checked often enough.
    pub(super) fn pause(&self, now: EngineTime) -> Duration {
        self.schedule.pause(now)
    }
}

// The read queue.
impl Tails {
    /// Queues every file whose poll is due.
    pub(super) fn queue_due(&mut self, now: EngineTime) {
        self.schedule.queue_due(&mut self.files, now);
    }

    /// Returns whether any file is due.
    pub(super) fn has_due(&self) -> bool {
        self.schedule.has_due()
    }

    /// Returns the number of files that are due.
    pub(super) fn due_files(&self) -> usize {
        self.schedule.due_files()
    }

    /// Takes the next file to read off the queue.
    pub(super) fn pop_due(&mut self) -> Option<OriginId> {
        self.schedule.pop(&self.files)
    }

    /// Adds a file to the end of the queue.
    pub(super) fn push_back(&mut self, id: OriginId) {
        self.schedule.push_back(id, &self.files);
    }

    /// Adds a file to the front of the queue.
    pub(super) fn push_front(&mut self, id: OriginId) {
        if let Some(tail) = self.files.get(id) {
            self.schedule.push_front(tail);
        }
    }

    /// Returns whether a compressed file may be read now. One file is decompressed at a time; other
    /// files are queued after it.
    pub(super) fn may_decompress(&mut self, id: OriginId) -> bool {
        self.schedule.may_decompress(id)
    }

    /// Queues the next compressed file if this file was read to its end.
    pub(super) fn finish_decompressing(&mut self, id: OriginId) {
        self.schedule.finish_decompressing(id, &self.files);
    }

    /// Lets another compressed file be read instead of this file, which is waiting for sinks.
    /// Returns `false` if there is no other file for which `is_readable` is true.
    pub(super) fn pass_decompression_on(
        &mut self,
        id: OriginId,
        is_readable: impl Fn(&mut Tail) -> bool,
    ) -> bool {
        self.schedule.pass_decompression_on(id, &mut self.files, is_readable)
    }
}

// Heads and ends of files.
impl Tails {
    /// Records that the head of a file has grown and must be saved before its data is sent.
    pub(super) fn note_grown_head(&mut self, id: OriginId) {
        self.grown_heads.push(id);
    }

    /// Saves grown heads; returns whether all are saved. If the store contained only a shorter head
    /// after a crash, other content could be mistaken for the file and sent with the same ids.
    pub(super) fn save_heads(&mut self, open: &SourceOpen, cx: &SourceCx<'_>) -> bool {
        let grown = std::mem::take(&mut self.grown_heads);
        let described = |id: &OriginId| Some((*id, self.get(*id)?.descriptor().to_bytes()));
        let heads: Vec<(OriginId, Vec<u8>)> = grown.iter().filter_map(described).collect();
        if heads.is_empty() {
            return true;
        }
        let Err(error) = open.store.keep(&heads) else { return true };
        cx.counters.error("checkpoint");
        log::error!(
            "source {}: cannot save the heads of files (hashes of their first bytes): {error}; \
             retrying",
            cx.info.id
        );
        for id in grown {
            if let Some(tail) = self.files.get_mut(id) {
                tail.forget_head();
            }
        }
        false
    }

    /// Updates the known sizes of files that have not been read to their end.
    pub(super) fn note_ends(&mut self, ledger: &Ledger) {
        for tail in self.files.iter_mut() {
            let content =
                tail.open_content().filter(|content| tail.is_queued() && !content.is_compressed());
            if let Some(Ok(stat)) = content.map(|content| fstat(content.file())) {
                ledger.note_end(tail.id(), stat.st_size as u64);
                tail.origin().state.size.fetch_max(stat.st_size as u64, Relaxed);
            }
        }
    }
}

// File paths.
impl Tails {
    /// Records `now` as the time since which files have had no path, for the files that a walk did
    /// not find. `seen` contains the files that it found.
    pub(super) fn note_seen(&mut self, seen: &HashSet<OriginId>, now: EngineTime) {
        for tail in self.files.iter_mut() {
            if seen.contains(&tail.id()) {
                tail.mark_present();
            } else {
                tail.mark_gone(now);
            }
            tail.update_status();
        }
    }

    /// Records `now` as the time since which files with changed names have had no matching path.
    /// Returns whether a walk must search for a file, because the file has another name or is
    /// closed.
    pub(super) fn note_changed(
        &mut self,
        changed: &HashSet<PathBuf>,
        seen: &HashSet<OriginId>,
        scope: &Scope,
        now: EngineTime,
    ) -> bool {
        for id in seen {
            let Some(tail) = self.files.get_mut(*id) else { continue };
            if scope.is_included(tail.path()) {
                tail.mark_present();
            } else {
                tail.mark_gone(now);
            }
            tail.update_status();
        }
        let mut needs_walk = false;
        for tail in self.files.iter_mut().filter(|tail| changed.contains(tail.path())) {
            let is_there =
                rustix::fs::stat(tail.path()).is_ok_and(|stat| Inode::of(&stat) == tail.inode());
            if is_there || seen.contains(&tail.id()) || tail.gone_since().is_some() {
                continue;
            }
            if tail.is_deleted() {
                tail.mark_gone(now);
                tail.update_status();
            } else {
                needs_walk = true;
            }
        }
        needs_walk
    }

    /// Records that a path refers to a file. If the file has several names, the first one is used
    /// for as long as it refers to the file.
    pub(super) fn note_path(&mut self, id: OriginId, inode: Inode, path: &Path) {
        let leads =
            |path: &Path| rustix::fs::stat(path).is_ok_and(|stat| Inode::of(&stat) == inode);
        let tail = self.files.get_mut(id).filter(|tail| tail.path() != path);
        if let Some(tail) = tail.filter(|tail| !leads(tail.path())) {
            tail.set_path(path);
        }
    }
}

/// Opens a file at its path, at its held link, or under another name in its folder.
fn open_anywhere(
    path: &Path,
    held: Option<PathBuf>,
    inode: Inode,
    scope: &Scope,
) -> Option<Content> {
    let content = scope.open_inode(path, inode);
    let content = content.or_else(|| scope.open_inode(held.as_ref()?, inode));
    content.or_else(|| {
        let names = std::fs::read_dir(path.parent()?).ok()?;
        names.flatten().find_map(|entry| scope.open_inode(&entry.path(), inode))
    })
}

/// Updates a file's descriptor after a read; returns whether the head has grown, so that the
/// descriptor must be saved before the data is sent.
fn describe(tail: &mut Tail, store: &dyn OriginStore) -> bool {
    let marked = tail.update_fingerprint();
    if !tail.descriptor().head.is_full() && tail.update_head() {
        return true;
    }
    if marked {
        // The descriptor is saved together with the checkpoint, so that a copy is recognized after
        // the file is gone.
        store.note(tail.id(), tail.descriptor().to_bytes());
    }
    false
}

/// Returns the time since the last write to a file.
fn age(tail: &Tail, now: Now) -> Duration {
    let stat = tail.open_content().map(|content| fstat(content.file()));
    let written = stat.and_then(Result::ok).map_or(i64::MAX, |stat| stat.st_mtime);
    Duration::from_secs((now.unix_ns / 1_000_000_000).saturating_sub(written).max(0) as u64)
}
