//! Rotated files that match no pattern: generations that were created and then renamed or
//! compressed between two polls.
//!
//! Names select candidates; content decides. At a start, and after inotify events were lost, all
//! rotation names of included files in their folders are candidates; otherwise those that inotify
//! reports. A candidate with the content of a recorded generation continues under its id. A
//! candidate that is newer than everything accounted for under its name is new, and is read from
//! its beginning. See docs/decisions/0012.

use super::FileSource;
use super::identity::Identity;
use crate::content::{CompressedState, modified_ns};
use crate::copy_detection::Candidate;
use crate::discover::is_included;
use crate::folder_inodes::FolderInodes;
use crate::identity::{Descriptor, Inode};
use crate::links::Link;
use crate::open::{open_linked, open_regular};
use crate::records::{FileRecord, IdleRecord, Records, forget};
use crate::rotation_names::{is_compressed_name, originals_of};
use crate::stability::Stability;
use crate::tail::Tail;
use millstream_model::{Now, OriginId, OriginRecord, SourceCx};
use rustix::fs::Stat;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Maximum number of candidates of one name per walk; the next walk handles the others.
const CANDIDATES_MAX: usize = 64;

/// Maximum number of files recorded as read. Beyond it the records are cleared, and all files are
/// checked again.
const EXAMINED_MAX: usize = 10_000;

/// State of the search for unread rotated files.
#[derive(Default)]
pub(super) struct Rotations {
    /// Latest modification time of the files read at the last walk, in nanoseconds since 1970; 0 if
    /// none was. Rotated files of a new name that are older existed before and are not read.
    newest_ns: i64,
    /// Latest modification time of the rotated files that existed when a name was first seen, and
    /// what [`Rotations::note_since`] records.
    baselines: HashMap<PathBuf, i64>,
    /// Files without unread data, by size and modification time.
    examined: HashMap<Inode, (i64, i64)>,
    /// Sizes of compressed files that may still be incomplete.
    stability: Stability,
    /// Files to check again: incomplete compressed files, and candidates beyond the limit.
    incomplete: BTreeSet<PathBuf>,
    /// Folders watched since the last walk. They must be listed, as inotify reports no earlier
    /// changes.
    unlisted: BTreeSet<PathBuf>,
    /// Ids of closed records of deleted files, which may still have a rotation.
    deleted: Vec<OriginId>,
}

/// A file with an unknown inode.
pub(super) struct UnknownFile {
    pub path: PathBuf,
    pub inode: Inode,
    /// The included name of which it may be a generation, if its own name matches no pattern.
    pub name: Option<PathBuf>,
}

impl Rotations {
    /// Creates the state from the records of the last run.
    pub fn new(records: &Records, idle: &[IdleRecord]) -> Rotations {
        let recorded = records.values().map(|(_, descriptor)| descriptor.modified_ns);
        let newest_ns = recorded.chain(idle.iter().map(|record| record.modified_ns)).max();
        Rotations { newest_ns: newest_ns.unwrap_or(0), ..Rotations::default() }
    }

    /// Takes the list of files to check again.
    pub fn take_incomplete(&mut self) -> BTreeSet<PathBuf> {
        std::mem::take(&mut self.incomplete)
    }

    /// Requests a search for rotated files in a folder.
    pub fn list(&mut self, folders: Vec<PathBuf>) {
        self.unlisted.extend(folders);
    }

    /// Whether no file is incomplete.
    pub fn is_complete(&self) -> bool {
        self.incomplete.is_empty()
    }

    /// Whether a file is complete, judged by a stable size or an old modification time.
    pub fn check_complete(&mut self, inode: Inode, stat: &Stat, now: Now) -> bool {
        self.stability.observe(inode, stat, now)
    }

    /// Forgets the sizes of files that were not checked since the last call.
    pub fn sweep(&mut self) {
        self.stability.sweep();
    }

    /// Records, for the rest of this walk, the modification time up to which all generations of a
    /// name are accounted for, as the file with this descriptor is just adopted again.
    pub fn note_since(&mut self, descriptor: &Descriptor) {
        let since = self.baselines.entry(PathBuf::from(descriptor.name())).or_default();
        *since = (*since).max(descriptor.since_ns);
    }

    /// Makes the next walk check a file again.
    pub fn wait_for(&mut self, path: PathBuf) {
        self.incomplete.insert(path);
    }

    fn is_examined(&self, stat: &Stat) -> bool {
        self.examined.get(&Inode::of(stat)) == Some(&(stat.st_size, modified_ns(stat)))
    }

    /// Records that a file has no unread data as long as it is unchanged.
    pub fn note_examined(&mut self, stat: &Stat) {
        if self.examined.len() >= EXAMINED_MAX {
            self.examined.clear();
        }
        self.examined.insert(Inode::of(stat), (stat.st_size, modified_ns(stat)));
    }
}

impl FileSource {
    /// Returns those of the files `beside` the included ones that are rotated, have an unknown inode
    /// and may have unread data, oldest first. Recorded files are added to `new`.
    pub(super) fn rotated(
        &mut self,
        beside: BTreeSet<PathBuf>,
        identified: &mut HashSet<Inode>,
        new: &mut Vec<Tail>,
        cx: &SourceCx<'_>,
    ) -> Vec<UnknownFile> {
        if self.settings.range.is_some() {
            return Vec::new();
        }
        let named = |path: PathBuf| Some((self.name_of(&path)?, path));
        let paths = beside.into_iter().filter_map(named);
        let paths = paths.filter(|(_, path)| !self.is_matched_link(path));
        let paths: Vec<(PathBuf, PathBuf)> = paths.collect();
        if !self.walks.is_searched() {
            self.note_baselines(&paths);
        }
        let mut candidates = Vec::new();
        for (name, path) in paths {
            let Ok(stat) = rustix::fs::stat(&path) else { continue };
            if self.may_be_unread(&path, &name, &stat) && !identified.contains(&Inode::of(&stat)) {
                // Plain files sort before their compressed form.
                candidates.push((is_compressed_name(&path), modified_ns(&stat), name, path));
            }
        }
        candidates.sort();
        self.bound(&mut candidates);
        let paths = candidates.into_iter().map(|(_, _, name, path)| (name, path));
        paths
            .filter_map(|(name, path)| self.identify_candidate(name, path, identified, new, cx))
            .collect()
    }

    /// Returns the folders in which rotated files are searched now: those in which files were found or
    /// are recorded, until all have been searched, then those that are watched for the first time.
    pub(super) fn folders_to_list(&mut self, found: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
        let unlisted = std::mem::take(&mut self.rotations.unlisted);
        if self.walks.is_searched() {
            return unlisted;
        }
        let parents = found.iter().filter_map(|path| path.parent().map(Path::to_path_buf));
        parents.chain(self.folders_of_records()).collect()
    }

    /// Returns the included name of which a file may be a generation.
    pub(super) fn name_of(&self, path: &Path) -> Option<PathBuf> {
        self.records.generations.of(path, |name| self.is_included(name))
    }

    /// Whether a pattern matches a path, or a link that leads to it.
    pub(super) fn is_included(&self, path: &Path) -> bool {
        self.is_matched(path) || self.links.to(path).is_some()
    }

    /// Whether a pattern matches a path.
    pub(super) fn is_matched(&self, path: &Path) -> bool {
        is_included(path, &self.settings.include, &self.settings.exclude)
    }

    /// Whether a path is a symlink that a pattern matches: a walk follows it.
    pub(super) fn is_matched_link(&self, path: &Path) -> bool {
        self.is_matched(path) && path.is_symlink()
    }

    /// Returns the path itself, or the link by which a pattern matches the file.
    pub(super) fn included_name<'p>(&'p self, path: &'p Path) -> &'p Path {
        self.links.to(path).map_or(path, |link| &link.path)
    }

    /// Returns the target of a link if the file at a path is the target, or a rotation of it.
    pub(super) fn linked_name(&self, path: &Path) -> Option<PathBuf> {
        if !self.links.is_beside_target(path) || self.is_matched(path) {
            return None;
        }
        let is_target = self.links.to(path).is_some();
        let name = if is_target { Some(path.to_path_buf()) } else { self.name_of(path) };
        name.filter(|name| self.links.to(name).is_some())
    }

    /// Returns the link to the file at a path, or to the file of which that is a rotation.
    pub(super) fn link_beside(&self, path: &Path) -> Option<&Link> {
        self.links.to(&self.linked_name(path)?)
    }

    /// Opens a regular file by the rules for symlinks, which also hold for what is found through
    /// one; `None` if the path is something else.
    pub(super) fn open_file(&self, path: &Path) -> io::Result<Option<(File, Stat)>> {
        let symlinks = &self.settings.symlinks;
        match self.link_beside(path) {
            Some(link) => open_linked(path, link.owner, symlinks),
            None => open_regular(path, symlinks),
        }
    }

    /// Records the rotated files that exist when their names are first seen.
    fn note_baselines(&mut self, paths: &[(PathBuf, PathBuf)]) {
        for (name, path) in paths {
            let since = self.records.generations.since(name);
            let first_sight = since == Some(0) || since.is_none() && self.rotations.newest_ns == 0;
            if first_sight && let Ok(stat) = rustix::fs::stat(path) {
                let baseline = self.rotations.baselines.entry(name.clone()).or_default();
                *baseline = modified_ns(&stat).max(*baseline);
            }
        }
    }

    /// Returns the modification time up to which all generations of a name are accounted for; at
    /// least 1.
    pub(super) fn since(&self, name: &Path) -> i64 {
        let recorded = self
            .records
            .generations
            .since(name)
            .or_else(|| self.since_of_finished(name))
            .or_else(|| self.orphans.since(name));
        let recorded = recorded.filter(|since| *since > 0);
        let baseline = self.rotations.baselines.get(name).copied();
        recorded.or(baseline).unwrap_or(self.rotations.newest_ns).max(1)
    }

    /// Whether a rotated file may have unread data: it is newer than everything accounted for under
    /// its name, or a missing file may continue in it.
    fn may_be_unread(&self, path: &Path, name: &Path, stat: &Stat) -> bool {
        let unchanged = |(_, descriptor): &FileRecord| {
            descriptor.device == stat.st_dev && descriptor.is_unchanged(stat)
        };
        if self.rotations.is_examined(stat) || self.records.of_inode(stat.st_ino).any(unchanged) {
            return false;
        }
        let is_missing = |(_, descriptor): &FileRecord| !descriptor.closed;
        self.is_young(path, name, stat)
            || !self.orphans.is_empty()
            || self.records.related(path).any(is_missing)
    }

    /// Whether a file is newer than everything accounted for under its name.
    pub(super) fn is_young(&self, path: &Path, name: &Path, stat: &Stat) -> bool {
        modified_ns(stat) > self.since(name) && !self.settings.exclude.matches(path)
    }

    /// Defers candidates beyond the limit per name to the next walk.
    fn bound(&mut self, candidates: &mut Vec<(bool, i64, PathBuf, PathBuf)>) {
        let mut counts: HashMap<PathBuf, usize> = HashMap::new();
        let rest = candidates.extract_if(.., |(_, _, name, _)| {
            let count = counts.entry(name.clone()).or_default();
            *count += 1;
            *count > CANDIDATES_MAX
        });
        let rest: Vec<PathBuf> = rest.map(|(_, _, _, path)| path).collect();
        if !rest.is_empty() {
            self.walks.request_check();
        }
        self.rotations.incomplete.extend(rest);
    }

    /// Identifies a candidate; a recorded file is added to `new`.
    fn identify_candidate(
        &mut self,
        name: PathBuf,
        path: PathBuf,
        identified: &mut HashSet<Inode>,
        new: &mut Vec<Tail>,
        cx: &SourceCx<'_>,
    ) -> Option<UnknownFile> {
        match self.identify(&path, new.len(), identified, cx).ok()? {
            Identity::Recorded(mut tail) => {
                tail.mark_gone(cx.now.since_start);
                identified.insert(tail.inode());
                self.add_new(new, *tail);
                None
            }
            Identity::Unknown(inode) => {
                identified.insert(inode);
                Some(UnknownFile { path, inode, name: Some(name) })
            }
            Identity::Incomplete => {
                self.rotations.incomplete.insert(path);
                None
            }
            Identity::Open(_) | Identity::Skipped => None,
        }
    }

    /// Checks whether a rotated file is a closed generation without unsettled data; if so, records
    /// its inode. Returns whether it is.
    pub(super) fn match_settled(
        &mut self,
        candidate: &mut Candidate,
        folder_inodes: &FolderInodes,
    ) -> bool {
        let path = candidate.path.clone();
        let is_settled = |(record, descriptor): &&FileRecord| {
            let checkpoint = |sink: &String| record.checkpoints.iter().find(|(id, _)| id == sink);
            let checkpoint =
                |sink: &String| checkpoint(sink).map_or(descriptor.start, |(_, offset)| *offset);
            descriptor.closed
                && !folder_inodes.has(&path, descriptor.inode)
                && self
                    .open
                    .sinks
                    .iter()
                    .all(|(_, sink)| checkpoint(sink) >= descriptor.fingerprint.end)
        };
        let found = {
            let mut related = self.records.related(&path).filter(is_settled);
            related
                .find(|(_, descriptor)| candidate.holds_all_of(descriptor))
                .map(|(record, _)| record.id)
        };
        let Some(id) = found else { return false };
        let Some((record, mut descriptor)) = self.records.remove(id) else { return false };
        (descriptor.device, descriptor.inode) = (candidate.stat.st_dev, candidate.stat.st_ino);
        descriptor.modified_ns = modified_ns(&candidate.stat);
        let state = CompressedState::new(&candidate.stat, descriptor.fingerprint.end);
        descriptor.compressed = candidate.content.is_compressed().then_some(state);
        self.record(record, descriptor);
        true
    }

    /// Records a file that is not open. If its name has too many closed generations, removes the
    /// oldest.
    pub(super) fn record(&mut self, record: OriginRecord, descriptor: Descriptor) {
        self.open.store.note(record.id, descriptor.to_bytes());
        let pruned = self.records.insert(record, descriptor);
        forget(pruned.as_slice(), &*self.open.store, &self.open.info.id);
    }

    /// Records a file that was read to its end and closed, as it may reappear under another name or
    /// compressed.
    pub(super) fn record_closed(&mut self, mut tail: Tail, deleted: bool) {
        let (id, head) = (tail.id(), tail.cursors().head());
        tail.fingerprint_end(head);
        tail.update_fingerprint();
        tail.note_modified();
        let mut descriptor = tail.into_descriptor();
        descriptor.closed = (descriptor.fingerprint.end == head || descriptor.in_copy)
            && descriptor.copy_of.is_none();
        if deleted {
            // Another file may reuse the inode number.
            descriptor.inode = 0;
            self.rotations.deleted.push(id);
        }
        let checkpoints = self.open.sinks.iter().map(|(_, sink)| (sink.clone(), head)).collect();
        self.record(OriginRecord { id, descriptor: Vec::new(), checkpoints }, descriptor);
    }

    /// Removes records of deleted files without a rotation.
    pub(super) fn forget_deleted(&mut self, cx: &SourceCx<'_>) {
        let deleted = std::mem::take(&mut self.rotations.deleted);
        let mut gone = Vec::new();
        let mut rotated: HashMap<PathBuf, Option<HashSet<PathBuf>>> = HashMap::new();
        for id in deleted {
            let Some((_, descriptor)) = self.records.get(id) else { continue };
            let name = Path::new(descriptor.name());
            let Some(folder) = name.parent() else { continue };
            let names =
                rotated.entry(folder.to_path_buf()).or_insert_with(|| rotated_names(folder));
            if names.as_ref().is_some_and(|names| !descriptor.closed || !names.contains(name)) {
                gone.push(id);
            }
        }
        self.forget_records(&gone, cx);
    }

    pub(super) fn forget_records(&mut self, gone: &[OriginId], cx: &SourceCx<'_>) {
        gone.iter().for_each(|id| drop(self.records.remove(*id)));
        forget(gone, &*self.open.store, &cx.info.id);
    }

    /// Updates the latest modification time of the files being read.
    pub(super) fn note_newest(&mut self) {
        let newest = self.files.iter().map(|tail| tail.descriptor().modified_ns).max();
        self.rotations.newest_ns = newest.unwrap_or(0).max(self.rotations.newest_ns).max(1);
        self.rotations.baselines.clear();
    }
}

/// Returns the names that have rotations in a folder; `None` if it cannot be read.
pub(super) fn rotated_names(folder: &Path) -> Option<HashSet<PathBuf>> {
    let names = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.file_name());
    let originals = names.flat_map(|name| originals_of(&name.to_string_lossy()));
    Some(originals.map(|name| folder.join(name)).collect())
}
