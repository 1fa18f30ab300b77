//! Opens files: only regular files, and only through symlinks that are allowed.

use rustix::fs::{FileType, OFlags, Stat, Uid, fstat, lstat};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Folders for container logs, whose symlinks the container runtime creates.
const CONTAINER_ROOTS: &[&str] =
    &["/var/log/pods", "/var/log/containers", "/var/lib/docker/containers"];

/// File descriptors reserved for sinks, the store, connections and folders.
const OPEN_RESERVE: usize = 128;

/// Returns how many files one source may have open: the process limit minus a reserve for other
/// parts of the agent, but at least half of the limit.
pub fn open_max() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    limit.saturating_sub(OPEN_RESERVE).max(limit / 2)
}

/// Which symlinks to files are followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Symlinks {
    /// Symlinks to files that belong to the link's owner, and into the folders for container logs.
    #[default]
    SameOwner,
    /// No symlinks.
    Never,
    /// Symlinks to files in these folders, at any depth.
    Allow(Vec<PathBuf>),
}

/// Opens a regular file; `None` if the path is something else.
///
/// Checks the opened file instead of the path, so that a file that is swapped in meanwhile cannot
/// evade the checks.
///
/// # Errors
/// Returns an error if the file cannot be opened, or is reached through a symlink that `links` does
/// not allow.
pub fn open_regular(path: &Path, links: &Symlinks) -> io::Result<Option<(File, Stat)>> {
    // Opening a FIFO would unblock a writer that is waiting for a reader. A FIFO that is swapped in
    // after this check is detected below.
    if !FileType::from_raw_mode(rustix::fs::stat(path)?.st_mode).is_file() {
        return Ok(None);
    }
    let (file, link) = match open(path, OFlags::NOFOLLOW) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            (open(path, OFlags::empty())?, Some(lstat(path)?))
        }
        opened => (opened?, None),
    };
    let stat = fstat(&file)?;
    if !FileType::from_raw_mode(stat.st_mode).is_file() {
        return Ok(None);
    }
    if link.is_some_and(|link| !links.allows(Uid::from_raw(link.st_uid), &stat, &file)) {
        return Err(not_followed());
    }
    Ok(Some((file, stat)))
}

/// Opens a regular file that is the target of a symlink with this `owner`, or a rotation of such a
/// file, without following additional symlinks. Returns `None` if the path is something else.
///
/// # Errors
/// Returns an error if the file cannot be opened, or if `links` does not allow a symlink to it.
pub fn open_linked(path: &Path, owner: Uid, links: &Symlinks) -> io::Result<Option<(File, Stat)>> {
    let Some((file, stat)) = open_regular(path, &Symlinks::Never)? else { return Ok(None) };
    if !links.allows(owner, &stat, &file) {
        return Err(not_followed());
    }
    Ok(Some((file, stat)))
}

fn not_followed() -> io::Error {
    io::Error::other(
        "is a symlink, which the source does not follow; allow it with the option `symlinks`",
    )
}

/// Returns the type of a path that is neither a regular file nor a folder, for error messages.
pub fn irregular(path: &Path) -> Option<&'static str> {
    match FileType::from_raw_mode(rustix::fs::stat(path).ok()?.st_mode) {
        FileType::Fifo => Some("FIFO"),
        FileType::Socket => Some("socket"),
        FileType::CharacterDevice | FileType::BlockDevice => Some("device"),
        _ => None,
    }
}

fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    // Opening a FIFO without a writer would block forever.
    let flags = OFlags::NONBLOCK | flags;
    OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)
}

impl Symlinks {
    /// Returns whether a symlink with this owner may be followed to this file.
    fn allows(&self, owner: Uid, target: &Stat, file: &File) -> bool {
        match self {
            Symlinks::Never => false,
            Symlinks::SameOwner => {
                owner.as_raw() == target.st_uid
                    || is_below(file, CONTAINER_ROOTS.iter().map(Path::new))
            }
            Symlinks::Allow(roots) => is_below(file, roots.iter().map(PathBuf::as_path)),
        }
    }
}

/// Returns whether the open file is inside one of the folders, according to the path that the
/// kernel reports for it.
fn is_below<'a>(file: &File, mut roots: impl Iterator<Item = &'a Path>) -> bool {
    let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let real = |root: &Path| std::fs::canonicalize(root).unwrap_or_else(|_| root.to_path_buf());
    path.is_ok_and(|path| roots.any(|root| path.starts_with(real(root))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, chown, mknodat};
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn folders_and_fifos_are_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        assert!(open_regular(dir.path(), &Symlinks::Never).unwrap().is_none());
        let fifo = dir.path().join("fifo");
        assert_eq!(
            (irregular(dir.path()), irregular(Path::new("/dev/null"))),
            (None, Some("device"))
        );
        mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        // A writer that is blocked on the FIFO stays blocked.
        let writer = std::thread::spawn(move || File::options().write(true).open(fifo).map(drop));
        std::thread::sleep(std::time::Duration::from_millis(50));
        let fifo = dir.path().join("fifo");
        assert!(open_regular(&fifo, &Symlinks::Never).unwrap().is_none());
        assert!(!writer.is_finished());
        drop(File::open(fifo).unwrap());
        writer.join().unwrap().unwrap();
    }

    #[test]
    fn only_allowed_symlinks_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        fs::write(&target, "x").unwrap();
        symlink(&target, &link).unwrap();
        let opens = |links: &Symlinks| open_regular(&link, links).is_ok_and(|file| file.is_some());
        let below = |folder: &str| Symlinks::Allow(vec![folder.into()]);
        assert!(opens(&Symlinks::SameOwner) && !opens(&Symlinks::Never));
        assert!(opens(&below(dir.path().to_str().unwrap())) && !opens(&below("/var/log")));
        assert!(open_regular(&target, &Symlinks::Never).unwrap().is_some());
        // Only root can change a file's owner; other users skip this part.
        if chown(&target, Some(rustix::fs::Uid::from_raw(1)), None).is_ok() {
            assert!(!opens(&Symlinks::SameOwner));
            assert!(opens(&below(dir.path().to_str().unwrap())));
        }
    }
}
