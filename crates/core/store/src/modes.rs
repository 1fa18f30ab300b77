//! Modes of the files that the agent keeps in `data_dir`. The files contain parts of log lines, so
//! other users cannot read them, regardless of the umask.

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, accessat};
use rustix::io::Errno;
use std::fs::{self, DirBuilder, DirEntry, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Mode of files.
const FILE: u32 = 0o600;

/// Mode of folders in `data_dir`.
const FOLDER: u32 = 0o700;

/// Mode of a new `data_dir`. The folder's group can reach the control socket, but cannot list the
/// folder.
const DATA_DIR: u32 = 0o710;

/// Permission bits for users other than the owner.
const OTHERS: u32 = 0o077;

/// Names of the files and folders that the agent creates in `data_dir`, possibly followed by a dot
/// and a suffix. The list omits the control socket, which a group may use, and the token, whose
/// mode the administrator may have chosen.
const NAMES: [&str; 8] =
    ["checkpoints", "format", "held", "identities", "lock", "recorder", "snapshots", "spool"];

/// Folder with hard links to the user's files.
const HELD: &str = "held";

/// Folders that may contain files of other users, or that the agent can do without.
const OPTIONAL: [&str; 2] = [HELD, "recorder"];

/// File with the token of the API, which the agent only reads if it exists.
const TOKEN: &str = "token";

/// Returns options for a file in `data_dir`.
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE);
    options
}

/// Creates `data_dir` and its missing parent folders.
pub fn create_data_dir(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(DATA_DIR).create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        created => created,
    }
}

/// Removes other users' permissions from the files that an earlier release created in `data_dir`.
pub fn correct(data_dir: &Path) {
    let mut corrected = 0;
    let mut failed = None;
    for entry in entries(data_dir).filter(is_own) {
        let has_links = entry.file_name() == HELD;
        if let Err(error) = correct_tree(&entry.path(), has_links, &mut corrected) {
            failed = Some((entry.path(), error));
        }
    }
    let shown = data_dir.display();
    if corrected > 0 {
        log::info!("{shown}: removed other users' permissions from {corrected} files");
    }
    if let Some((path, error)) = failed {
        log::warn!(
            "cannot restrict the permissions of {}: {error}; other users may be able to read parts \
             of log lines",
            path.display()
        );
    }
}

/// A file or folder in `data_dir` that belongs to another user and that the agent may not use.
#[derive(Debug)]
pub struct ForeignFile {
    /// The path.
    pub path: PathBuf,
    /// User id of the owner.
    pub owner: u32,
    /// User id of the agent.
    pub user: u32,
}

/// Returns the first file in `data_dir`, by name, that belongs to another user and that the agent
/// needs but may not use. The usual cause is a start of the agent as that user.
///
/// The components treat some unreadable files as damaged, and would continue without their data.
pub fn foreign_file(data_dir: &Path) -> Option<ForeignFile> {
    let user = rustix::process::geteuid().as_raw();
    let is_needed = |entry: &DirEntry| {
        let name = entry.file_name();
        name == TOKEN || is_own(entry) && !OPTIONAL.iter().any(|optional| name == *optional)
    };
    sorted(entries(data_dir).filter(is_needed)).iter().find_map(|path| foreign_in(path, user))
}

fn foreign_in(path: &Path, user: u32) -> Option<ForeignFile> {
    let metadata = fs::symlink_metadata(path).ok().filter(|metadata| !metadata.is_symlink())?;
    if metadata.uid() != user && is_refused(path, &metadata) {
        return Some(ForeignFile { path: path.to_path_buf(), owner: metadata.uid(), user });
    }
    sorted(entries(path)).iter().find_map(|path| foreign_in(path, user))
}

/// Returns whether the agent lacks a permission that it needs.
fn is_refused(path: &Path, metadata: &Metadata) -> bool {
    let needed = match path.file_name() {
        Some(name) if name == TOKEN => Access::READ_OK,
        _ if metadata.is_dir() => Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK,
        _ => Access::READ_OK | Access::WRITE_OK,
    };
    accessat(CWD, path, needed, AtFlags::EACCESS) == Err(Errno::ACCESS)
}

fn sorted(entries: impl Iterator<Item = DirEntry>) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn entries(folder: &Path) -> impl Iterator<Item = DirEntry> {
    fs::read_dir(folder).into_iter().flatten().flatten()
}

fn is_own(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let stem = name.to_str().and_then(|name| name.split('.').next());
    stem.is_some_and(|stem| NAMES.contains(&stem))
}

/// Corrects a file, or a folder and its contents. Does not follow symbolic links, and skips files
/// with several hard links, because their mode is the user's choice.
fn correct_tree(path: &Path, has_links: bool, corrected: &mut u64) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    let is_own_file = metadata.is_file() && metadata.nlink() == 1 && !has_links;
    let mode = metadata.mode() & 0o777;
    if mode & OTHERS != 0 && (metadata.is_dir() || is_own_file) {
        set_mode(path, if metadata.is_dir() { FOLDER } else { FILE })?;
        *corrected += 1;
    }
    if !metadata.is_dir() {
        return Ok(());
    }
    let trees = entries(path).map(|entry| correct_tree(&entry.path(), has_links, corrected));
    trees.fold(Ok(()), io::Result::and)
}

/// Sets the mode of a file or folder. Fails on a symbolic link.
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    file.set_permissions(Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    fn write(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "text").unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
        let folder = Permissions::from_mode(0o755);
        fs::set_permissions(path.parent().unwrap(), folder).unwrap();
    }

    #[test]
    fn the_files_of_the_agent_become_private() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let private = [
            "snapshots/counts/1.segment",
            "spool/out/1.spool",
            "checkpoints.corrupt-1",
            "identities.new",
        ];
        private.iter().for_each(|name| write(&at(name)));
        correct(dir.path());
        assert!(private.iter().all(|name| mode(&at(name)) == 0o600));
        assert_eq!([mode(&at("snapshots")), mode(&at("spool/out"))], [0o700, 0o700]);
    }

    #[test]
    fn the_files_of_the_user_keep_their_modes() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let logs = ["app/app.log", "app/linked.log", "snapshots-of-mine/a", "control.sock"];
        logs.iter().for_each(|name| write(&at(name)));
        write(&at("held/app/only-link"));
        write(&at("spool/out/1.spool"));
        fs::hard_link(at("app/app.log"), at("held/app/1")).unwrap();
        fs::hard_link(at("app/linked.log"), at("spool/out/2.spool")).unwrap();
        symlink(at("app/app.log"), at("spool/out/3.spool")).unwrap();
        symlink(at("app"), at("recorder")).unwrap();
        correct(dir.path());
        assert!(logs.iter().all(|name| mode(&at(name)) == 0o644));
        assert_eq!(mode(&at("held/app/only-link")), 0o644, "its other name is deleted");
        assert_eq!([mode(&at("held/app")), mode(&at("app"))], [0o700, 0o755]);
    }

    #[test]
    fn the_group_reaches_a_new_data_dir() {
        let dir = tempfile::tempdir().unwrap();
        let data_dir = dir.path().join("state/of/agent");
        create_data_dir(&data_dir).unwrap();
        assert_eq!(mode(&data_dir) & 0o707, 0o700);
        fs::set_permissions(&data_dir, Permissions::from_mode(0o770)).unwrap();
        create_data_dir(&data_dir).unwrap();
        assert_eq!(mode(&data_dir), 0o770, "a folder of the user keeps its mode");
        assert!(create_data_dir(Path::new("/dev/null")).is_err());
    }
}
