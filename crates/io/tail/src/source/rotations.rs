//! Rotated files that match no pattern: generations that were created and then renamed or
//! compressed between two polls.
//!
//! Names only select the candidates; content decides. At the start, and after inotify events were
//! lost, all rotation names of included files in their folders are candidates; otherwise only those
//! that inotify reports. A candidate with the content of a recorded generation continues under that
//! generation's id. A candidate that is newer than everything accounted for under its name is new,
//! and is read from its beginning. See docs/decisions/0012.

use crate::content::modified_ns;
use crate::identity::{Descriptor, Inode};
use crate::records::{IdleRecord, Records};
use crate::rotation_names::originals_of;
use crate::stability::Stability;
use millstream_model::{Now, OriginId};
use rustix::fs::Stat;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Maximum number of candidates per name and walk; the next walk handles additional candidates.
const CANDIDATES_MAX: usize = 64;

/// Maximum number of files recorded as read. Beyond this number, the records are cleared, and all
/// files are checked again.
const EXAMINED_MAX: usize = 10_000;

/// State of the search for unread rotated files.
#[derive(Default)]
pub(super) struct Rotations {
    /// Latest modification time among the files read at the last walk, in nanoseconds since 1970; 0
    /// if no file was read. If a new name has rotated files that are older than this, they are not
    /// read, because they existed before.
    newest_ns: i64,
    /// Latest modification time among the rotated files that existed when a name was first seen,
    /// and the times that [`Rotations::note_since`] records.
    baselines: HashMap<PathBuf, i64>,
    /// Files known to have no unread data, with their size and modification time.
    examined: HashMap<Inode, (i64, i64)>,
    /// Sizes of compressed files that may still be incomplete.
    stability: Stability,
    /// Files to check again: incomplete compressed files, and candidates beyond the limit.
    incomplete: BTreeSet<PathBuf>,
    /// Folders that became watched since the last walk. They must be listed, because inotify
    /// reports no earlier changes.
    unlisted: BTreeSet<PathBuf>,
    /// Ids of closed files that were deleted, and that may still have a rotation.
    deleted: Vec<OriginId>,
}

/// A file that may be an unread generation. Candidates are examined in this order: plain files
/// before compressed ones, then oldest first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RotatedFile {
    pub is_compressed: bool,
    pub modified_ns: i64,
    pub name: PathBuf,
    pub path: PathBuf,
}

/// A file with an unknown inode.
pub(super) struct UnknownFile {
    pub path: PathBuf,
    pub inode: Inode,
    /// The included name of which the file may be a generation, if the path matches no pattern.
    pub name: Option<PathBuf>,
}

impl Rotations {
    /// Creates the state from the records of the agent's last run.
    pub fn new(records: &Records, idle: &[IdleRecord]) -> Rotations {
        let recorded = records.values().map(|record| record.descriptor.modified_ns);
        let newest_ns = recorded.chain(idle.iter().map(|record| record.modified_ns)).max();
        Rotations { newest_ns: newest_ns.unwrap_or(0), ..Rotations::default() }
    }

    /// Takes the list of files to check again.
    pub fn take_incomplete(&mut self) -> BTreeSet<PathBuf> {
        std::mem::take(&mut self.incomplete)
    }

    /// Returns whether no file is incomplete.
    pub fn is_complete(&self) -> bool {
        self.incomplete.is_empty()
    }

    /// Makes the next walk check a file again.
    pub fn wait_for(&mut self, path: PathBuf) {
        self.incomplete.insert(path);
    }

    /// Defers candidates beyond the limit per name to the next walk; returns whether there are any.
    pub fn defer_excess(&mut self, candidates: &mut Vec<RotatedFile>) -> bool {
        let mut counts: HashMap<PathBuf, usize> = HashMap::new();
        let excess = candidates.extract_if(.., |file| {
            let count = counts.entry(file.name.clone()).or_default();
            *count += 1;
            *count > CANDIDATES_MAX
        });
        let excess: Vec<PathBuf> = excess.map(|file| file.path).collect();
        let is_deferred = !excess.is_empty();
        self.incomplete.extend(excess);
        is_deferred
    }

    /// Requests a search for rotated files in these folders.
    pub fn list(&mut self, folders: Vec<PathBuf>) {
        self.unlisted.extend(folders);
    }

    /// Takes the list of folders to search.
    pub fn take_unlisted(&mut self) -> BTreeSet<PathBuf> {
        std::mem::take(&mut self.unlisted)
    }

    /// Returns whether a file is complete, judged by a stable size or an old modification time.
    pub fn check_complete(&mut self, inode: Inode, stat: &Stat, now: Now) -> bool {
        self.stability.observe(inode, stat, now)
    }

    /// Forgets the sizes of files that were not checked since the last call.
    pub fn sweep(&mut self) {
        self.stability.sweep();
    }

    /// Records, for the rest of this walk, the modification time up to which all generations of a
    /// name are accounted for, because the file with this descriptor is being adopted again.
    pub fn note_since(&mut self, descriptor: &Descriptor) {
        let since = self.baselines.entry(PathBuf::from(descriptor.name())).or_default();
        *since = (*since).max(descriptor.since_ns);
    }

    /// Records that a rotated file existed when its name was first seen.
    pub fn note_baseline(&mut self, name: PathBuf, stat: &Stat) {
        let baseline = self.baselines.entry(name).or_default();
        *baseline = modified_ns(stat).max(*baseline);
    }

    /// Returns the latest modification time, in nanoseconds since 1970, among the rotated files
    /// that existed when a name was first seen.
    pub fn baseline(&self, name: &Path) -> Option<i64> {
        self.baselines.get(name).copied()
    }

    /// Returns the latest modification time among the files read at the last walk, in nanoseconds
    /// since 1970; 0 if no file was read.
    pub fn newest_ns(&self) -> i64 {
        self.newest_ns
    }

    /// Ends a walk. `newest_ns` is the latest modification time of the files being read.
    pub fn end_walk(&mut self, newest_ns: Option<i64>) {
        self.newest_ns = newest_ns.unwrap_or(0).max(self.newest_ns).max(1);
        self.baselines.clear();
    }

    /// Returns whether a file was found to have no unread data, and has not changed since.
    pub fn is_examined(&self, stat: &Stat) -> bool {
        self.examined.get(&Inode::of(stat)) == Some(&(stat.st_size, modified_ns(stat)))
    }

    /// Records that a file has no unread data as long as it is unchanged.
    pub fn note_examined(&mut self, stat: &Stat) {
        if self.examined.len() >= EXAMINED_MAX {
            self.examined.clear();
        }
        self.examined.insert(Inode::of(stat), (stat.st_size, modified_ns(stat)));
    }

    /// Records that a closed file was deleted, and may still have a rotation.
    pub fn note_deleted(&mut self, id: OriginId) {
        self.deleted.push(id);
    }

    /// Takes the ids of the files that were deleted since the last call.
    pub fn take_deleted(&mut self) -> Vec<OriginId> {
        std::mem::take(&mut self.deleted)
    }
}

/// Returns the names that have rotations in a folder; `None` if the folder cannot be read.
pub(super) fn rotated_names(folder: &Path) -> Option<HashSet<PathBuf>> {
    let names = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.file_name());
    let originals = names.flat_map(|name| originals_of(&name.to_string_lossy()));
    Some(originals.map(|name| folder.join(name)).collect())
}
