//! Held files: links to, and copies of, undelivered files that were deleted or may be deleted soon.
//!
//! | name | content |
//! |---|---|
//! | `ID` | a hard link to the file whose `file_id` is `ID`, 16 hexadecimal digits |
//! | `ID-OFFSET` | a sparse copy of that file from `OFFSET` (decimal) to its end |
//! | `ID-OFFSET.tmp` | an incomplete copy; removed after a restart |
//!
//! Bytes in a sparse copy keep their offsets. The bytes before `OFFSET` are a hole, except the head
//! and the fingerprinted bytes that identify the file.
//!
//! A compressed file is copied as a whole, from offset 0. A link shares the inode, so it includes
//! bytes appended later. A link is durable once [`HeldFolder::sync`] has returned, and a copy once
//! [`HeldFolder::copy`] has returned.

use super::content::Content;
use super::identity::{FINGERPRINT_BYTES_MAX, HEAD_BYTES_MAX};
use millstream_model::OriginId;
use millstream_recorder::file::RecordedFile;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, linkat, openat, statvfs, unlinkat};
use std::collections::HashSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Bytes per copy step; the deadline is checked between steps.
const COPY_BYTES: usize = 1024 * 1024;

/// Upper bound in bytes on the default limit for held files.
const HELD_BYTES_MAX: u64 = 1 << 30;

/// The default limit is at most 1/20 (5%) of the file system.
const DISK_SHARE: u64 = 20;

/// Extension of an incomplete copy.
const UNFINISHED: &str = ".tmp";

/// One source's held files.
pub struct HeldFolder {
    path: PathBuf,
    /// The open folder, once it exists.
    folder: Option<RecordedFile>,
    /// Whether there are links that were created since the last sync, and that a power loss could
    /// undo.
    unsynced: bool,
    /// Devices whose files cannot be linked into the folder.
    unlinkable: HashSet<u64>,
}

/// A file in the folder of held files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldFile {
    /// The file's `file_id`.
    pub id: OriginId,
    /// First offset in a copy; `None` for a link.
    pub copied_from: Option<u64>,
}

impl HeldFile {
    fn name(&self) -> String {
        let id = self.id;
        self.copied_from.map_or_else(|| id.to_string(), |from| format!("{id}-{from}"))
    }

    fn parse(name: &str) -> Option<HeldFile> {
        let (id, from) = name.split_once('-').map_or((name, None), |(id, from)| (id, Some(from)));
        let is_id = id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let copied_from = from.map(str::parse).transpose().ok()?;
        Some(HeldFile {
            id: u64::from_str_radix(id, 16).ok().filter(|_| is_id).map(OriginId)?,
            copied_from,
        })
    }
}

impl HeldFolder {
    /// Creates a handle on the folder at `path`. The folder itself is created on first use.
    pub fn new(path: PathBuf) -> HeldFolder {
        HeldFolder { path, folder: None, unsynced: false, unlinkable: HashSet::new() }
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a held file.
    pub fn path_of(&self, file: &HeldFile) -> PathBuf {
        self.path.join(file.name())
    }

    /// Returns the default limit in bytes: the smaller of 1 GiB and 5% of the file system.
    pub fn default_bytes_max(&self) -> u64 {
        let existing = self.path.ancestors().find(|folder| folder.is_dir());
        let size =
            existing.and_then(|folder| statvfs(folder).ok()).map(|fs| fs.f_blocks * fs.f_frsize);
        size.map_or(HELD_BYTES_MAX, |bytes| (bytes / DISK_SHARE).min(HELD_BYTES_MAX))
    }

    /// Creates a hard link to an open file; returns `false` if the file can never be linked.
    /// [`HeldFolder::sync`] makes the link durable.
    ///
    /// # Errors
    /// Returns an error if the link cannot be created now; a later attempt may succeed.
    pub fn link(&mut self, id: OriginId, file: &File) -> io::Result<bool> {
        let stat = fstat(file)?;
        if stat.st_nlink == 0 || self.unlinkable.contains(&stat.st_dev) {
            return Ok(false);
        }
        match self.try_link(id, file) {
            Ok(()) => {
                self.unsynced = true;
                Ok(true)
            }
            Err(error) if is_refusal(&error) => {
                self.unlinkable.insert(stat.st_dev);
                log::info!(
                    "cannot create hard links in {}: {error}; deleted files are kept open until delivered",
                    self.path.display()
                );
                Ok(false)
            }
            // The file has just been deleted.
            Err(error) if error.kind() == io::ErrorKind::NotFound && is_deleted(file) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn try_link(&mut self, id: OriginId, file: &File) -> io::Result<()> {
        let name = HeldFile { id, copied_from: None }.name();
        let from = format!("/proc/self/fd/{}", file.as_raw_fd());
        let folder = self.folder()?.file();
        match linkat(CWD, &from, folder, &name, AtFlags::SYMLINK_FOLLOW) {
            Err(rustix::io::Errno::EXIST) => {
                unlinkat(folder, &name, AtFlags::empty())?;
                Ok(linkat(CWD, &from, folder, &name, AtFlags::SYMLINK_FOLLOW)?)
            }
            linked => Ok(linked?),
        }
    }

    /// Makes the links created since the last call durable.
    pub fn sync(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.unsynced)
            && let Some(folder) = &self.folder
        {
            folder.sync()?;
        }
        Ok(())
    }

    /// Copies a file durably from offset `from` to its end. If the deadline passes or the disk is
    /// full, the copy is truncated after its last complete line; a compressed file is then not
    /// copied at all. Returns the end offset of the copy.
    pub fn copy(
        &mut self,
        id: OriginId,
        content: &Content,
        from: u64,
        deadline: Instant,
    ) -> io::Result<u64> {
        let from = if content.is_compressed() { 0 } else { from };
        let held = HeldFile { id, copied_from: Some(from) };
        let unfinished = held.name() + UNFINISHED;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let copy = openat(self.folder()?.file(), &unfinished, flags, Mode::RUSR | Mode::WUSR)?;
        let copy = Arc::new(RecordedFile::new(copy.into(), &self.path.join(&unfinished)));
        let copied = copy_rest(content, &copy, from, deadline).and_then(|end| {
            copy.sync()?;
            std::fs::rename(self.path.join(&unfinished), self.path_of(&held))?;
            self.folder()?.sync()?;
            Ok(end)
        });
        if copied.is_err() {
            _ = std::fs::remove_file(self.path.join(&unfinished));
        }
        copied
    }

    /// Renames a held file to the id under which it will be read. The rename is durable after
    /// [`HeldFolder::sync`].
    pub fn rename(&mut self, file: &HeldFile, id: OriginId) -> io::Result<HeldFile> {
        let renamed = HeldFile { id, copied_from: file.copied_from };
        std::fs::rename(self.path_of(file), self.path_of(&renamed))?;
        self.folder()?;
        self.unsynced = true;
        Ok(renamed)
    }

    /// Removes a held file that is settled.
    pub fn remove(&self, file: &HeldFile) {
        match std::fs::remove_file(self.path_of(file)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                log::warn!("cannot remove held file {}: {error}", self.path_of(file).display());
            }
            _ => {}
        }
    }

    /// Lists the held files. Removes incomplete copies that a crash left behind.
    pub fn list(&self) -> io::Result<Vec<HeldFile>> {
        let entries = match std::fs::read_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut files = Vec::new();
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.ends_with(UNFINISHED) {
                _ = std::fs::remove_file(self.path.join(&name));
            } else if let Some(file) = HeldFile::parse(&name) {
                files.push(file);
            }
        }
        files.sort_by_key(|file| (file.id, file.copied_from));
        Ok(files)
    }

    /// Opens a held file for reading.
    pub fn open(&self, file: &HeldFile) -> io::Result<File> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(self.path_of(file))
    }

    /// Opens the folder, and creates it if it is missing. Only the agent's user has access, because
    /// log files may contain secrets.
    fn folder(&mut self) -> io::Result<&RecordedFile> {
        let folder = match self.folder.take().filter(|folder| !is_deleted(folder.file())) {
            Some(folder) => folder,
            None => {
                DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
                for parent in self.path.ancestors().skip(1).take(2) {
                    RecordedFile::new(File::open(parent)?, parent).sync()?;
                }
                RecordedFile::new(File::open(&self.path)?, &self.path)
            }
        };
        Ok(self.folder.insert(folder))
    }
}

/// Returns whether an open file has been deleted, so that it has no name.
fn is_deleted(file: &File) -> bool {
    fstat(file).is_ok_and(|stat| stat.st_nlink == 0)
}

/// Returns whether an error means that a link will never be possible: the file is on another file
/// system or on a file system without links, or `fs.protected_hardlinks` forbids links to other
/// owners' files.
fn is_refusal(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let refusals = [Errno::XDEV, Errno::PERM, Errno::ACCESS, Errno::OPNOTSUPP, Errno::MLINK];
    refusals.iter().any(|refusal| error.raw_os_error() == Some(refusal.raw_os_error()))
}

/// Copies the head, the fingerprinted bytes and everything after `from` to the same offsets.
fn copy_rest(
    content: &Content,
    to: &Arc<RecordedFile>,
    from: u64,
    deadline: Instant,
) -> io::Result<u64> {
    let rest = from.saturating_sub(FINGERPRINT_BYTES_MAX);
    copy_range(content, to, 0, rest.min(HEAD_BYTES_MAX), None)?;
    match copy_range(content, to, rest, u64::MAX, Some(deadline))? {
        Copied::Whole(end) => Ok(end),
        Copied::Part(_, why) if content.is_compressed() => Err(why.into()),
        Copied::Part(end, why) => {
            let line_end = Content::of(to.clone())?.last_line_start(end, None)?;
            to.file().set_len(line_end)?;
            if line_end > from { Ok(line_end) } else { Err(why.into()) }
        }
    }
}

/// The result of a copy, with its end offset.
enum Copied {
    Whole(u64),
    /// Time or disk space ran out, so the copy ends at this offset.
    Part(u64, io::ErrorKind),
}

fn copy_range(
    source: &Content,
    to: &RecordedFile,
    mut at: u64,
    end: u64,
    deadline: Option<Instant>,
) -> io::Result<Copied> {
    let mut buffer = vec![0; COPY_BYTES];
    while at < end {
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Ok(Copied::Part(at, io::ErrorKind::TimedOut));
        }
        let len = (end - at).min(COPY_BYTES as u64) as usize;
        let n = source.read_file_at(&mut buffer[..len], at)?;
        if n == 0 {
            break;
        }
        match to.write_all_at(&buffer[..n], at) {
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                return Ok(Copied::Part(at, error.kind()));
            }
            written => written?,
        }
        at += n as u64;
    }
    Ok(Copied::Whole(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::Duration;

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn names_round_trip_and_other_names_are_ignored() {
        for copied_from in [None, Some(0), Some(7_000_000_000)] {
            let file = HeldFile { id: OriginId(0xab), copied_from };
            assert_eq!(HeldFile::parse(&file.name()), Some(file));
        }
        for other in
            ["", "ab", "00000000000000ab-", "00000000000000ab-x", "+0000000000000ab", "notes"]
        {
            assert_eq!(HeldFile::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_link_outlives_the_deletion_of_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("app.log");
        fs::write(&path, "1\n").unwrap();
        let mut held = HeldFolder::new(dir.path().join("held/app"));
        let file = File::open(&path).unwrap();
        assert!(held.link(OriginId(7), &file).unwrap());
        assert!(held.link(OriginId(7), &file).unwrap(), "a second link replaces the first");
        held.sync().unwrap();
        fs::remove_file(&path).unwrap();
        let files = HeldFolder::new(held.path().to_path_buf()).list().unwrap();
        assert_eq!(files, [HeldFile { id: OriginId(7), copied_from: None }]);
        assert_eq!(fs::read_to_string(held.path_of(&files[0])).unwrap(), "1\n");
        held.remove(&files[0]);
        assert!(held.list().unwrap().is_empty());
        assert!(!held.link(OriginId(7), &file).unwrap(), "a file without a name cannot be linked");
    }

    #[test]
    fn a_deleted_folder_is_created_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("app.log");
        fs::write(&path, "1\n").unwrap();
        let mut held = HeldFolder::new(dir.path().join("held/app"));
        let file = File::open(&path).unwrap();
        assert!(held.link(OriginId(7), &file).unwrap());
        fs::remove_dir_all(dir.path().join("held")).unwrap();
        assert!(held.link(OriginId(7), &file).unwrap());
        assert!(held.path_of(&HeldFile { id: OriginId(7), copied_from: None }).exists());
    }

    #[test]
    fn a_copy_keeps_head_fingerprint_and_rest_at_their_offsets() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("app.log");
        let text: Vec<u8> =
            (0..3_000_000_u32).map(|n| if n % 100 == 99 { b'\n' } else { n as u8 | 32 }).collect();
        fs::write(&path, &text).unwrap();
        let mut held = HeldFolder::new(dir.path().join("held/app"));
        let content = Content::new(File::open(&path).unwrap(), &path).unwrap();
        let from = 2_000_000;
        assert_eq!(held.copy(OriginId(7), &content, from, later()).unwrap(), text.len() as u64);
        let copy =
            fs::read(held.path_of(&HeldFile { id: OriginId(7), copied_from: Some(from) })).unwrap();
        let (head, fingerprint) =
            (HEAD_BYTES_MAX as usize, from as usize - FINGERPRINT_BYTES_MAX as usize);
        assert_eq!(copy.len(), text.len());
        assert!(copy[..head] == text[..head] && copy[fingerprint..] == text[fingerprint..]);
        assert!(copy[head..fingerprint].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_copy_without_time_fails_and_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("app.log");
        fs::write(&path, "1\n").unwrap();
        let mut held = HeldFolder::new(dir.path().join("held/app"));
        let content = Content::new(File::open(&path).unwrap(), &path).unwrap();
        let error = held.copy(OriginId(7), &content, 0, Instant::now()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(held.list().unwrap().is_empty());
    }

    #[test]
    fn incomplete_copies_are_removed_after_a_crash() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["00000000000000ab-5.tmp", "00000000000000ab-5", "README"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let held = HeldFolder::new(dir.path().to_path_buf());
        assert_eq!(held.list().unwrap(), [HeldFile { id: OriginId(0xab), copied_from: Some(5) }]);
        assert!(
            !dir.path().join("00000000000000ab-5.tmp").exists()
                && dir.path().join("README").exists()
        );
    }
}
