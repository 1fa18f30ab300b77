//! Names that appear and vanish in watched folders: each is checked alone, without a walk of its
//! folder.

use super::*;
use crate::files::renames::followed;
use crate::files::scan_budget::ScanBudget;
use std::collections::BTreeSet;

/// When names are checked.
#[derive(Default)]
pub(super) struct ChangedNames {
    /// Something is due for a check.
    pub wanted: bool,
    looked: Option<Duration>,
    /// Shortest time until the next check, depending on the cost of the last one.
    pause: Duration,
}

impl FileSource {
    pub(super) fn are_changes_due(&self, now: Duration) -> bool {
        let since = self.names.looked.map_or(Duration::MAX, |looked| now.saturating_sub(looked));
        let waits = !self.rotations.is_complete() && since >= UNWATCHED_WALK_INTERVAL;
        (self.names.wanted || waits) && since >= self.names.pause
    }

    /// Adopts files whose names appeared, and notes which have vanished.
    pub(super) fn check_changed_names(&mut self, cx: &SourceCx<'_>) {
        let (now, scan_budget) = (cx.now.since_start, ScanBudget::begin());
        let changes = self.watch.changes();
        let mut came = changes.came;
        let mut changed = changes.went;
        changed.extend(came.iter().cloned());
        came.append(&mut self.rotations.take_incomplete());
        let mut files: BTreeSet<PathBuf> =
            came.iter().filter(|path| self.is_included(path)).cloned().collect();
        files.extend(followed(self.watch.moved(), &self.patterns, &self.exclude));
        // A symlink to a folder is reported like a file.
        self.walk_wanted |= came.iter().any(|path| !files.contains(path) && path.is_dir());
        let mut trouble = self.trouble.clone();
        trouble.retain(|path, _| !changed.contains(path));
        // A pattern without a match may match now; only a walk can tell.
        self.walk_wanted |= !files.is_empty() && trouble.values().any(|reason| reason == MISSING);
        self.names.wanted = false;
        self.take_files(&files, came, Some(&changed), &mut trouble, cx);
        self.report(trouble, cx);
        (self.names.looked, self.names.pause) = (Some(now), scan_budget.interval());
    }

    /// Notes since when files with changed names have no matching path.
    pub(super) fn note_changed(
        &mut self,
        changed: &HashSet<PathBuf>,
        seen: &HashSet<u64>,
        now: Duration,
    ) {
        for id in seen {
            let fits = self.tails.get(id).is_some_and(|tail| self.is_included(&tail.path));
            let Some(tail) = self.tails.get_mut(id) else { continue };
            match fits {
                true => tail.gone_since = None,
                false => _ = tail.gone_since.get_or_insert(now),
            }
            tail.note_standing();
        }
        for tail in self.tails.values_mut().filter(|tail| changed.contains(&tail.path)) {
            let is_there =
                rustix::fs::stat(&tail.path).is_ok_and(|stat| Inode::of(&stat) == tail.inode);
            if is_there || seen.contains(&tail.origin.id) || tail.gone_since.is_some() {
                continue;
            }
            if tail.is_deleted() {
                tail.gone_since = Some(now);
                tail.note_standing();
            } else {
                // It has another name, or is closed.
                self.walk_wanted = true;
            }
        }
    }
}
