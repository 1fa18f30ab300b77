//! Identifies the files at paths: open, recorded, finished, or unknown.

use super::adoption::{Adoption, OpenedFile};
use super::finishing::Finishing;
use super::history::{History, NamedRotation};
use super::identity::Identity;
use super::rotations::{RotatedFile, UnknownFile};
use super::scope::{Names, Scope};
use super::tails::Tails;
use super::walks::Walks;
use crate::content::{Content, modified_ns};
use crate::identity::Inode;
use crate::open::irregular;
use crate::records::FileRecord;
use crate::rotation_names::{is_compressed_name, originals_of};
use crate::tail::Tail;
use crate::watch::Watch;
use millstream_model::{OriginId, SourceCx};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::path::{Path, PathBuf};

/// The files that a walk or a name check has identified.
#[derive(Default)]
pub(super) struct Identified {
    /// Ids of files that are open already.
    pub seen: HashSet<OriginId>,
    /// Recorded files, opened to resume reading.
    pub new: Vec<Tail>,
    pub unknown: Vec<UnknownFile>,
    /// Inodes of the files in `new` and `unknown`.
    pub inodes: HashSet<Inode>,
}

/// The parts of the source that change when files are identified.
pub(super) struct Identification<'a> {
    pub scope: &'a Scope,
    pub files: &'a mut Tails,
    pub history: &'a mut History,
    pub walks: &'a mut Walks,
    pub watch: &'a mut Watch,
}

impl Identification<'_> {
    fn names(&self) -> Names<'_> {
        self.scope.names(&self.history.records.generations)
    }

    fn resume(&self, file: OpenedFile, record: FileRecord) -> Tail {
        Adoption { scope: self.scope, history: self.history }.resume(file, record)
    }

    fn finishing(&mut self) -> Finishing<'_> {
        Finishing {
            scope: self.scope,
            files: self.files,
            history: self.history,
            walks: self.walks,
            watch: self.watch,
        }
    }

    /// Identifies the files at these paths.
    pub(super) fn identify_all(
        &mut self,
        files: &BTreeSet<PathBuf>,
        unreadable: &mut BTreeMap<PathBuf, String>,
        cx: &SourceCx<'_>,
    ) -> Identified {
        let mut identified = Identified::default();
        let mut paths: Vec<&PathBuf> = files.iter().collect();
        if !self.scope.links.is_empty() {
            // Originals are sorted before their copies. A linked file is sorted by the name of the
            // link.
            paths.sort_by_cached_key(|path| self.scope.included_name(path).to_path_buf());
        }
        for path in paths {
            match self.identify(path, &identified, cx) {
                Ok(Identity::Open(id)) => {
                    identified.seen.insert(id);
                }
                Ok(Identity::Recorded(tail)) => {
                    identified.inodes.insert(tail.inode());
                    self.files.add_new(&mut identified.new, *tail);
                }
                Ok(Identity::Unknown(inode)) => {
                    identified.inodes.insert(inode);
                    identified.unknown.push(UnknownFile { path: path.clone(), inode, name: None });
                }
                Ok(Identity::Incomplete) => self.history.rotations.wait_for(path.clone()),
                Ok(Identity::Skipped) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    let name = self.scope.included_name(path).to_path_buf();
                    unreadable.insert(name, error.to_string());
                }
            }
        }
        identified
    }

    /// Identifies the file at a path. Does not reopen a file that is open already, or that this
    /// walk has `identified`.
    fn identify(
        &mut self,
        path: &Path,
        identified: &Identified,
        cx: &SourceCx<'_>,
    ) -> io::Result<Identity> {
        let stat = rustix::fs::stat(path)?;
        if self.finishing().see_finished(path, &stat, cx)? {
            return Ok(Identity::Skipped);
        }
        let inode = Inode::of(&stat);
        if let Some(id) = self.files.id_of(inode) {
            self.files.note_path(id, inode, path);
            return Ok(Identity::Open(id));
        }
        if identified.inodes.contains(&inode) {
            return Ok(Identity::Skipped);
        }
        self.files.make_room(identified.new.len());
        let Some((file, stat)) = self.names().open_file(path)? else {
            return not_regular(path);
        };
        let range = self.scope.settings.range.as_ref();
        if range.is_some_and(|range| !range.may_be_in(stat.st_mtime)) {
            return Ok(Identity::Skipped);
        }
        let mut content = Content::new(file, path)?;
        if let Some(record) = self.history.take_record(&mut content, &stat) {
            let file = OpenedFile { path: path.to_path_buf(), content, stat };
            return Ok(Identity::Recorded(Box::new(self.resume(file, record))));
        }
        // A compressed file, or the copy of another file, may still be empty.
        let is_empty = stat.st_size == 0 && (is_compressed_name(path) || has_original(path));
        let may_be_incomplete = (content.is_compressed() || is_empty) && !self.scope.is_finite(cx);
        if may_be_incomplete && !self.history.rotations.check_complete(inode, &stat, cx.now) {
            return Ok(Identity::Incomplete);
        }
        Ok(Identity::Unknown(inode))
    }
}

// Renamed files.
impl Identification<'_> {
    /// Searches the folders of recorded files for files that were renamed while the agent was down
    /// and no longer match a pattern. Their unread data is still delivered.
    pub(super) fn search_renamed(&mut self, identified: &mut Identified, cx: &SourceCx<'_>) {
        for folder in self.history.folders() {
            let Ok(entries) = std::fs::read_dir(&folder) else { continue };
            for path in entries.flatten().map(|entry| entry.path()) {
                if let Some(tail) = self.open_renamed(&path, &identified.inodes, cx) {
                    identified.inodes.insert(tail.inode());
                    self.files.add_new(&mut identified.new, tail);
                }
            }
        }
    }

    /// Opens the file at `path` if it is recorded under another name.
    fn open_renamed(
        &mut self,
        path: &Path,
        identified: &HashSet<Inode>,
        cx: &SourceCx<'_>,
    ) -> Option<Tail> {
        let stat = rustix::fs::lstat(path).ok()?;
        let inode = Inode::of(&stat);
        if self.files.id_of(inode).is_some() || identified.contains(&inode) {
            return None;
        }
        let may_be = |record: &FileRecord| !record.descriptor.is_unchanged(&stat);
        if !self.history.records.of_inode(inode.number).any(may_be) {
            return None;
        }
        let (file, stat) = self.names().open_file(path).ok()??;
        let mut content = Content::new(file, path).ok()?;
        let record = self.history.take_record(&mut content, &stat)?;
        log::debug!(
            "source {}: {} was renamed to {}",
            cx.info.id,
            record.descriptor.path,
            path.display()
        );
        let file = OpenedFile { path: path.to_path_buf(), content, stat };
        let mut tail = self.resume(file, record);
        tail.mark_gone(cx.now.since_start);
        Some(tail)
    }
}

// Rotated files.
impl Identification<'_> {
    /// Returns the files `beside` the included files that are rotated, have an unknown inode and
    /// may have unread data, oldest first. Recorded files are added to `identified`.
    pub(super) fn rotated(
        &mut self,
        beside: BTreeSet<PathBuf>,
        identified: &mut Identified,
        cx: &SourceCx<'_>,
    ) -> Vec<UnknownFile> {
        if self.scope.settings.range.is_some() {
            return Vec::new();
        }
        let names = self.names();
        let named = |path: PathBuf| Some(NamedRotation { name: names.name_of(&path)?, path });
        let rotations = beside.into_iter().filter_map(named);
        let rotations: Vec<NamedRotation> =
            rotations.filter(|file| !self.scope.is_matched_link(&file.path)).collect();
        if !self.walks.is_searched() {
            self.history.note_baselines(&rotations);
        }
        let mut candidates = self.may_be_unread(rotations, identified);
        candidates.sort();
        if self.history.rotations.defer_excess(&mut candidates) {
            self.walks.request_check();
        }
        let mut unknown = Vec::new();
        for file in candidates {
            unknown.extend(self.identify_rotated(file, identified, cx));
        }
        unknown
    }

    fn may_be_unread(
        &self,
        rotations: Vec<NamedRotation>,
        identified: &Identified,
    ) -> Vec<RotatedFile> {
        let exclude = &self.scope.settings.exclude;
        let has_copy = |tail: &Tail| tail.held().is_some_and(|file| file.part.is_some());
        // A rotated file may contain what the held copy of a deleted file lacks.
        let may_continue = self.files.iter().chain(&identified.new).any(has_copy);
        let mut candidates = Vec::new();
        for file in rotations {
            let Ok(stat) = rustix::fs::stat(&file.path) else { continue };
            if !identified.inodes.contains(&Inode::of(&stat))
                && !self.history.is_known(&stat)
                && (may_continue || self.history.may_be_unread(&file, &stat, exclude))
            {
                candidates.push(RotatedFile {
                    is_compressed: is_compressed_name(&file.path),
                    modified_ns: modified_ns(&stat),
                    name: file.name,
                    path: file.path,
                });
            }
        }
        candidates
    }

    /// Identifies a rotated file; returns it if its inode is unknown. A recorded file is added to
    /// `identified`.
    fn identify_rotated(
        &mut self,
        file: RotatedFile,
        identified: &mut Identified,
        cx: &SourceCx<'_>,
    ) -> Option<UnknownFile> {
        let RotatedFile { name, path, .. } = file;
        match self.identify(&path, identified, cx).ok()? {
            Identity::Recorded(mut tail) => {
                tail.mark_gone(cx.now.since_start);
                identified.inodes.insert(tail.inode());
                self.files.add_new(&mut identified.new, *tail);
                None
            }
            Identity::Unknown(inode) => {
                identified.inodes.insert(inode);
                Some(UnknownFile { path, inode, name: Some(name) })
            }
            Identity::Incomplete => {
                self.history.rotations.wait_for(path);
                None
            }
            Identity::Open(_) | Identity::Skipped => None,
        }
    }
}

/// Handles a path that is not a regular file: skips a folder, and rejects a FIFO, socket or device.
fn not_regular(path: &Path) -> io::Result<Identity> {
    let Some(kind) = irregular(path) else { return Ok(Identity::Skipped) };
    let error = format!("is a {kind}, not a regular file; exclude it, or narrow `include`");
    Err(io::Error::other(error))
}

/// Returns whether this file's name is a rotation name of another file in the folder.
fn has_original(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    originals_of(&name).iter().any(|original| path.with_file_name(original).exists())
}
