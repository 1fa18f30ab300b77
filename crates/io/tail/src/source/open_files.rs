//! The limit on open files.

use super::files::Files;
use crate::tail::Tail;
use millstream_model::OriginId;

/// At the limit, one in this many open files is closed at once, because each selection scans all
/// files.
const PARK_SHARE: usize = 8;

/// The limit on open files, and an upper bound on their current number.
pub(super) struct OpenLimit {
    max: usize,
    /// Closing a file does not update this number, so it can be too high.
    open: usize,
}

impl OpenLimit {
    /// Creates the limit, with no open files.
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

    /// Closes idle files until `more` files can be opened: first the files that have been quiet the
    /// longest, then the files that are waiting to be read. Files without a path stay open, because
    /// they could not be reopened.
    pub(super) fn close_idle(&mut self, more: usize, keep: &[OriginId], files: &mut Files) {
        if self.allows(more) {
            return;
        }
        let is_open = |tail: &&mut Tail| tail.open_content().is_some();
        let open = files.iter_mut().filter(is_open).count();
        let count = self.recount(open, more);
        if count == 0 {
            return;
        }
        let may_close =
            |tail: &&mut Tail| tail.gone_since().is_none() && !keep.contains(&tail.id());
        let mut closable: Vec<&mut Tail> =
            files.iter_mut().filter(is_open).filter(may_close).collect();
        closable
            .sort_by_key(|tail| (tail.is_queued(), tail.grown(), tail.descriptor().modified_ns));
        let count = closable.len().min(count + self.max / PARK_SHARE);
        for tail in closable.into_iter().take(count) {
            tail.park();
        }
        self.open -= count;
    }

    /// Returns whether `more` files can be opened without recounting.
    fn allows(&self, more: usize) -> bool {
        self.open + more <= self.max
    }

    /// Replaces the bound with a count of the open files; returns how many must be closed before
    /// `more` are opened.
    fn recount(&mut self, open: usize, more: usize) -> usize {
        self.open = open;
        (open + more).saturating_sub(self.max)
    }

    /// Returns the upper bound on the number of open files.
    #[cfg(test)]
    pub(super) fn open(&self) -> usize {
        self.open
    }
}
