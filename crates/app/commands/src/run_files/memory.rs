//! Files of runs in `/dev/shm`, which are in memory and outlive their process.
//!
//! The data folder contains a link to the file, and the file contains the path of the link. A file
//! without a link cannot be found, so the next agent removes it. If the link is in a data folder
//! that no agent has used since, the next agent moves the file there.

use millstream_recorder::snapshot::Snapshot;
use rustix::fs::{OFlags, statfs};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Folder of POSIX shared memory on Linux.
const FOLDER: &str = "/dev/shm";

const PREFIX: &str = "millstream-";
const SUFFIX: &str = ".rings";

/// Minimum age of a file that is removed because its link is gone.
const ABANDONED_AFTER: Duration =
    if cfg!(test) { Duration::ZERO } else { Duration::from_secs(600) };

/// Minimum age of a file whose data folder is treated as unused.
const UNUSED_AFTER: Duration = if cfg!(test) { Duration::MAX } else { ABANDONED_AFTER };

/// Bytes of a header.
const HEADER_BYTES: usize = 4096;

/// Type of a file system in memory, as reported by `statfs`.
const TMPFS: i64 = 0x0102_1994;

/// Offset of the link path in a file, in the unused part of the header.
const LINK_AT: u64 = 2048;
const LINK_BYTES_MAX: usize = 2048;

/// Creates an empty file that no other user may read.
///
/// # Errors
///
/// Returns an error if there is no in-memory file system, or if the file cannot be created in it.
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

/// Writes the path of the link into a file in memory.
///
/// # Errors
///
/// Returns an error if the path is too long or a system call fails.
pub fn note_link(file: &File, link: &Path) -> io::Result<()> {
    let link = std::path::absolute(link)?;
    let bytes = link.as_os_str().as_bytes();
    if bytes.len() >= LINK_BYTES_MAX {
        return Err(io::ErrorKind::InvalidFilename.into());
    }
    file.write_all_at(bytes, LINK_AT)
}

/// Returns the file in memory that a link in the data folder refers to; `None` if the path is not
/// such a link.
pub fn target(link: &Path) -> Option<PathBuf> {
    fs::read_link(link).ok().filter(|target| is_ours(target))
}

fn is_ours(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    let is_named = |name: &str| name.starts_with(PREFIX) && name.ends_with(SUFFIX);
    path.parent() == Some(Path::new(FOLDER)) && name.is_some_and(is_named)
}

/// Opens a regular file for reading. A pipe with this name would block.
///
/// # Errors
///
/// Returns an error if the path is not a regular file or a system call fails.
pub fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = options.read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("not a file")),
    }
}

/// Returns the file that a link refers to, if its run has ended and the file contains the path of
/// this link. A link in a copied data folder refers to the file of another agent.
pub fn owned_target(link: &Path) -> Option<PathBuf> {
    let target = target(link)?;
    let file = open(&target).ok()?;
    let is_unlocked = file.try_lock_shared().is_ok();
    let noted = noted_link(&file);
    // If the file does not contain a path, its run failed immediately after it started.
    let is_this = noted.as_os_str().is_empty() || Some(noted) == std::path::absolute(link).ok();
    (is_unlocked && is_this).then_some(target)
}

fn noted_link(file: &File) -> PathBuf {
    let mut bytes = [0; LINK_BYTES_MAX];
    let read = file.read_at(&mut bytes, LINK_AT).unwrap_or(0);
    let end = bytes[..read].iter().position(|byte| *byte == 0).unwrap_or(read);
    PathBuf::from(OsStr::from_bytes(&bytes[..end]))
}

/// Removes the files of runs that have ended and whose link is gone, for example because the data
/// folder of a test or a removed agent was deleted.
pub fn remove_abandoned() {
    for path in files().filter(|path| is_abandoned(path)) {
        // A file of another user cannot be opened either.
        let _ = fs::remove_file(path);
    }
}

/// Returns the links to run files whose agent has been dead for some time and whose data folder no
/// agent has used since.
pub fn unused_links() -> Vec<PathBuf> {
    files().filter_map(|path| unused_link(&path, UNUSED_AFTER)).collect()
}

/// Returns the link of a file whose run died at least `age` ago.
pub fn unused_link(path: &Path, age: Duration) -> Option<PathBuf> {
    let file = open(path).ok()?;
    file.try_lock_shared().ok()?;
    let link = noted_link(&file);
    let is_linked = target(&link).as_deref() == Some(path);
    (is_linked && has_ended_for(&file, age)).then_some(link)
}

fn files() -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(FOLDER).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| is_ours(path))
}

fn is_abandoned(path: &Path) -> bool {
    let Ok(file) = open(path) else { return false };
    // The run of the file holds the lock.
    if file.try_lock_shared().is_err() {
        return false;
    }
    let is_linked = target(&noted_link(&file)).as_deref() == Some(path);
    // The link may be in a folder that this process cannot see.
    !is_linked && has_ended_for(&file, ABANDONED_AFTER)
}

fn has_ended_for(file: &File, age: Duration) -> bool {
    // A run that has just started has neither a lock nor a header.
    let lived = last_sign_of_life(file).or_else(|| file.metadata().ok()?.modified().ok());
    lived.is_some_and(|time| time.elapsed().is_ok_and(|elapsed| elapsed >= age))
}

/// Returns the last time when the run of a file was known to be alive; `None` if the file does not
/// contain it.
fn last_sign_of_life(file: &File) -> Option<SystemTime> {
    let mut header = [0; HEADER_BYTES];
    file.read_exact_at(&mut header, 0).ok()?;
    let header = Snapshot::parse(&header).ok()?;
    let unix_ns = header.clock().unix_ns(header.latest_ticks());
    Some(UNIX_EPOCH + Duration::from_nanos(unix_ns))
}
