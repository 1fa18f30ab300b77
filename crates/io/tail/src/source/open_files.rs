//! The limit of open files: closes idle files, and reopens them to be read.

use super::FileSource;
use super::schedule::UNWATCHED_POLL;
use crate::content::Content;
use crate::identity::Inode;
use crate::open::open_regular;
use crate::tail::Tail;
use millstream_model::{OriginId, SourceCx};
use std::path::Path;

/// At the limit, one in this many files is closed at once, as each selection scans all files.
const PARK_SHARE: usize = 8;

/// The limit of open files, and an upper bound of their number.
pub(super) struct OpenLimit {
    max: usize,
    /// Files may have been closed since the last count, so that closing one needs no update.
    open: usize,
}

impl OpenLimit {
    /// Creates the limit, without open files.
    pub(super) fn new(max: usize) -> OpenLimit {
        OpenLimit { max, open: 0 }
    }

    /// Returns how many files a walk may leave open.
    pub(super) fn batch_max(&self) -> usize {
        self.max / 2
    }

    /// Records that `files` were opened.
    pub(super) fn note_opened(&mut self, files: usize) {
        self.open += files;
    }

    /// Whether `more` files can be opened without a count.
    fn allows(&self, more: usize) -> bool {
        self.open + more <= self.max
    }

    /// Replaces the bound by a count of the open files; returns how many must be closed before
    /// `more` are opened.
    fn recount(&mut self, open: usize, more: usize) -> usize {
        self.open = open;
        (open + more).saturating_sub(self.max)
    }

    /// Returns the upper bound of the number of open files.
    #[cfg(test)]
    pub(super) fn open(&self) -> usize {
        self.open
    }
}

impl FileSource {
    /// Closes idle files until `more` files can be opened: first those that have been quiet the
    /// longest, then those that wait to be read. Files without a path stay open, as they could not
    /// be reopened.
    pub(super) fn close_idle(&mut self, more: usize, keep: &[OriginId]) {
        if self.open_limit.allows(more) {
            return;
        }
        let is_open = |tail: &&mut Tail| tail.open_content().is_some();
        let open = self.files.iter_mut().filter(is_open).count();
        let count = self.open_limit.recount(open, more);
        if count == 0 {
            return;
        }
        let may_close =
            |tail: &&mut Tail| tail.gone_since().is_none() && !keep.contains(&tail.id());
        let mut closable: Vec<&mut Tail> =
            self.files.iter_mut().filter(is_open).filter(may_close).collect();
        closable
            .sort_by_key(|tail| (tail.is_queued(), tail.grown(), tail.descriptor().modified_ns));
        let count = closable.len().min(count + self.open_limit.max / PARK_SHARE);
        closable.into_iter().take(count).for_each(Tail::park);
        self.open_limit.open -= count;
    }

    /// Reopens a file that was closed because of the limit; returns whether it can be read. Files
    /// in `beside` stay open.
    pub(super) fn unpark(&mut self, id: OriginId, beside: &[OriginId], cx: &SourceCx<'_>) -> bool {
        let Some(tail) = self.files.get(id).filter(|tail| tail.open_content().is_none()) else {
            return true;
        };
        let (path, inode) = (tail.path().to_path_buf(), tail.inode());
        let held = tail.held().map(|file| self.retention.path_of(file));
        self.close_idle(1, &[beside, &[id]].concat());
        let found =
            self.open_inode(&path, inode).or_else(|| self.open_inode(held.as_ref()?, inode));
        let found = found.or_else(|| {
            let names = std::fs::read_dir(path.parent()?).ok()?;
            names.flatten().find_map(|entry| self.open_inode(&entry.path(), inode))
        });
        let Some(tail) = self.files.get_mut(id) else { return false };
        match found {
            Some(mut content) => {
                // An unchanged compressed file is not decompressed again.
                _ = tail
                    .descriptor()
                    .compressed
                    .is_some_and(|state| content.skip_if_unchanged(state));
                tail.reopen(content);
                self.open_limit.note_opened(1);
                true
            }
            // The file exists, but cannot be opened now.
            None if rustix::fs::stat(&path).is_ok_and(|stat| Inode::of(&stat) == inode) => {
                tail.skip_poll();
                self.schedule.poll_at(tail, cx.now.since_start + UNWATCHED_POLL);
                cx.counters.error("read");
                false
            }
            None => {
                self.give_up(id, "closed_unread", cx);
                false
            }
        }
    }

    pub(super) fn open_inode(&self, path: &Path, inode: Inode) -> Option<Content> {
        if rustix::fs::stat(path).ok().map(|stat| Inode::of(&stat)) != Some(inode) {
            return None;
        }
        let (file, stat) = open_regular(path, &self.settings.symlinks).ok()??;
        (Inode::of(&stat) == inode).then(|| Content::new(file, path).ok()).flatten()
    }
}
