//! The durable part of a sink's files, so that after a crash only the unsynced bytes of this sink
//! are truncated.

use crate::sinks::file::compress::Compression;
use crate::sinks::file::disk::{folder, now_ns, rename_to_free};
use millstream_recorder::file::RecordedFile;
use rustix::fs::{OFlags, Stat, fstat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

/// Number of bytes before the synced length that are hashed to recognize the data of this sink.
const TAIL_BYTES: u64 = 4096;

/// The durable part of a file. It is kept with the checkpoints, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Synced {
    device: u64,
    inode: u64,
    /// Length of the file at the last sync.
    length: u64,
    /// XXH3 of the last bytes before this length.
    tail_hash: u64,
}

impl Synced {
    /// Records an open file that is durable up to `length`.
    pub fn new(file: &RecordedFile, stat: &Stat, length: u64) -> io::Result<Synced> {
        let tail_hash = tail_hash(file, length)?;
        Ok(Synced { device: stat.st_dev, inode: stat.st_ino, length, tail_hash })
    }

    /// Returns whether `stat` is the status of the synced file.
    fn is_of(&self, stat: &Stat) -> bool {
        (self.device, self.inode) == (stat.st_dev, stat.st_ino)
    }

    /// Returns whether `self` and `other` describe the same file.
    pub fn is_same_file(&self, other: &Synced) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// Returns whether `file` is the synced file and still contains the data of this sink before
    /// the synced length.
    fn is_in(&self, file: &RecordedFile, stat: &Stat) -> bool {
        self.is_of(stat)
            && stat.st_size as u64 >= self.length
            && tail_hash(file, self.length).is_ok_and(|hash| hash == self.tail_hash)
    }

    /// Truncates the data after the synced length that a crash left. Returns `false` if the
    /// truncation must wait because the file's disk is not mounted.
    pub fn truncate_unsynced(&self, path: &Path) -> io::Result<bool> {
        let file = match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => RecordedFile::new(file, path),
            // The file was moved or deleted, unless the whole disk is missing.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let there =
                    path.ancestors().skip(1).find_map(|folder| rustix::fs::stat(folder).ok());
                return Ok(there.is_some_and(|folder| folder.st_dev == self.device));
            }
            Err(error) => return Err(error),
        };
        let stat = fstat(file.file())?;
        if self.is_in(&file, &stat) && stat.st_size as u64 > self.length {
            file.file().set_len(self.length)?;
            file.sync()?;
        }
        Ok(true)
    }
}

/// The recorded files of a sink, by path.
#[derive(Default)]
pub struct SyncedFiles {
    paths: BTreeMap<Arc<str>, Synced>,
    /// Device, inode and path of each file, so that a path is compared only with the other paths of
    /// the same file. A payload can contain a different path for each event.
    names: BTreeSet<(u64, u64, Arc<str>)>,
}

impl SyncedFiles {
    /// Returns the files by path.
    pub fn paths(&self) -> &BTreeMap<Arc<str>, Synced> {
        &self.paths
    }

    /// Returns the number of files.
    pub fn count(&self) -> usize {
        self.paths.len()
    }

    /// Adds a file, and replaces the record of its path.
    pub fn insert(&mut self, path: &Arc<str>, synced: Synced) {
        self.remove(path);
        self.names.insert((synced.device, synced.inode, path.clone()));
        self.paths.insert(path.clone(), synced);
    }

    /// Removes a path.
    pub fn remove(&mut self, path: &Arc<str>) {
        if let Some(old) = self.paths.remove(path) {
            self.names.remove(&(old.device, old.inode, path.clone()));
        }
    }

    /// Rejects a file that is already written under another name. Otherwise, after a crash, each
    /// name would be truncated to a different length, and events written under the other name would
    /// be lost.
    pub fn refuse_second_name(&self, path: &str, file: &Synced) -> io::Result<()> {
        let (device, inode) = (file.device, file.inode);
        let of_file =
            self.names.range((device, inode, "".into())..).map(|(d, i, name)| ((*d, *i), name));
        let others = of_file.take_while(|(id, _)| *id == (device, inode)).map(|(_, name)| name);
        // A moved file no longer has its previous name.
        let has_name = |name: &str| rustix::fs::stat(name).is_ok_and(|stat| file.is_of(&stat));
        match others.into_iter().find(|name| &***name != path && has_name(name)) {
            Some(name) => Err(io::Error::other(format!(
                "is the same file as {name}, which this sink also writes; remove one of the two names"
            ))),
            None => Ok(()),
        }
    }
}

/// Renames a file whose end was not written by the agent, without changing the file.
fn set_aside(path: &Path) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let seconds = now_ns() / 1_000_000_000;
    let aside = rename_to_free(path, 0, |n| match n {
        0 => format!("{name}.{seconds}"),
        n => format!("{name}.{seconds}-{n}"),
    })?;
    log::warn!(
        "the end of {} was not written by the agent; renamed the file to {} and started a new one",
        path.display(),
        aside.display()
    );
    Ok(())
}

/// Opens a file for appending. Truncates the file if `torn` describes it. Sets an incomplete file
/// aside if neither `torn` nor `ours` describes it.
pub fn open_whole(
    path: &Path,
    compression: Compression,
    follow_links: bool,
    torn: Option<&Synced>,
    ours: Option<&Synced>,
) -> io::Result<RecordedFile> {
    std::fs::create_dir_all(folder(path))?;
    let file = open_append(path, follow_links)?;
    let stat = fstat(file.file())?;
    if let Some(torn) = torn.filter(|torn| torn.is_in(&file, &stat)) {
        file.file().set_len(torn.length)?;
    } else if !ours.is_some_and(|ours| ours.is_of(&stat)) && !is_whole(&file, &stat, compression)? {
        set_aside(path)?;
        return open_append(path, follow_links);
    }
    Ok(file)
}

fn open_append(path: &Path, follow_links: bool) -> io::Result<RecordedFile> {
    let flags = if follow_links { OFlags::empty() } else { OFlags::NOFOLLOW };
    let mut options = OpenOptions::new();
    options.create(true).append(true).read(true).mode(0o640).custom_flags(flags.bits() as i32);
    let is_link = || path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
    let opened = options.open(path).map_err(|error| match error.raw_os_error() {
        Some(code) if code == Errno::LOOP.raw_os_error() && !follow_links && is_link() => {
            io::Error::new(
                error.kind(),
                "is a symbolic link; remove it, or use a `path` without fields",
            )
        }
        _ => error,
    });
    Ok(RecordedFile::new(opened?, path))
}

fn tail_hash(file: &RecordedFile, length: u64) -> io::Result<u64> {
    let bytes = TAIL_BYTES.min(length);
    let mut tail = vec![0; bytes as usize];
    file.read_exact_at(&mut tail, length - bytes)?;
    Ok(xxhash_rust::xxh3::xxh3_64(&tail))
}

/// Returns the content of a file without events.
pub fn empty(compression: Compression) -> &'static [u8] {
    if compression == Compression::None { b"" } else { compression.end() }
}

/// Returns whether the file is empty or ends with the end mark.
fn is_whole(file: &RecordedFile, stat: &Stat, compression: Compression) -> io::Result<bool> {
    let (size, end) = (stat.st_size as u64, compression.end());
    let mut last = vec![0; end.len()];
    if size >= end.len() as u64 {
        file.read_exact_at(&mut last, size - end.len() as u64)?;
    }
    Ok(size == 0 || last == end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn synced(inode: u64) -> Synced {
        Synced { device: 1, inode, length: 0, tail_hash: 0 }
    }

    #[test]
    fn a_file_is_rejected_under_a_second_name_while_it_has_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| -> Arc<str> { folder.path().join(name).to_str().unwrap().into() };
        let [first, second, third] = ["first", "second", "third"].map(path);
        fs::write(&*first, "").unwrap();
        let open = RecordedFile::new(fs::File::open(&*first).unwrap(), Path::new(&*first));
        let file = Synced::new(&open, &rustix::fs::stat(&*first).unwrap(), 0).unwrap();
        let mut known = SyncedFiles::default();
        known.insert(&first, file.clone());
        known.insert(&path("before it"), Synced { inode: file.inode - 1, ..file.clone() });
        known.insert(&path("behind it"), Synced { inode: file.inode + 1, ..file.clone() });
        assert!(known.refuse_second_name(&first, &file).is_ok());
        assert!(
            known.refuse_second_name(&second, &file).unwrap_err().to_string().contains("first")
        );
        // The file was renamed twice.
        fs::rename(&*first, &*second).unwrap();
        assert!(known.refuse_second_name(&second, &file).is_ok());
        known.insert(&second, file.clone());
        fs::rename(&*second, &*third).unwrap();
        assert!(known.refuse_second_name(&third, &file).is_ok());
        // The first name exists again.
        fs::hard_link(&*third, &*first).unwrap();
        assert!(known.refuse_second_name(&third, &file).is_err());
        known.remove(&first);
        assert!(known.refuse_second_name(&third, &file).is_ok());
        assert_eq!((known.count(), known.names.len()), (3, 3));
    }

    /// A payload can contain a different path for each event.
    #[test]
    fn adding_a_file_takes_constant_time() {
        // Measure CPU time, because other processes may use the CPU in the meantime.
        let cpu_time = || {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            std::time::Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
        };
        let seconds = |count: u64| {
            let (mut known, begun) = (SyncedFiles::default(), cpu_time());
            for inode in 0..count {
                known.refuse_second_name("a new one", &synced(inode)).unwrap();
                known.insert(&format!("/folder/{inode}").into(), synced(inode));
            }
            (cpu_time() - begun).as_secs_f64() / count as f64
        };
        // Take the best of several runs, because other processes may interfere.
        let best = |count| (0..5).map(|_| seconds(count)).fold(f64::MAX, f64::min);
        let (few, many) = (best(400), best(20_000));
        assert!(many < few * 10.0, "{few} and {many} s each");
    }
}
