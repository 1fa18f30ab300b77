//! A kernel control group that limits a program's memory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folder of the control groups: the memory controller of version 1, or the only tree of version 2.
const VERSION_1: &str = "/sys/fs/cgroup/memory";
const VERSION_2: &str = "/sys/fs/cgroup";

/// A control group, removed on drop after its program has ended.
pub struct Group {
    folder: PathBuf,
    peak: &'static str,
}

impl Group {
    /// Creates a group with a limit.
    ///
    /// # Errors
    /// Returns an error if the process is not allowed to create a group.
    pub fn new(limit_bytes: u64) -> io::Result<Group> {
        let (parent, limit, peak) = match Path::new(VERSION_1).is_dir() {
            true => (VERSION_1, "memory.limit_in_bytes", "memory.max_usage_in_bytes"),
            false => (VERSION_2, "memory.max", "memory.peak"),
        };
        let folder = Path::new(parent).join(format!("millstream-bench-{}", std::process::id()));
        fs::create_dir(&folder)?;
        let group = Group { folder, peak };
        fs::write(group.folder.join(limit), limit_bytes.to_string())?;
        Ok(group)
    }

    /// Moves a process into the group, which counts the memory that the process takes after this
    /// call.
    pub fn add(&self, process: u32) -> io::Result<()> {
        fs::write(self.folder.join("cgroup.procs"), process.to_string())
    }

    /// Returns the peak memory of the group, including the page cache.
    pub fn peak_bytes(&self) -> io::Result<u64> {
        let text = fs::read_to_string(self.folder.join(self.peak))?;
        text.trim().parse().map_err(io::Error::other)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}
