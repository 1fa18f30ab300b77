//! Notices news through inotify: new names in folders, and quiet files that are written again.
//!
//! Events only say where to look; what is there is decided by looking. Where inotify is not to be
//! had (no watches left, a network file system) the source looks at intervals.

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

/// Watches folders and quiet files.
pub struct Watch {
    fd: Option<OwnedFd>,
    folders: HashMap<PathBuf, i32>,
    files: HashMap<i32, u64>,
}

/// What happened since the last look.
#[derive(Default)]
pub struct News {
    /// Names changed in a folder: walk again.
    pub names: bool,
    /// Files that were written to and are no longer watched.
    pub written: Vec<u64>,
    /// Events were lost: anything may have happened.
    pub overflow: bool,
}

impl Watch {
    /// A watch over nothing.
    pub fn new() -> Watch {
        let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC);
        let fd = fd.inspect_err(|error| {
            log::warn!("inotify is not to be had ({error}): files are found by polling")
        });
        Watch { fd: fd.ok(), folders: HashMap::new(), files: HashMap::new() }
    }

    /// Whether every folder given last is watched.
    pub fn is_complete(&self, folders: &BTreeSet<PathBuf>) -> bool {
        folders.iter().all(|folder| self.folders.contains_key(folder))
    }

    /// Watches exactly these folders for names that come, go or change.
    pub fn folders(&mut self, folders: &BTreeSet<PathBuf>) {
        let Some(fd) = &self.fd else { return };
        self.folders.retain(|folder, watch| {
            let keep = folders.contains(folder);
            if !keep {
                let _ = inotify::remove_watch(fd, *watch);
            }
            keep
        });
        let flags = WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::DELETE
            | WatchFlags::ATTRIB
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        for folder in folders {
            if let Ok(watch) = inotify::add_watch(fd, folder.as_path(), flags) {
                self.folders.insert(folder.clone(), watch);
            }
        }
    }

    /// Watches a quiet file for its next write; whether that is possible.
    ///
    /// The watch goes through the open file, not through its path: that may name another by now.
    pub fn file(&mut self, id: u64, file: &File) -> bool {
        let Some(fd) = &self.fd else { return false };
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        match inotify::add_watch(fd, path, WatchFlags::MODIFY | WatchFlags::ONESHOT) {
            Ok(watch) => self.files.insert(watch, id).is_none_or(|before| before == id),
            Err(_) => false,
        }
    }

    /// Reads what happened, without waiting.
    pub fn news(&mut self) -> News {
        let mut news = News::default();
        let Some(fd) = &self.fd else { return news };
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut reader = inotify::Reader::new(fd, &mut buffer);
        while let Ok(event) = reader.next() {
            let flags = event.events();
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                news.overflow = true;
            } else if flags.contains(ReadFlags::MODIFY) {
                news.written.extend(self.files.remove(&event.wd()));
            } else if flags.contains(ReadFlags::IGNORED) {
                // The kernel has dropped this watch: its folder is gone, or a file fired its one shot.
                self.folders.retain(|_, watch| *watch != event.wd());
                self.files.remove(&event.wd());
            } else {
                news.names = true;
            }
        }
        news
    }
}
