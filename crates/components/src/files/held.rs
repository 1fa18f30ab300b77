//! A folder for files that are owed and were, or may soon be, deleted.
//!
//! | name | content |
//! |---|---|
//! | `ID` | a hard link to the file whose `file_id` is `ID`, 16 hexadecimal digits |
//! | `ID-OFFSET` | a copy of it: bytes keep their offsets, those before `OFFSET` (decimal) are a hole but for the head and the mark, by which the file is recognized |
//! | `ID-OFFSET.tmp` | a copy that is being written; removed at the next start |
//!
//! A compressed file is copied whole, from offset 0. A link shares the inode: bytes that are
//! appended to the file later are in it too. Both are durable once [`HeldFolder::sync`] or
//! [`HeldFolder::copy`] has returned.

use super::content::Content;
use super::identity::{FINGERPRINT_BYTES_MAX, HEAD_BYTES_MAX};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, linkat, openat, statvfs, unlinkat};
use std::collections::HashSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bytes per copy step; the deadline is checked in between.
const COPY_BYTES: usize = 1024 * 1024;

/// Default limit of held files in bytes, however large the disk is.
const HELD_BYTES_MAX: u64 = 1 << 30;

/// The default is at most one part in this many of the file system: 5 %.
const DISK_SHARE: u64 = 20;

/// Extension of an incomplete copy.
const UNFINISHED: &str = ".tmp";

/// The held files of one source.
pub struct HeldFolder {
    path: PathBuf,
    /// The folder, once it is known to exist.
    folder: Option<File>,
    /// Whether links were made that a power loss could undo.
    unsynced: bool,
    /// Devices that allow no links to their files.
    refused: HashSet<u64>,
}

/// A file in the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldFile {
    /// The file's `file_id`.
    pub id: u64,
    /// First offset in a copy; `None` for a link.
    pub copied_from: Option<u64>,
}

impl HeldFile {
    fn name(&self) -> String {
        let id = self.id;
        self.copied_from.map_or_else(|| format!("{id:016x}"), |from| format!("{id:016x}-{from}"))
    }

    fn parse(name: &str) -> Option<HeldFile> {
        let (id, from) = name.split_once('-').map_or((name, None), |(id, from)| (id, Some(from)));
        let is_id = id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let copied_from = from.map(str::parse).transpose().ok()?;
        Some(HeldFile { id: u64::from_str_radix(id, 16).ok().filter(|_| is_id)?, copied_from })
    }
}

impl HeldFolder {
    /// Uses the folder at `path`, which is created on demand.
    pub fn new(path: PathBuf) -> HeldFolder {
        HeldFolder { path, folder: None, unsynced: false, refused: HashSet::new() }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a file in it.
    pub fn path_of(&self, file: &HeldFile) -> PathBuf {
        self.path.join(file.name())
    }

    /// Returns the default limit in bytes: the smaller of 1 GiB and 5 % of the file system.
    pub fn default_bytes_max(&self) -> u64 {
        let existing = self.path.ancestors().find(|folder| folder.is_dir());
        let size =
            existing.and_then(|folder| statvfs(folder).ok()).map(|fs| fs.f_blocks * fs.f_frsize);
        size.map_or(HELD_BYTES_MAX, |bytes| (bytes / DISK_SHARE).min(HELD_BYTES_MAX))
    }

    /// Links an open file under its id; returns whether that is possible. [`HeldFolder::sync`]
    /// makes it durable. After an error it may be possible later.
    pub fn link(&mut self, id: u64, file: &File) -> io::Result<bool> {
        let stat = fstat(file)?;
        if stat.st_nlink == 0 || self.refused.contains(&stat.st_dev) {
            return Ok(false);
        }
        match self.try_link(id, file) {
            Ok(()) => {
                self.unsynced = true;
                Ok(true)
            }
            Err(error) if is_refusal(&error) => {
                self.refused.insert(stat.st_dev);
                log::info!(
                    "files deleted before they are delivered are held by their open descriptors, as no link \
                     can be made in {} ({error})",
                    self.path.display()
                );
                Ok(false)
            }
            // It was just deleted.
            Err(error) if error.kind() == io::ErrorKind::NotFound && is_deleted(file) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn try_link(&mut self, id: u64, file: &File) -> io::Result<()> {
        let name = HeldFile { id, copied_from: None }.name();
        let from = format!("/proc/self/fd/{}", file.as_raw_fd());
        let folder = self.folder()?;
        match linkat(CWD, &from, folder, &name, AtFlags::SYMLINK_FOLLOW) {
            Err(rustix::io::Errno::EXIST) => {
                unlinkat(folder, &name, AtFlags::empty())?;
                Ok(linkat(CWD, &from, folder, &name, AtFlags::SYMLINK_FOLLOW)?)
            }
            linked => Ok(linked?),
        }
    }

    /// Makes the links durable that were made since the last call.
    pub fn sync(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.unsynced)
            && let Some(folder) = &self.folder
        {
            folder.sync_all()?;
        }
        Ok(())
    }

    /// Copies a file from `from` until its end or the deadline, durably. Returns the offset that
    /// the copy reaches: for an incomplete one, the end of its last whole line.
    pub fn copy(
        &mut self,
        id: u64,
        content: &Content,
        from: u64,
        deadline: Instant,
    ) -> io::Result<u64> {
        let from = if content.is_compressed() { 0 } else { from };
        let held = HeldFile { id, copied_from: Some(from) };
        let unfinished = held.name() + UNFINISHED;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let copy = File::from(openat(self.folder()?, &unfinished, flags, Mode::RUSR | Mode::WUSR)?);
        let copied = copy_rest(content, &copy, from, deadline).and_then(|end| {
            copy.sync_all()?;
            std::fs::rename(self.path.join(&unfinished), self.path_of(&held))?;
            self.folder()?.sync_all()?;
            Ok(end)
        });
        if copied.is_err() {
            _ = std::fs::remove_file(self.path.join(&unfinished));
        }
        copied
    }

    /// Removes a settled file.
    pub fn remove(&self, file: &HeldFile) {
        match std::fs::remove_file(self.path_of(file)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                log::warn!("{} cannot be removed: {error}", self.path_of(file).display());
            }
            _ => {}
        }
    }

    /// Lists the files in it, and removes incomplete copies that a crash left.
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

    /// Opens a file in it for reading.
    pub fn open(&self, file: &HeldFile) -> io::Result<File> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(self.path_of(file))
    }

    /// Opens the folder, and creates it if it is missing. Log files may hold secrets: only the
    /// agent's user may list it.
    fn folder(&mut self) -> io::Result<&File> {
        let folder = match self.folder.take().filter(|folder| !is_deleted(folder)) {
            Some(folder) => folder,
            None => {
                DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
                for parent in self.path.ancestors().skip(1).take(2) {
                    File::open(parent)?.sync_all()?;
                }
                File::open(&self.path)?
            }
        };
        Ok(self.folder.insert(folder))
    }
}

/// Whether an open file has no name left.
fn is_deleted(file: &File) -> bool {
    fstat(file).is_ok_and(|stat| stat.st_nlink == 0)
}

/// Whether a link will never be possible: another file system, one without links, or other owners'
/// files under `fs.protected_hardlinks`.
fn is_refusal(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let refusals = [Errno::XDEV, Errno::PERM, Errno::ACCESS, Errno::OPNOTSUPP, Errno::MLINK];
    refusals.iter().any(|refusal| error.raw_os_error() == Some(refusal.raw_os_error()))
}

/// Copies head, mark and rest to the same offsets.
fn copy_rest(content: &Content, to: &File, from: u64, deadline: Instant) -> io::Result<u64> {
    let (source, rest) = (content.file(), from.saturating_sub(FINGERPRINT_BYTES_MAX));
    copy_range(source, to, 0, rest.min(HEAD_BYTES_MAX), None)?;
    match copy_range(source, to, rest, u64::MAX, Some(deadline))? {
        Copied::Whole(end) => Ok(end),
        Copied::Part(_, why) if content.is_compressed() => Err(why.into()),
        Copied::Part(end, why) => {
            let line_end = Content::new(to.try_clone()?)?.last_line_start(end)?;
            to.set_len(line_end)?;
            if line_end > from { Ok(line_end) } else { Err(why.into()) }
        }
    }
}

/// How far a copy reaches.
enum Copied {
    Whole(u64),
    /// Out of time or disk space.
    Part(u64, io::ErrorKind),
}

fn copy_range(
    source: &File,
    to: &File,
    mut at: u64,
    end: u64,
    deadline: Option<Instant>,
) -> io::Result<Copied> {
    let mut buffer = vec![0; COPY_BYTES];
    while at < end {
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Ok(Copied::Part(at, io::ErrorKind::TimedOut));
        }
        let wanted = (end - at).min(COPY_BYTES as u64) as usize;
        let n = source.read_at(&mut buffer[..wanted], at)?;
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
    fn names_read_back_and_others_are_left_alone() {
        for copied_from in [None, Some(0), Some(7_000_000_000)] {
            let file = HeldFile { id: 0xab, copied_from };
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
        assert!(held.link(7, &file).unwrap());
        assert!(held.link(7, &file).unwrap(), "again, over what is there");
        held.sync().unwrap();
        fs::remove_file(&path).unwrap();
        let files = HeldFolder::new(held.path().to_path_buf()).list().unwrap();
        assert_eq!(files, [HeldFile { id: 7, copied_from: None }]);
        assert_eq!(fs::read_to_string(held.path_of(&files[0])).unwrap(), "1\n");
        held.remove(&files[0]);
        assert!(held.list().unwrap().is_empty());
        assert!(!held.link(7, &file).unwrap(), "nothing is left to link to");
    }

    #[test]
    fn a_folder_that_vanishes_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("app.log");
        fs::write(&path, "1\n").unwrap();
        let mut held = HeldFolder::new(dir.path().join("held/app"));
        let file = File::open(&path).unwrap();
        assert!(held.link(7, &file).unwrap());
        fs::remove_dir_all(dir.path().join("held")).unwrap();
        assert!(held.link(7, &file).unwrap());
        assert!(held.path_of(&HeldFile { id: 7, copied_from: None }).exists());
    }

    #[test]
    fn a_copy_has_the_head_the_mark_and_the_rest_at_their_offsets() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("app.log");
        let text: Vec<u8> =
            (0..3_000_000_u32).map(|n| if n % 100 == 99 { b'\n' } else { n as u8 | 32 }).collect();
        fs::write(&path, &text).unwrap();
        let mut held = HeldFolder::new(dir.path().join("held/app"));
        let content = Content::new(File::open(&path).unwrap()).unwrap();
        let from = 2_000_000;
        assert_eq!(held.copy(7, &content, from, later()).unwrap(), text.len() as u64);
        let copy = fs::read(held.path_of(&HeldFile { id: 7, copied_from: Some(from) })).unwrap();
        let (head, fingerprint) =
            (HEAD_BYTES_MAX as usize, from as usize - FINGERPRINT_BYTES_MAX as usize);
        assert_eq!(copy.len(), text.len());
        assert!(copy[..head] == text[..head] && copy[fingerprint..] == text[fingerprint..]);
        assert!(copy[head..fingerprint].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_copy_for_which_there_is_no_time_is_no_copy() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("app.log");
        fs::write(&path, "1\n").unwrap();
        let mut held = HeldFolder::new(dir.path().join("held/app"));
        let content = Content::new(File::open(&path).unwrap()).unwrap();
        let error = held.copy(7, &content, 0, Instant::now()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(held.list().unwrap().is_empty());
    }

    #[test]
    fn what_a_crash_left_unfinished_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["00000000000000ab-5.tmp", "00000000000000ab-5", "README"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let held = HeldFolder::new(dir.path().to_path_buf());
        assert_eq!(held.list().unwrap(), [HeldFile { id: 0xab, copied_from: Some(5) }]);
        assert!(
            !dir.path().join("00000000000000ab-5.tmp").exists()
                && dir.path().join("README").exists()
        );
    }
}
