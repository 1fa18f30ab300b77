//! The state of discovery between two looks at the folders: changing names, and unreadable paths.

use super::MISSING;
use super::scope::Scope;
use crate::renames::{NameChange, NameFollower};
use crate::tail::Tail;
use millstream_model::SourceCx;
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

/// The name changes that are being followed, and the last report of unreadable paths.
#[derive(Default)]
pub(super) struct Discovery {
    follower: NameFollower,
    /// Paths that cannot be read, and patterns without a match, with the reason.
    unreadable: BTreeMap<PathBuf, String>,
}

impl Discovery {
    /// Returns the current paths of renamed files. Counts files that were created and deleted since
    /// the last look. These files are not counted as lost, because they may have been empty, or may
    /// have been other names of a file that is read.
    pub(super) fn follow_names(
        &mut self,
        named: Vec<NameChange>,
        scope: &Scope,
        cx: &SourceCx<'_>,
    ) -> HashSet<PathBuf> {
        let followed = self.follower.follow(named, |path| scope.is_included(path));
        if let Some(first) = followed.deleted.first() {
            let id = &cx.info.id;
            let count = followed.deleted.len() as u64;
            cx.counters.noted("unseen_deletions", count);
            log::info!(
                "source {id}: {count} files were created and deleted before they could be read; \
                 the first was {}",
                first.display()
            );
        }
        followed.renamed
    }

    /// Records which files a look has opened.
    pub(super) fn note_look(&mut self, opened: &[Tail]) {
        self.follower.note_look(opened.iter().map(Tail::path));
    }

    /// Returns the unreadable paths, and the patterns without a match, with the reason.
    pub(super) fn unreadable(&self) -> &BTreeMap<PathBuf, String> {
        &self.unreadable
    }

    /// Reports unreadable paths, and logs changes.
    pub(super) fn report(
        &mut self,
        unreadable: BTreeMap<PathBuf, String>,
        scope: &Scope,
        cx: &SourceCx<'_>,
    ) {
        let named = unreadable
            .iter()
            .map(|(path, reason)| (path.to_string_lossy().into_owned(), reason.clone()));
        scope.open.unreadable.set(named.collect());
        for (path, reason) in &unreadable {
            if self.unreadable.get(path) == Some(reason) || reason == MISSING {
                continue;
            }
            cx.counters.error("unreadable");
            log::warn!("source {}: cannot read {}: {reason}; retrying", cx.info.id, path.display());
        }
        for (path, reason) in &self.unreadable {
            if !unreadable.contains_key(path) && reason != MISSING {
                log::info!(
                    "source {}: {} is readable again or no longer exists",
                    cx.info.id,
                    path.display()
                );
            }
        }
        self.unreadable = unreadable;
    }
}

/// Logs how many files the patterns match, so that users notice a wrong pattern. Called once.
pub(super) fn log_matches(files: usize, cx: &SourceCx<'_>) {
    if files == 0 {
        log::warn!("source {}: no file matches include yet; waiting for one", cx.info.id);
    } else {
        log::info!("source {}: {files} files match include", cx.info.id);
    }
}
