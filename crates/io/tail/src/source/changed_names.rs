//! Names that appear and vanish in watched folders. Each name is checked without walking its
//! folder.

use super::MISSING;
use super::history::History;
use super::scope::Scope;
use super::tails::Tails;
use crate::discover::Pattern;
use crate::finished::FinishedFile;
use crate::tail::Tail;
use crate::watch::Changes;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

/// Names that changed since the last look.
pub(super) struct ChangedNames {
    /// All names that appeared or vanished.
    pub all: HashSet<PathBuf>,
    /// The names that were deleted.
    pub deleted: HashSet<PathBuf>,
    /// The names that appeared, and the names of files that must be checked again.
    pub appeared: BTreeSet<PathBuf>,
}

impl ChangedNames {
    /// Creates the list from the changes that inotify has reported and the files to check again.
    pub(super) fn new(changes: Changes, mut incomplete: BTreeSet<PathBuf>) -> ChangedNames {
        let mut appeared = changes.appeared;
        let mut all = changes.vanished;
        all.extend(appeared.iter().cloned());
        appeared.append(&mut incomplete);
        ChangedNames { all, deleted: changes.deleted, appeared }
    }

    /// Returns whether a changed name is a link, or was one. Only a walk can follow links.
    pub(super) fn has_link(&self, scope: &Scope) -> bool {
        let is_link = |path: &Path| path.is_symlink() && scope.is_included(path);
        self.all.iter().any(|path| scope.links.has(path) || is_link(path))
    }

    /// Returns the included files that appeared.
    pub(super) fn files(&self, scope: &Scope) -> BTreeSet<PathBuf> {
        let is_file = |path: &&PathBuf| scope.is_included(path) && !path.is_symlink();
        self.appeared.iter().filter(is_file).cloned().collect()
    }

    /// Returns whether a folder appeared that is not among the `files`. inotify does not
    /// distinguish a symlink to a folder from a file.
    pub(super) fn has_folder(&self, files: &BTreeSet<PathBuf>) -> bool {
        self.appeared.iter().any(|path| !files.contains(path) && path.is_dir())
    }

    /// Removes the changed names from a report of unreadable paths. A linked file is reported under
    /// the link's name.
    pub(super) fn remove_from(&self, unreadable: &mut BTreeMap<PathBuf, String>, scope: &Scope) {
        let reported: HashSet<&Path> =
            self.all.iter().map(|path| scope.included_name(path)).collect();
        unreadable.retain(|path, _| !reported.contains(path.as_path()));
    }

    /// Adds to a report the patterns that matched a changed name and no longer match any file.
    pub(super) fn add_missing(
        &self,
        unreadable: &mut BTreeMap<PathBuf, String>,
        scope: &Scope,
        files: &Tails,
        history: &History,
    ) {
        let vanished: Vec<&PathBuf> = self.all.iter().filter(|path| !path.exists()).collect();
        let is_missing = |pattern: &&Pattern| {
            let matched = |path: &&PathBuf| pattern.matches(path) && scope.is_included(path);
            let is_present = |tail: &Tail| {
                tail.gone_since().is_none() && pattern.matches(scope.included_name(tail.path()))
            };
            let is_finished =
                |file: &FinishedFile| pattern.matches(scope.included_name(&file.path));
            vanished.iter().any(matched)
                && !files.iter().any(is_present)
                && !history.finished.iter().any(is_finished)
        };
        for pattern in scope.settings.include.iter().filter(is_missing) {
            unreadable.insert(PathBuf::from(pattern.text()), MISSING.to_owned());
        }
    }
}
