//! Finished files: read to their end, settled and quiet. Memory contains only the data needed to
//! detect changes; the identity and checkpoints of each file are in the checkpoint store.
//!
//! A file that grows, is renamed or was replaced is loaded from the store and tracked like any
//! other file.

use crate::content::modified_ns;
use crate::copy_detection::may_be_rotation;
use crate::identity::Inode;
use crate::rotation_names::stem;
use millstream_model::OriginId;
use rustix::fs::Stat;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Bytes per file in addition to its paths: the entries in two maps, with their free slots.
const ENTRY_BYTES: usize = 240;

/// The data about a finished file that stays in memory.
#[derive(Clone, Debug)]
pub struct FinishedFile {
    /// Id of the file.
    pub id: OriginId,
    /// Path where the file was last seen.
    pub path: Box<Path>,
    /// The path where the file was first seen, if the path has changed.
    pub first_path: Option<Box<str>>,
    /// Whether the file has a single name, so that deleting the name deletes the file.
    pub is_single: bool,
    /// Whether the file's generation is still counted, because the file is a rotation of another
    /// name.
    pub is_generation: bool,
    /// Modification time up to which other generations of its name are accounted for, in
    /// nanoseconds since 1970.
    pub since_ns: i64,
    /// Whether a write was reported that has not been read.
    pub is_written: bool,
    state: State,
    /// Number of the walk that last saw the file.
    seen: u32,
}

/// Size in bytes, and modification time in nanoseconds since 1970.
type State = (i64, i64);

impl FinishedFile {
    /// Creates the entry for a file with this status.
    pub fn new(id: OriginId, path: &Path, stat: &Stat) -> FinishedFile {
        FinishedFile {
            id,
            path: path.into(),
            first_path: None,
            is_single: stat.st_nlink == 1,
            is_generation: false,
            since_ns: 0,
            is_written: false,
            state: state_of(stat),
            seen: 0,
        }
    }

    fn path_bytes(&self) -> usize {
        self.path.as_os_str().len() + self.first_path.as_ref().map_or(0, |path| path.len())
    }

    fn may_be_rotated_to(&self, other: &Path) -> bool {
        let first = self.first_path.as_deref().map(Path::new).unwrap_or(&self.path);
        may_be_rotation(&first.to_string_lossy(), &self.path, other)
    }
}

fn state_of(stat: &Stat) -> State {
    (stat.st_size, modified_ns(stat))
}

/// A source's finished files, by inode and by path.
#[derive(Default)]
pub struct FinishedFiles {
    files: HashMap<Inode, FinishedFile>,
    /// Inodes by the hash of the path.
    by_path: HashMap<u64, Inode>,
    path_bytes: usize,
    /// Number of the last walk.
    walk: u32,
}

impl FinishedFiles {
    /// Returns whether there are no files.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns the number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Returns the memory that the files take, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.files.len() * ENTRY_BYTES + self.path_bytes
    }

    /// Returns the files, in any order.
    pub fn iter(&self) -> impl Iterator<Item = &FinishedFile> {
        self.files.values()
    }

    /// Returns the files' inodes, in any order.
    pub fn inodes(&self) -> impl Iterator<Item = Inode> {
        self.files.keys().copied()
    }

    /// Returns the file with this inode.
    pub fn get(&self, inode: Inode) -> Option<&FinishedFile> {
        self.files.get(&inode)
    }

    /// Returns the inode and the file that was last seen at a path.
    pub fn at(&self, path: &Path) -> Option<(Inode, &FinishedFile)> {
        let inode = *self.by_path.get(&hash(path))?;
        let file = self.files.get(&inode).filter(|file| *file.path == *path)?;
        Some((inode, file))
    }

    /// Returns the inodes of the files with these ids.
    pub fn inodes_of(&self, ids: &HashSet<OriginId>) -> Vec<Inode> {
        let files = self.files.iter().filter(|(_, file)| ids.contains(&file.id));
        files.map(|(inode, _)| *inode).collect()
    }

    /// Adds a file.
    pub fn insert(&mut self, inode: Inode, mut file: FinishedFile) {
        file.seen = self.walk;
        self.path_bytes += file.path_bytes();
        self.by_path.insert(hash(&file.path), inode);
        self.files.insert(inode, file);
    }

    /// Removes and returns a file.
    pub fn remove(&mut self, inode: Inode) -> Option<FinishedFile> {
        let file = self.files.remove(&inode)?;
        self.path_bytes -= file.path_bytes();
        let key = hash(&file.path);
        // Another file may have replaced this file at its path.
        if self.by_path.get(&key) == Some(&inode) {
            self.by_path.remove(&key);
        }
        Some(file)
    }

    /// Records that this walk saw a file with this status at a path; returns whether the file is
    /// finished and was not written to.
    pub fn see(&mut self, path: &Path, stat: &Stat) -> bool {
        let Some(file) = self.files.get_mut(&Inode::of(stat)) else { return false };
        if file.state != state_of(stat) || *file.path != *path {
            return false;
        }
        file.seen = self.walk;
        file.is_single = stat.st_nlink == 1;
        true
    }

    /// Records that a write to a file was reported and cannot be read now.
    pub fn note_written(&mut self, inode: Inode) {
        if let Some(file) = self.files.get_mut(&inode) {
            file.is_written = true;
        }
    }

    /// Starts a walk.
    pub fn begin_walk(&mut self) {
        self.walk = self.walk.wrapping_add(1);
    }

    /// Returns the inodes of files that the last walk did not see, except those in folders that
    /// could not be read.
    pub fn unseen(&self, unreadable: &BTreeMap<PathBuf, String>) -> Vec<Inode> {
        let is_unreadable = |path: &Path| {
            !unreadable.is_empty() && path.ancestors().any(|folder| unreadable.contains_key(folder))
        };
        let unseen = self.files.iter().filter(|(_, file)| file.seen != self.walk);
        unseen.filter(|(_, file)| !is_unreadable(&file.path)).map(|(inode, _)| *inode).collect()
    }

    /// Makes the next walk load every file.
    pub fn forget_states(&mut self) {
        for file in self.files.values_mut() {
            file.state = (-1, 0);
        }
    }

    /// Returns the inodes of files that may have a rotation or a copy among the paths.
    pub fn originals_of<'p>(&self, paths: impl Iterator<Item = &'p Path>) -> Vec<Inode> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut by_stem: HashMap<String, Vec<&Path>> = HashMap::new();
        for path in paths {
            let name = name_of(path);
            for (end, _) in name.match_indices(['.', '-', '_']) {
                by_stem.entry(name[..end].to_owned()).or_default().push(path);
            }
        }
        let is_original = |file: &FinishedFile, name: &str| {
            let paths = by_stem.get(stem(name));
            paths.is_some_and(|paths| paths.iter().any(|path| file.may_be_rotated_to(path)))
        };
        let originals = self.files.iter().filter(|(_, file)| {
            let first = file.first_path.as_deref().map(Path::new);
            let mut names = [Some(&*file.path), first].into_iter().flatten().map(name_of);
            names.any(|name| is_original(file, &name))
        });
        originals.map(|(inode, _)| *inode).collect()
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn hash(path: &Path) -> u64 {
    xxhash_rust::xxh3::xxh3_64(path.as_os_str().as_encoded_bytes())
}
