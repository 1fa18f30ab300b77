//! Caches the inode numbers of the files in folders.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

/// Inode numbers by folder; each folder is listed on first use.
#[derive(Default)]
pub struct FolderInodes(RefCell<HashMap<PathBuf, HashSet<u64>>>);

impl FolderInodes {
    /// Returns whether the folder of `path` contains a file with this inode number; always false
    /// for 0.
    pub fn has(&self, path: &Path, inode: u64) -> bool {
        let list = |folder: &PathBuf| {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.ino()).collect()
        };
        let folder = path.parent().unwrap_or(path).to_path_buf();
        inode != 0 && self.0.borrow_mut().entry(folder).or_insert_with_key(list).contains(&inode)
    }
}
