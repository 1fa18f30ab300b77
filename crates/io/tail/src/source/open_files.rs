//! The limit of open files: closes idle files, and reopens them to be read.

use super::{FileSource, UNWATCHED_POLL, schedule};
use crate::content::Content;
use crate::identity::Inode;
use crate::open::open_regular;
use crate::tail::Tail;
use millstream_model::SourceCx;
use std::path::Path;

/// At the limit, one in this many files is closed at once, as each selection scans all files.
const PARK_SHARE: usize = 8;

impl FileSource {
    /// Closes idle files until `more` files can be opened: first those that have been quiet the
    /// longest, then those that wait to be read. Files without a path stay open, as they could not
    /// be reopened.
    pub(super) fn close_idle(&mut self, more: usize, keep: &[u64]) {
        if self.open_bound + more <= self.open_max {
            return;
        }
        let is_open = |tail: &&mut Tail| tail.open_content().is_some();
        self.open_bound = self.tails.values_mut().filter(is_open).count();
        let count = (self.open_bound + more).saturating_sub(self.open_max);
        if count == 0 {
            return;
        }
        let may_close =
            |tail: &&mut Tail| tail.gone_since().is_none() && !keep.contains(&tail.id());
        let mut closable: Vec<&mut Tail> =
            self.tails.values_mut().filter(is_open).filter(may_close).collect();
        closable
            .sort_by_key(|tail| (tail.is_queued(), tail.grown(), tail.descriptor().modified_ns));
        let count = closable.len().min(count + self.open_max / PARK_SHARE);
        closable.into_iter().take(count).for_each(Tail::park);
        self.open_bound -= count;
    }

    /// Reopens a file that was closed because of the limit; returns whether it can be read. Files
    /// in `beside` stay open.
    pub(super) fn unpark(&mut self, id: u64, beside: &[u64], cx: &SourceCx<'_>) -> bool {
        let Some(tail) = self.tails.get(&id).filter(|tail| tail.open_content().is_none()) else {
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
        let Some(tail) = self.tails.get_mut(&id) else { return false };
        match found {
            Some(mut content) => {
                // An unchanged compressed file is not decompressed again.
                _ = tail
                    .descriptor()
                    .compressed
                    .is_some_and(|state| content.skip_if_unchanged(state));
                tail.reopen(content);
                self.open_bound += 1;
                true
            }
            // The file exists, but cannot be opened now.
            None if rustix::fs::stat(&path).is_ok_and(|stat| Inode::of(&stat) == inode) => {
                tail.skip_poll();
                schedule(&mut self.work.polls, tail, cx.now.since_start + UNWATCHED_POLL);
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
        let (file, stat) = open_regular(path, &self.symlinks).ok()??;
        (Inode::of(&stat) == inode).then(|| Content::new(file).ok()).flatten()
    }
}
