//! Finds the copy of a truncated file.

use super::history::History;
use super::scope::Scope;
use super::tails::Tails;
use crate::copy_detection::{Candidate, may_be_rotation};
use crate::identity::Inode;
use crate::tail::Tail;
use millstream_model::OriginId;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The files among which to search for a copy.
#[derive(Clone, Copy)]
pub(super) struct CopySearch<'a> {
    pub scope: &'a Scope,
    pub files: &'a Tails,
    pub history: &'a History,
}

/// The copy of a truncated file.
pub(super) struct CopyFile {
    pub candidate: Candidate,
    /// The id of the copy, if it is open.
    pub id: Option<OriginId>,
}

/// A copy, and how much of its original it contains: the offset up to which it contains what was
/// read.
pub(super) struct PartialCopy {
    pub copy: CopyFile,
    part: u64,
}

impl CopySearch<'_> {
    /// Finds the copy of a truncated file among the open files and in its folder. If there are
    /// several copies, finds the copy that contains the most of what was read.
    pub(super) fn find_copy(self, id: OriginId) -> Option<CopyFile> {
        let read = self.files.get(id)?.fingerprinted();
        let mut best = self.open_copy(id);
        if best.as_ref().is_none_or(|best| best.part != read) {
            for path in self.rotated_names(id) {
                let Some(mut copy) = self.unread_copy(&path, id) else { continue };
                let part = self.files.get(id)?.read_part_in(&mut copy.candidate);
                let most = best.as_ref().map(|best| best.part);
                let Some(part) = part.filter(|part| most < Some(*part)) else { continue };
                if self.is_copy_of_deleted(id, part, &mut copy.candidate) {
                    continue;
                }
                best = Some(PartialCopy { copy, part });
                if part == read {
                    break;
                }
            }
        }
        best.map(|best| best.copy)
    }

    /// Returns the open copy that contains the most of what was read from a file. If several copies
    /// contain equally much, returns the longest one.
    pub(super) fn open_copy(self, id: OriginId) -> Option<PartialCopy> {
        let tail = self.files.get(id)?;
        let copies = self.files.iter().filter(|copy| copy.descriptor().copy_of == Some(id));
        let candidates = copies.filter_map(|copy| {
            let content = copy.open_content()?.duplicate();
            let mut candidate = Candidate::of(copy.path().to_path_buf(), content).ok()?;
            let mut part = 0;
            if !tail.is_unread() {
                part = tail.read_part_in(&mut candidate)?;
            }
            let bytes = candidate.content.bytes().ok()?;
            let copy = CopyFile { candidate, id: Some(copy.id()) };
            Some((bytes, PartialCopy { copy, part }))
        });
        let best = candidates.max_by_key(|(bytes, copy)| (copy.part, *bytes));
        best.map(|(_, copy)| copy)
    }

    /// Returns the paths in a file's folders that may be its rotations. The copy of a linked file
    /// may be next to the link.
    fn rotated_names(self, id: OriginId) -> BTreeSet<PathBuf> {
        let Some(tail) = self.files.get(id) else { return BTreeSet::new() };
        let folders = [tail.path(), Path::new(tail.name())].into_iter().filter_map(Path::parent);
        let names = folders.filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
        // Plain names sort first, because a compressed copy may be incomplete.
        let paths = names.flatten().map(|entry| entry.path());
        paths.filter(|path| may_be_rotation(tail.name(), tail.path(), path)).collect()
    }

    /// Returns the file at a path, unless it is known and is not a copy of `original`.
    fn unread_copy(self, path: &Path, original: OriginId) -> Option<CopyFile> {
        let names = self.scope.names(&self.history.records.generations);
        let candidate = names.candidate(path)?;
        if self.history.is_read(&candidate.stat) {
            return None;
        }
        let id = self.files.id_of(Inode::of(&candidate.stat));
        let is_free = |id: OriginId| {
            let tail = self.files.get(id);
            id != original && tail.is_some_and(|tail| tail.descriptor().copy_of == Some(original))
        };
        id.is_none_or(is_free).then_some(CopyFile { candidate, id })
    }

    /// Returns whether the candidate is rather the compressed form of a deleted file with the same
    /// beginning. This is so if it contains more than `part` bytes of what was read from that file;
    /// `part` is how much the candidate contains of the file `id`.
    fn is_copy_of_deleted(self, id: OriginId, part: u64, candidate: &mut Candidate) -> bool {
        let path = candidate.path.clone();
        let is_related = |other: &&Tail| {
            other.id() != id
                && other.fingerprinted() > part
                && may_be_rotation(other.name(), other.path(), &path)
        };
        // The status and the content are read last, and only for the few files with such names.
        let mut others = self.files.iter().filter(is_related);
        others.any(|other| other.is_deleted() && other.read_part_in(candidate) > Some(part))
    }
}
