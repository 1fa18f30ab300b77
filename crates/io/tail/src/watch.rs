//! inotify watches: name changes in folders, and writes to quiet files.
//!
//! An event is only a hint about which path to check. Where inotify is unavailable (no watches
//! left, a network file system), the source scans at intervals.

use super::renames::{NameChange, Rename};
use millstream_model::OriginId;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Maximum number of pending names, to bound the memory.
const NAMES_MAX: usize = 10_000;

/// A source's files may take one in this many of a user's watches, because folders, other sources
/// and other programs also need watches.
const FILES_SHARE: usize = 2;

/// Path of the kernel setting for the maximum number of watches per user.
const WATCHES_MAX_PATH: &str = "/proc/sys/fs/inotify/max_user_watches";

/// The kernel's default before Linux 5.11, used if the setting cannot be read.
const WATCHES_MAX: usize = 8192;

/// inotify watches on folders and quiet files.
pub struct Watch {
    fd: Option<OwnedFd>,
    folders: HashMap<PathBuf, i32>,
    files: HashMap<i32, OriginId>,
    /// Maximum number of files to watch.
    files_max: usize,
    /// Cookie and paths of the last `IN_MOVED_FROM`, whose `IN_MOVED_TO` may follow.
    moved_from: Option<(u32, Vec<PathBuf>)>,
    /// The name changes in order.
    named: Vec<NameChange>,
    changes: Changes,
}

/// Name changes in the watched folders.
#[derive(Default)]
pub struct Changes {
    /// Names that were created in or moved into the folders, or whose permissions changed.
    pub appeared: BTreeSet<PathBuf>,
    /// Names that were deleted, moved away, or replaced.
    pub vanished: HashSet<PathBuf>,
    /// Those names in `vanished` that were deleted.
    pub deleted: HashSet<PathBuf>,
}

/// Summary of the events since the last call to [`Watch::read_events`].
#[derive(Default)]
pub struct WatchEvents {
    /// Whether names changed in the folders: see [`Watch::take_changes`].
    pub names: bool,
    /// Whether folders appeared or vanished, so that a walk is needed.
    pub folders: bool,
    /// Files that were written to and are no longer watched.
    pub written: Vec<OriginId>,
    /// Whether events were lost, in the kernel or for lack of capacity, so that any file may have
    /// changed.
    pub overflow: bool,
}

impl Watch {
    /// Creates an inotify instance without watches.
    pub fn new() -> Watch {
        let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC);
        let fd =
            fd.inspect_err(|error| log::warn!("inotify is unavailable: {error}; polling files"));
        Watch {
            fd: fd.ok(),
            folders: HashMap::new(),
            files: HashMap::new(),
            files_max: watches_max() / FILES_SHARE,
            moved_from: None,
            named: Vec::new(),
            changes: Changes::default(),
        }
    }

    /// Creates a `Watch` that reports nothing.
    #[cfg(test)]
    pub fn without_inotify() -> Watch {
        Watch { fd: None, ..Watch::new() }
    }

    /// Returns whether all these folders are watched.
    pub fn is_complete(&self, folders: &BTreeSet<PathBuf>) -> bool {
        folders.iter().all(|folder| self.folders.contains_key(folder))
    }

    /// Watches exactly these folders for name changes. Returns the folders that were not watched
    /// before, or that replaced another folder at the same path.
    pub fn set_folders(&mut self, folders: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
        let mut added = Vec::new();
        let Some(fd) = &self.fd else { return added };
        let mut dropped = Vec::new();
        self.folders.retain(|folder, watch| {
            let keep = folders.contains(folder);
            if !keep {
                dropped.push(*watch);
            }
            keep
        });
        // A folder may still be watched through another path.
        let is_used = |watch: &i32| self.folders.values().any(|used| used == watch);
        for watch in dropped.into_iter().filter(|watch| !is_used(watch)) {
            let _ = inotify::remove_watch(fd, watch);
        }
        let flags = WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::DELETE
            | WatchFlags::ATTRIB
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        for folder in folders {
            if let Ok(watch) = inotify::add_watch(fd, folder.as_path(), flags)
                && self.folders.insert(folder.clone(), watch) != Some(watch)
            {
                added.push(folder.clone());
            }
        }
        added
    }

    /// Watches a quiet file for its next write; returns whether the watch was added.
    ///
    /// The watch is set on the open file instead of its path, which may belong to another file by
    /// now.
    pub fn watch_file(&mut self, id: OriginId, file: &File) -> bool {
        self.add_file(id, Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())))
    }

    /// Watches a finished file for its next write. It does no harm if the path belongs to another
    /// file by now, because an event is only a hint.
    pub fn watch_path(&mut self, id: OriginId, path: &Path) {
        self.add_file(id, path);
    }

    /// Watches a file for its next write. Returns whether the watch was added and no other id had
    /// the same watch.
    fn add_file(&mut self, id: OriginId, path: &Path) -> bool {
        let Some(fd) = self.fd.as_ref().filter(|_| self.files.len() < self.files_max) else {
            return false;
        };
        match inotify::add_watch(fd, path, WatchFlags::MODIFY | WatchFlags::ONESHOT) {
            Ok(watch) => self.files.insert(watch, id).is_none_or(|before| before == id),
            Err(_) => false,
        }
    }

    /// Takes the name changes since the last call, in order. Renames between watched folders are
    /// reported as renames.
    pub fn take_named(&mut self) -> Vec<NameChange> {
        std::mem::take(&mut self.named)
    }

    /// Takes the name changes in the folders since the last call.
    pub fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// Discards pending names, because an incomplete list of renames would result in wrong paths.
    fn discard_names(&mut self) {
        self.moved_from = None;
        self.named = Vec::new();
        self.changes = Changes::default();
    }

    /// Records a name that appeared or vanished, under each path by which the name can be reached.
    fn record_name(&mut self, flags: ReadFlags, cookie: u32, paths: &[PathBuf]) {
        let appears = ReadFlags::CREATE | ReadFlags::MOVED_TO | ReadFlags::ATTRIB;
        if flags.intersects(appears) {
            self.changes.appeared.extend(paths.iter().cloned());
        }
        if flags.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM | ReadFlags::MOVED_TO) {
            self.changes.vanished.extend(paths.iter().cloned());
        }
        if flags.intersects(ReadFlags::MOVED_FROM | ReadFlags::MOVED_TO)
            && let Some(rename) = pair_rename(&mut self.moved_from, flags, cookie, paths)
        {
            self.named.push(NameChange::Renamed(rename));
        }
        if flags.contains(ReadFlags::DELETE) {
            self.changes.deleted.extend(paths.iter().cloned());
        }
        let is_folder = flags.contains(ReadFlags::ISDIR);
        if flags.contains(ReadFlags::CREATE) && !is_folder {
            self.named.push(NameChange::Created(paths.to_vec()));
        }
        if flags.contains(ReadFlags::DELETE) && !is_folder {
            self.named.push(NameChange::Deleted(paths.to_vec()));
        }
    }

    /// Reads pending events without blocking.
    pub fn read_events(&mut self) -> WatchEvents {
        let mut events = WatchEvents::default();
        let Some(fd) = self.fd.take() else { return events };
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut reader = inotify::Reader::new(&fd, &mut buffer);
        while let Ok(event) = reader.next() {
            let flags = event.events();
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                events.overflow = true;
                self.discard_names();
            } else if flags.contains(ReadFlags::MODIFY) {
                if let Some(id) = self.files.remove(&event.wd()) {
                    events.written.push(id);
                }
            } else if flags.contains(ReadFlags::IGNORED) {
                // The kernel removed this watch: its folder is gone, or a one-shot watch fired.
                self.folders.retain(|_, watch| *watch != event.wd());
                self.files.remove(&event.wd());
            } else {
                let is_folder = flags.contains(ReadFlags::ISDIR) || event.file_name().is_none();
                events.names |= !is_folder;
                events.folders |= is_folder;
                let name =
                    event.file_name().map(|name| Path::new(OsStr::from_bytes(name.to_bytes())));
                let paths =
                    name.map_or(Vec::new(), |name| paths_in(&self.folders, event.wd(), name));
                self.record_name(flags, event.cookie(), &paths);
            }
            let changes = self.changes.appeared.len().max(self.changes.vanished.len());
            if self.named.len().max(changes) > NAMES_MAX {
                events.overflow = true;
                self.discard_names();
            }
        }
        self.fd = Some(fd);
        events
    }
}

/// Returns how many watches a user may have. The value is read once.
fn watches_max() -> usize {
    static MAX: LazyLock<usize> = LazyLock::new(|| {
        let text = std::fs::read_to_string(WATCHES_MAX_PATH).unwrap_or_default();
        text.trim().parse().unwrap_or(WATCHES_MAX)
    });
    *MAX
}

/// Returns the paths of a name in a watched folder: several if symlinks refer to the folder.
fn paths_in(folders: &HashMap<PathBuf, i32>, watch: i32, name: &Path) -> Vec<PathBuf> {
    let watched = folders.iter().filter(|(_, other)| **other == watch);
    watched.map(|(folder, _)| folder.join(name)).collect()
}

/// Records one half of a rename; returns the rename once both halves are known.
fn pair_rename(
    moved_from: &mut Option<(u32, Vec<PathBuf>)>,
    flags: ReadFlags,
    cookie: u32,
    paths: &[PathBuf],
) -> Option<Rename> {
    if flags.contains(ReadFlags::MOVED_FROM) {
        *moved_from = Some((cookie, paths.to_vec()));
        return None;
    }
    let is_other_half = flags.contains(ReadFlags::MOVED_TO);
    let (_, from) = moved_from.take_if(|(from, _)| *from == cookie && is_other_half)?;
    Some(Rename { from, to: paths.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_leave_watches_for_folders() {
        let root = tempfile::tempdir().unwrap();
        let mut watch = Watch { files_max: 2, ..Watch::new() };
        for number in 0..3 {
            let path = root.path().join(format!("{number}.log"));
            fs::write(&path, "").unwrap();
            let file = File::open(&path).unwrap();
            assert_eq!(watch.watch_file(OriginId(number), &file), number < 2);
        }
        assert_eq!(watch.set_folders(&[root.path().to_path_buf()].into()).len(), 1);
        fs::write(root.path().join("0.log"), "1").unwrap();
        assert_eq!(watch.read_events().written, [OriginId(0)]);
        let file = File::open(root.path().join("2.log")).unwrap();
        assert!(watch.watch_file(OriginId(2), &file), "the watch of another file has ended");
        assert!(watches_max() > 0);
    }

    #[test]
    fn renames_are_reported_in_order_with_both_names() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        let folders = ["in", "other", "unseen"].map(path);
        folders.iter().for_each(|folder| fs::create_dir(folder).unwrap());
        let mut watch = Watch::new();
        let watched: BTreeSet<PathBuf> = folders[..2].iter().cloned().collect();
        assert_eq!((watch.set_folders(&watched).len(), watch.set_folders(&watched).len()), (2, 0));
        fs::write(path("in/a"), "").unwrap();
        fs::rename(path("in/a"), path("in/a.1")).unwrap();
        fs::write(path("in/a"), "").unwrap();
        fs::rename(path("in/a.1"), path("other/a.2")).unwrap();
        fs::write(path("in/b"), "").unwrap();
        // The file was moved out of the watched folders, and back.
        fs::rename(path("in/b"), path("unseen/b")).unwrap();
        fs::rename(path("unseen/b"), path("in/c")).unwrap();
        fs::remove_file(path("in/c")).unwrap();
        let events = watch.read_events();
        let moved = [("in/a", "in/a.1"), ("in/a.1", "other/a.2")];
        assert!(events.names && !events.folders);
        let rename = |(from, to)| Rename { from: vec![path(from)], to: vec![path(to)] };
        let named = watch.take_named();
        let renamed = named.iter().filter_map(|change| match change {
            NameChange::Renamed(rename) => Some(rename.clone()),
            _ => None,
        });
        assert!(renamed.eq(moved.map(rename)));
        assert_eq!(named.first(), Some(&NameChange::Created(vec![path("in/a")])));
        assert_eq!(named.last(), Some(&NameChange::Deleted(vec![path("in/c")])));
        let appeared = ["in/a", "in/a.1", "in/b", "in/c", "other/a.2"];
        let changes = watch.take_changes();
        assert_eq!(changes.appeared, appeared.map(path).into());
        assert!(
            changes.vanished.contains(&path("in/a.1")) && changes.vanished.contains(&path("in/c"))
        );
        fs::create_dir(path("in/folder")).unwrap();
        let events = watch.read_events();
        assert!(events.folders && !events.names);
        assert!(!watch.read_events().names && watch.take_named().is_empty());
        // Beyond the capacity, all pending renames are discarded.
        for _ in 0..=NAMES_MAX / 2 {
            fs::rename(path("in/a"), path("in/b")).unwrap();
            fs::rename(path("in/b"), path("in/a")).unwrap();
            watch.read_events();
        }
        assert!(watch.take_named().len() < 2);
        let names = (0..=NAMES_MAX).map(|n| path(&format!("in/{n}")));
        names.for_each(|name| fs::write(name, "").unwrap());
        assert!(
            watch.read_events().overflow && watch.take_changes().appeared.len() < NAMES_MAX,
            "an overflow makes the source walk the folders"
        );
    }
}
