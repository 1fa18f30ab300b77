//! Files of runs in `/dev/shm`, which are in memory and outlive their process.
//!
//! The data folder has a link to the file, and the file has the path of the link. Without its link a
//! file cannot be found, and the next agent removes it.

use rustix::fs::statfs;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Where POSIX shared memory is on Linux.
const FOLDER: &str = "/dev/shm";

const PREFIX: &str = "millstream-";
const SUFFIX: &str = ".rings";

/// Type of a file system in memory, as `statfs` tells it.
const TMPFS: i64 = 0x0102_1994;

/// Where a file has the path of its link: in the unused part of its header.
const LINK_AT: u64 = 2048;
const LINK_BYTES_MAX: usize = 2048;

/// Creates an empty file, which no other user may read.
///
/// # Errors
///
/// There is no file system in memory, or it refuses the file.
pub fn create(start: &str) -> io::Result<(PathBuf, File)> {
    if statfs(FOLDER)?.f_type != TMPFS {
        return Err(io::Error::other(format!("{FOLDER} is not in memory")));
    }
    let name = format!("{PREFIX}{}-{start}{SUFFIX}", std::process::id());
    let path = Path::new(FOLDER).join(name);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    let file = options.open(&path)?;
    Ok((path, file))
}

/// Writes the path of its link into a file.
///
/// # Errors
///
/// The path is too long, or those of the system.
pub fn note_link(file: &File, link: &Path) -> io::Result<()> {
    let link = std::path::absolute(link)?;
    let bytes = link.as_os_str().as_bytes();
    if bytes.len() >= LINK_BYTES_MAX {
        return Err(io::ErrorKind::InvalidFilename.into());
    }
    file.write_all_at(bytes, LINK_AT)
}

/// Returns the file that a link of the data folder leads to, if it is one of these.
pub fn target(link: &Path) -> Option<PathBuf> {
    fs::read_link(link).ok().filter(|target| is_ours(target))
}

fn is_ours(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    let is_named = |name: &str| name.starts_with(PREFIX) && name.ends_with(SUFFIX);
    path.parent() == Some(Path::new(FOLDER)) && name.is_some_and(is_named)
}

/// Removes the files of runs that have ended and whose link is gone, with the data folder of a test or
/// of an agent that was removed.
pub fn remove_abandoned() {
    let entries = fs::read_dir(FOLDER).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path()).filter(|path| is_ours(path));
    for path in paths.filter(|path| is_abandoned(path)) {
        // That of another user cannot be opened, either.
        let _ = fs::remove_file(path);
    }
}

fn is_abandoned(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    // Its run holds the lock.
    if file.try_lock_shared().is_err() {
        return false;
    }
    let mut bytes = [0; LINK_BYTES_MAX];
    let read = file.read_at(&mut bytes, LINK_AT).unwrap_or(0);
    let end = bytes[..read].iter().position(|byte| *byte == 0).unwrap_or(read);
    let link = Path::new(OsStr::from_bytes(&bytes[..end]));
    target(link).as_deref() != Some(path)
}
