//! Names that appear and vanish in watched folders. Each is checked without a walk of its folder.

use super::{FileSource, MISSING, UNWATCHED_WALK_INTERVAL};
use crate::identity::Inode;
use crate::renames::follow_renames;
use crate::scan_budget::ScanBudget;
use millstream_model::SourceCx;
use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::time::Duration;

/// Schedule of the checks of changed names.
#[derive(Default)]
pub(super) struct ChangedNames {
    /// Whether names have changed since the last check.
    pub check_requested: bool,
    checked: Option<Duration>,
    /// Shortest time until the next check, depending on the cost of the last one.
    pause: Duration,
}

impl FileSource {
    pub(super) fn are_changes_due(&self, now: Duration) -> bool {
        let since =
            self.changed_names.checked.map_or(Duration::MAX, |checked| now.saturating_sub(checked));
        let waits = !self.rotations.is_complete() && since >= UNWATCHED_WALK_INTERVAL;
        (self.changed_names.check_requested || waits) && since >= self.changed_names.pause
    }

    /// Adopts files whose names appeared, and records which names vanished.
    pub(super) fn check_changed_names(&mut self, cx: &SourceCx<'_>) {
        let (now, scan_budget) = (cx.now.since_start, ScanBudget::begin());
        let changes = self.watch.take_changes();
        let mut appeared = changes.appeared;
        let mut changed = changes.vanished;
        changed.extend(appeared.iter().cloned());
        appeared.append(&mut self.rotations.take_incomplete());
        let mut files: BTreeSet<PathBuf> =
            appeared.iter().filter(|path| self.is_included(path)).cloned().collect();
        let moved = self.watch.take_moved();
        files.extend(follow_renames(moved, |path| self.is_included(path)));
        // inotify reports a symlink to a folder like a file.
        let has_folder = appeared.iter().any(|path| !files.contains(path) && path.is_dir());
        let mut unreadable = self.unreadable.clone();
        unreadable.retain(|path, _| !changed.contains(path));
        // A pattern without a match may match now; only a walk detects that.
        let may_match = !files.is_empty() && unreadable.values().any(|reason| reason == MISSING);
        if has_folder || may_match {
            self.walks.request();
        }
        self.changed_names.check_requested = false;
        self.adopt_files(&files, appeared, Some(&changed), &mut unreadable, cx);
        self.report(unreadable, cx);
        (self.changed_names.checked, self.changed_names.pause) =
            (Some(now), scan_budget.interval());
    }

    /// Records since when files with changed names have no matching path.
    pub(super) fn note_changed(
        &mut self,
        changed: &HashSet<PathBuf>,
        seen: &HashSet<u64>,
        now: Duration,
    ) {
        for id in seen {
            let fits = self.tails.get(id).is_some_and(|tail| self.is_included(tail.path()));
            let Some(tail) = self.tails.get_mut(id) else { continue };
            match fits {
                true => tail.mark_present(),
                false => tail.mark_gone(now),
            }
            tail.update_status();
        }
        for tail in self.tails.values_mut().filter(|tail| changed.contains(tail.path())) {
            let is_there =
                rustix::fs::stat(tail.path()).is_ok_and(|stat| Inode::of(&stat) == tail.inode());
            if is_there || seen.contains(&tail.id()) || tail.gone_since().is_some() {
                continue;
            }
            if tail.is_deleted() {
                tail.mark_gone(now);
                tail.update_status();
            } else {
                // The file has another name, or is closed.
                self.walks.request();
            }
        }
    }
}
