//! Names that appear and vanish in watched folders. Each is checked without a walk of its folder.

use super::{FileSource, MISSING};
use crate::discover::Pattern;
use crate::finished::FinishedFile;
use crate::identity::Inode;
use crate::scan_budget::ScanBudget;
use crate::tail::Tail;
use millstream_model::{EngineTime, OriginId, SourceCx};
use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

/// Names that changed since the last look.
pub(super) struct ChangedNames {
    /// All of them.
    pub all: HashSet<PathBuf>,
    /// Those that were deleted.
    pub deleted: HashSet<PathBuf>,
}

impl FileSource {
    /// Adopts files whose names appeared, and records which names vanished.
    pub(super) fn check_changed_names(&mut self, cx: &SourceCx<'_>) {
        let (now, scan_budget) = (cx.now.since_start, ScanBudget::begin());
        let changes = self.watch.take_changes();
        let mut appeared = changes.appeared;
        let mut changed = changes.vanished;
        changed.extend(appeared.iter().cloned());
        let changed = ChangedNames { all: changed, deleted: changes.deleted };
        appeared.append(&mut self.rotations.take_incomplete());
        // A walk follows new links, and those that lead elsewhere.
        let is_link = |path: &PathBuf| path.is_symlink() && self.is_included(path);
        if changed.all.iter().any(|path| self.links.has(path) || is_link(path)) {
            self.walks.request();
        }
        let is_file = |path: &&PathBuf| self.is_included(path) && !path.is_symlink();
        let mut files: BTreeSet<PathBuf> = appeared.iter().filter(is_file).cloned().collect();
        files.extend(self.follow_names(cx));
        // inotify reports a symlink to a folder like a file.
        let has_folder = appeared.iter().any(|path| !files.contains(path) && path.is_dir());
        // A linked file is reported under the name of the link.
        let reported: HashSet<&Path> =
            changed.all.iter().map(|path| self.included_name(path)).collect();
        let mut unreadable = self.unreadable.clone();
        unreadable.retain(|path, _| !reported.contains(path.as_path()));
        // A pattern without a match may match now; only a walk detects that.
        let may_match = !files.is_empty() && unreadable.values().any(|reason| reason == MISSING);
        if has_folder || may_match {
            self.walks.request();
        }
        self.walks.begin_check();
        self.adopt_files(&files, appeared, Some(&changed), &mut unreadable, cx);
        let missing = self.patterns_left(&changed.all).into_iter();
        unreadable.extend(missing.map(|pattern| (pattern, MISSING.to_owned())));
        self.report(unreadable, cx);
        self.walks.end_check(now, scan_budget.interval());
    }

    /// Returns the current paths of renamed files. Counts files that were created and deleted since
    /// the last look. They are not counted as lost: they may have been empty, or other names of a
    /// file that is read.
    pub(super) fn follow_names(&mut self, cx: &SourceCx<'_>) -> HashSet<PathBuf> {
        let mut names = std::mem::take(&mut self.names);
        let followed = names.follow(self.watch.take_named(), |path| self.is_included(path));
        self.names = names;
        if let Some(first) = followed.deleted.first() {
            let (id, count) = (&cx.info.id, followed.deleted.len() as u64);
            cx.counters.noted("unseen_deletions", count);
            log::info!(
                "source {id}: {count} files were created and deleted before they could be read, the first as {}",
                first.display()
            );
        }
        followed.renamed
    }

    /// Returns the patterns that matched one of the names, and match no file any more.
    fn patterns_left(&self, changed: &HashSet<PathBuf>) -> Vec<PathBuf> {
        let vanished: Vec<&PathBuf> = changed.iter().filter(|path| !path.exists()).collect();
        let is_left = |pattern: &&Pattern| {
            let matched = |path: &&PathBuf| pattern.matches(path) && self.is_included(path);
            let is_present = |tail: &Tail| {
                tail.gone_since().is_none() && pattern.matches(self.included_name(tail.path()))
            };
            let is_finished = |file: &FinishedFile| pattern.matches(self.included_name(&file.path));
            vanished.iter().any(matched)
                && !self.files.iter().any(is_present)
                && !self.finished.iter().any(is_finished)
        };
        let left = self.settings.include.iter().filter(is_left);
        left.map(|pattern| PathBuf::from(pattern.text())).collect()
    }

    /// Records since when files with changed names have no matching path.
    pub(super) fn note_changed(
        &mut self,
        changed: &HashSet<PathBuf>,
        seen: &HashSet<OriginId>,
        now: EngineTime,
    ) {
        for id in seen {
            let fits = self.files.get(*id).is_some_and(|tail| self.is_included(tail.path()));
            let Some(tail) = self.files.get_mut(*id) else { continue };
            match fits {
                true => tail.mark_present(),
                false => tail.mark_gone(now),
            }
            tail.update_status();
        }
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
                // The file has another name, or is closed.
                self.walks.request();
            }
        }
    }
}
