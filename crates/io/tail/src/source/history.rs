//! The files that the source remembers but is not reading: recorded files, finished files,
//! truncated files whose copies may appear, and rotations.

use super::orphans::Orphans;
use super::rotations::{Rotations, rotated_names};
use super::tails::Tails;
use crate::content::{CompressedState, Content, modified_ns};
use crate::copy_detection::Candidate;
use crate::discover::Exclude;
use crate::finished::{FinishedFile, FinishedFiles};
use crate::folder_inodes::FolderInodes;
use crate::identity::{Descriptor, Inode};
use crate::records::{FileRecord, IdleRecord, Loaded, Records, forget};
use crate::tail::Tail;
use millstream_model::{Now, OriginId, SourceOpen};
use rustix::fs::Stat;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum number of vanished files whose records are kept because their folder is empty or on
/// another device, and may therefore not be mounted yet. Each record takes about 100 bytes.
const AWAY_MAX: usize = 10_000;

/// Maximum age of these files' last write. The records of older files are removed.
const AWAY_AGE_MAX: Duration = Duration::from_hours(30 * 24);

/// The files that the source remembers without reading them.
pub(super) struct History {
    /// Files from before the restart that have not been found yet, and closed files that may
    /// reappear under another name.
    pub records: Records,
    pub finished: FinishedFiles,
    pub orphans: Orphans,
    pub rotations: Rotations,
    /// Recorded files that the last search did not find.
    missing: BTreeSet<OriginId>,
    /// Files from before the restart that will be finished if they are unchanged.
    restored: Vec<IdleRecord>,
}

/// A rotated file, and the included name of which it may be a generation.
pub(super) struct NamedRotation {
    pub name: PathBuf,
    pub path: PathBuf,
}

/// A recorded file that no longer exists. Ordered by modification time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Vanished {
    modified_ns: i64,
    id: OriginId,
}

impl History {
    /// Creates the history from the records of the agent's last run.
    pub(super) fn new(loaded: Loaded) -> History {
        let Loaded { records, idle, .. } = loaded;
        History {
            rotations: Rotations::new(&records, &idle),
            records,
            finished: FinishedFiles::default(),
            orphans: Orphans::default(),
            missing: BTreeSet::new(),
            restored: idle,
        }
    }

    /// Takes the files from before the restart that will be finished if they are unchanged.
    pub(super) fn take_restored(&mut self) -> Vec<IdleRecord> {
        std::mem::take(&mut self.restored)
    }

    /// Returns files from before the restart to the history, for the next walk.
    pub(super) fn put_back_restored(&mut self, restored: Vec<IdleRecord>) {
        self.restored = restored;
    }

    /// Removes and returns a finished file; updates the metric.
    pub(super) fn take_finished(
        &mut self,
        inode: Inode,
        open: &SourceOpen,
    ) -> Option<FinishedFile> {
        let file = self.finished.remove(inode)?;
        open.counters.set_finished_files(self.finished.len() as u64);
        Some(file)
    }

    /// Stops counting the generation of a file that was finished and is no longer tracked.
    pub(super) fn release_generation(&mut self, file: &FinishedFile, descriptor: &Descriptor) {
        if file.is_generation {
            self.records.generations.release(descriptor);
        }
    }
}

// The times up to which generations are accounted for.
impl History {
    /// Returns the modification time, in nanoseconds since 1970, up to which all generations of a
    /// name are accounted for; at least 1.
    pub(super) fn since(&self, name: &Path) -> i64 {
        let finished = || self.finished.at(name).map(|(_, file)| file.since_ns);
        let generations = self.records.generations.since(name);
        let recorded = generations.or_else(finished).or_else(|| self.orphans.since(name));
        let recorded = recorded.filter(|since| *since > 0);
        let baseline = self.rotations.baseline(name);
        recorded.or(baseline).unwrap_or(self.rotations.newest_ns()).max(1)
    }

    /// Records the rotated files that exist when their names are first seen.
    pub(super) fn note_baselines(&mut self, rotations: &[NamedRotation]) {
        for NamedRotation { name, path } in rotations {
            let since = self.records.generations.since(name);
            let is_first_sight =
                since == Some(0) || since.is_none() && self.rotations.newest_ns() == 0;
            if is_first_sight && let Ok(stat) = rustix::fs::stat(path) {
                self.rotations.note_baseline(name.clone(), &stat);
            }
        }
    }

    /// Returns whether a rotated file is known to have no unread data, judged by its status.
    pub(super) fn is_known(&self, stat: &Stat) -> bool {
        let is_unchanged = |record: &FileRecord| {
            record.descriptor.device == stat.st_dev && record.descriptor.is_unchanged(stat)
        };
        self.rotations.is_examined(stat) || self.records.of_inode(stat.st_ino).any(is_unchanged)
    }

    /// Returns whether an unknown rotated file may have unread data. This is the case if the file
    /// is newer than everything accounted for under its name, or if a missing file may continue in
    /// it.
    pub(super) fn may_be_unread(
        &self,
        file: &NamedRotation,
        stat: &Stat,
        exclude: &Exclude,
    ) -> bool {
        self.is_young(&file.path, &file.name, stat, exclude)
            || !self.orphans.is_empty()
            || self.records.related(&file.path).any(|record| !record.descriptor.closed)
    }

    /// Returns whether a file is newer than everything accounted for under its name.
    pub(super) fn is_young(
        &self,
        path: &Path,
        name: &Path,
        stat: &Stat,
        exclude: &Exclude,
    ) -> bool {
        modified_ns(stat) > self.since(name) && !exclude.matches(path)
    }

    /// Returns whether a file's content has been read, judged by the file's status.
    pub(super) fn is_read(&self, stat: &Stat) -> bool {
        let inode = Inode::of(stat);
        let is_recorded = |record: &FileRecord| {
            record.descriptor.device == inode.device && record.descriptor.is_unchanged(stat)
        };
        self.finished.get(inode).is_some() || self.records.of_inode(inode.number).any(is_recorded)
    }
}

// Records.
impl History {
    /// Records a file that is not open. If its name has too many closed generations, removes the
    /// oldest one.
    pub(super) fn record(&mut self, record: FileRecord, open: &SourceOpen) {
        open.store.note(record.id, record.descriptor.to_bytes());
        let pruned = self.records.insert(record);
        forget(pruned.as_slice(), &*open.store, &open.info.id);
    }

    /// Records a file that was read to its end and closed, because the file may reappear,
    /// compressed or under another name.
    pub(super) fn record_closed(&mut self, mut tail: Tail, is_deleted: bool, open: &SourceOpen) {
        let id = tail.id();
        let head = tail.cursors().head();
        tail.fingerprint_end(head);
        tail.update_fingerprint();
        tail.note_modified();
        let mut descriptor = tail.into_descriptor();
        descriptor.closed = (descriptor.fingerprint.end == head || descriptor.in_copy)
            && descriptor.copy_of.is_none();
        if is_deleted {
            // Another file may reuse the inode number.
            descriptor.inode = 0;
            self.rotations.note_deleted(id);
        }
        let checkpoints = open.sinks.iter().map(|(_, sink)| (sink.clone(), head)).collect();
        self.record(FileRecord { id, checkpoints, descriptor }, open);
    }

    /// Removes records, both in memory and in the checkpoint store.
    fn forget(&mut self, gone: &[OriginId], open: &SourceOpen) {
        for id in gone {
            self.records.remove(*id);
        }
        forget(gone, &*open.store, &open.info.id);
    }

    /// Removes the records of deleted files that have no rotation.
    pub(super) fn forget_deleted(&mut self, open: &SourceOpen) {
        let deleted = self.rotations.take_deleted();
        let mut gone = Vec::new();
        let mut rotated: HashMap<PathBuf, Option<HashSet<PathBuf>>> = HashMap::new();
        for id in deleted {
            let Some(FileRecord { descriptor, .. }) = self.records.get(id) else { continue };
            let name = Path::new(descriptor.name());
            let Some(folder) = name.parent() else { continue };
            let names =
                rotated.entry(folder.to_path_buf()).or_insert_with(|| rotated_names(folder));
            if names.as_ref().is_some_and(|names| !descriptor.closed || !names.contains(name)) {
                gone.push(id);
            }
        }
        self.forget(&gone, open);
    }

    /// Removes and returns the record of a file with this content and status, if there is one.
    pub(super) fn take_record(&mut self, content: &mut Content, stat: &Stat) -> Option<FileRecord> {
        // The device number may differ after a reboot, so it is used only to order the candidates.
        // If several records match, the record with the most hashed bytes is the best evidence.
        let mut records: Vec<&FileRecord> = self.records.of_inode(stat.st_ino).collect();
        records.sort_by_key(|record| {
            let descriptor = &record.descriptor;
            (descriptor.device != stat.st_dev, Reverse(descriptor.hashed_bytes()))
        });
        let is_same = |record: &&&FileRecord| {
            record.descriptor.identifies(content, record.furthest()).unwrap_or(false)
        };
        let id = records.iter().find(is_same)?.id;
        self.records.remove(id)
    }

    /// If a rotated file is a closed generation without unsettled data, records the file's inode in
    /// the generation's record and returns `true`.
    pub(super) fn match_settled(
        &mut self,
        candidate: &mut Candidate,
        folder_inodes: &FolderInodes,
        open: &SourceOpen,
    ) -> bool {
        let path = candidate.path.clone();
        let is_settled = |record: &&FileRecord| {
            let descriptor = &record.descriptor;
            let is_settled_by = |sink: &str| record.settled_by(sink) >= descriptor.fingerprint.end;
            descriptor.closed
                && !folder_inodes.has(&path, descriptor.inode)
                && open.sinks.iter().all(|(_, sink)| is_settled_by(sink))
        };
        let mut settled = self.records.related(&path).filter(is_settled);
        let same = settled.find(|record| candidate.holds_all_of(&record.descriptor));
        let Some(id) = same.map(|record| record.id) else { return false };
        drop(settled);
        let Some(mut record) = self.records.remove(id) else { return false };
        let descriptor = &mut record.descriptor;
        descriptor.device = candidate.stat.st_dev;
        descriptor.inode = candidate.stat.st_ino;
        descriptor.modified_ns = modified_ns(&candidate.stat);
        let state = CompressedState::new(&candidate.stat, descriptor.fingerprint.end);
        descriptor.compressed = candidate.content.is_compressed().then_some(state);
        self.record(record, open);
        true
    }
}

// The search for recorded files.
impl History {
    /// Returns the folders of recorded files.
    pub(super) fn folders(&self) -> HashSet<PathBuf> {
        self.records.values().filter_map(|record| folder_of(&record.descriptor)).collect()
    }

    /// Removes records of files that two consecutive searches have not found, because a single
    /// search can miss a file that is renamed during the search. Returns whether every file was
    /// found, or its record was removed.
    pub(super) fn forget_missing(&mut self, search: &Search<'_>, open: &SourceOpen) -> bool {
        let missing = self.missing_records(search);
        let gone: Vec<OriginId> = missing.intersection(&self.missing).copied().collect();
        self.missing = missing.difference(&self.missing).copied().collect();
        self.forget(&gone, open);
        self.missing.is_empty()
    }

    /// Returns the ids of vanished files. Files whose whole folder is gone or unmounted, and closed
    /// generations that have rotations, do not count as vanished.
    fn missing_records(&self, search: &Search<'_>) -> BTreeSet<OriginId> {
        let mut gone = Vec::new();
        let mut away = Vec::new();
        for folder in self.folders() {
            let Ok(entries) = std::fs::read_dir(&folder) else { continue };
            let mut inodes: HashSet<u64> = entries.flatten().map(|entry| entry.ino()).collect();
            let device = rustix::fs::stat(&folder).ok().map(|stat| stat.st_dev);
            let is_empty = inodes.is_empty();
            // The record of a file that exists but cannot be opened now is kept, unless another
            // file has reused the inode.
            let new = search.new.iter().map(Tail::inode);
            for inode in new.chain(search.files.inodes()).chain(self.finished.inodes()) {
                inodes.remove(&inode.number);
            }
            let rotated = rotated_names(&folder).unwrap_or_default();
            for FileRecord { id, descriptor, .. } in self.records.values() {
                let is_rotated =
                    descriptor.closed && rotated.contains(Path::new(descriptor.name()));
                let is_kept = is_rotated || inodes.contains(&descriptor.inode);
                if folder_of(descriptor).as_ref() != Some(&folder) || is_kept {
                    continue;
                }
                let is_away = is_empty
                    || device != Some(descriptor.device) && !search.folders.contains(&folder);
                let list = if is_away { &mut away } else { &mut gone };
                list.push(Vanished { modified_ns: descriptor.modified_ns, id: *id });
            }
        }
        gone.extend(too_many_away(away, search.now.unix_ns));
        gone.into_iter().map(|vanished| vanished.id).collect()
    }
}

/// The result of a search for the recorded files.
pub(super) struct Search<'a> {
    /// Files that the walk has opened.
    pub new: &'a [Tail],
    /// The files being read.
    pub files: &'a Tails,
    /// Folders with files that the walk has recognized.
    pub folders: &'a HashSet<PathBuf>,
    pub now: Now,
}

/// Returns the vanished files whose records must be removed although their folder may be unmounted,
/// because they are too old or too many.
fn too_many_away(mut away: Vec<Vanished>, now_ns: i64) -> Vec<Vanished> {
    let oldest = now_ns.saturating_sub(AWAY_AGE_MAX.as_nanos() as i64);
    away.sort_unstable();
    let old = away.partition_point(|vanished| vanished.modified_ns < oldest);
    away.truncate(old.max(away.len().saturating_sub(AWAY_MAX)));
    away
}

/// Returns the folder of a generation's included name.
pub(super) fn folder_of(descriptor: &Descriptor) -> Option<PathBuf> {
    Path::new(descriptor.name()).parent().map(Path::to_path_buf)
}
