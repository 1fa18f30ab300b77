//! Settings and links that every step of the source reads, and file names.

use crate::content::Content;
use crate::copy_detection::Candidate;
use crate::discover::{Discovered, is_included};
use crate::identity::Inode;
use crate::links::{Link, Links};
use crate::open::{Symlinks, open_linked, open_regular};
use crate::records::Generations;
use crate::settings::TailSettings;
use millstream_model::{OriginId, SourceCx, SourceOpen};
use rustix::fs::Stat;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The source's settings, its place in the agent, and the links that the last walk found.
pub(super) struct Scope {
    pub settings: TailSettings,
    pub open: SourceOpen,
    pub links: Links,
    /// Whether the source has never run before, and has not adopted any files yet.
    pub first_start: bool,
}

impl Scope {
    /// Returns whether the source ends once it has read all files.
    pub(super) fn is_finite(&self, cx: &SourceCx<'_>) -> bool {
        cx.until_eof || self.settings.range.is_some()
    }

    /// Returns whether a pattern matches a path, or a link that refers to the path.
    pub(super) fn is_included(&self, path: &Path) -> bool {
        self.is_matched(path) || self.links.to(path).is_some()
    }

    /// Returns whether a pattern matches a path.
    pub(super) fn is_matched(&self, path: &Path) -> bool {
        is_included(path, &self.settings.include, &self.settings.exclude)
    }

    /// Returns whether a path is a symlink that a pattern matches, so that a walk follows it.
    pub(super) fn is_matched_link(&self, path: &Path) -> bool {
        self.is_matched(path) && path.is_symlink()
    }

    /// Returns the link through which a pattern matches the file at `path`, or `path` itself if
    /// there is no such link.
    pub(super) fn included_name<'p>(&'p self, path: &'p Path) -> &'p Path {
        self.links.to(path).map_or(path, |link| &link.path)
    }

    /// Replaces the links that a walk found by the files to which they lead, and adds the folders
    /// of these files.
    pub(super) fn follow_links(&mut self, found: &mut Discovered) {
        if self.settings.symlinks == Symlinks::Never {
            return;
        }
        let include = &self.settings.include;
        let exclude = &self.settings.exclude;
        let links = std::mem::take(&mut found.links);
        let is_matched = |path: &Path| is_included(path, include, exclude);
        self.links = Links::follow(links, &mut found.files, is_matched);
        found.folders.extend(self.links.folders().iter().cloned());
    }

    /// Opens the content of a file if the path refers to this inode.
    pub(super) fn open_inode(&self, path: &Path, inode: Inode) -> Option<Content> {
        if rustix::fs::stat(path).ok().map(|stat| Inode::of(&stat)) != Some(inode) {
            return None;
        }
        let (file, stat) = open_regular(path, &self.settings.symlinks).ok()??;
        if Inode::of(&stat) != inode {
            return None;
        }
        Content::new(file, path).ok()
    }

    /// Returns whether the checkpoints of a file are durable.
    pub(super) fn is_committed(&self, id: OriginId) -> bool {
        self.open.ledger.owed(id).is_none_or(|owed| !owed.moved) && self.open.store.is_committed(id)
    }

    /// Creates the view that relates file names, given the known `generations`.
    pub(super) fn names<'a>(&'a self, generations: &'a Generations) -> Names<'a> {
        Names { scope: self, generations }
    }
}

/// Relates file paths to the included names from which they were rotated.
#[derive(Clone, Copy)]
pub(super) struct Names<'a> {
    scope: &'a Scope,
    generations: &'a Generations,
}

impl<'a> Names<'a> {
    /// Returns the included name of which a file may be a generation.
    pub(super) fn name_of(self, path: &Path) -> Option<PathBuf> {
        self.generations.name_of(path, |name| self.scope.is_included(name))
    }

    /// Returns the target of a link if the file at a path is that target, or a rotation of it.
    pub(super) fn linked_name(self, path: &Path) -> Option<PathBuf> {
        let links = &self.scope.links;
        if !links.is_beside_target(path) || self.scope.is_matched(path) {
            return None;
        }
        let is_target = links.to(path).is_some();
        let name = if is_target { Some(path.to_path_buf()) } else { self.name_of(path) };
        name.filter(|name| links.to(name).is_some())
    }

    /// Returns the link to the file at a path, or to the original if the path is a rotation.
    pub(super) fn link_beside(self, path: &Path) -> Option<&'a Link> {
        self.scope.links.to(&self.linked_name(path)?)
    }

    /// Opens a regular file according to the rules for symlinks, which also apply to the target of
    /// a link. Returns `None` if the path is something else.
    pub(super) fn open_file(self, path: &Path) -> io::Result<Option<(File, Stat)>> {
        let symlinks = &self.scope.settings.symlinks;
        match self.link_beside(path) {
            Some(link) => open_linked(path, link.owner, symlinks),
            None => open_regular(path, symlinks),
        }
    }

    /// Opens the file at a path, to compare it with other files.
    pub(super) fn candidate(self, path: &Path) -> Option<Candidate> {
        let (file, _) = self.open_file(path).ok()??;
        Candidate::of(path.to_path_buf(), Content::new(file, path).ok()?).ok()
    }
}
