//! Held files: links to, and copies of, undelivered files that were deleted or may be deleted soon.
//!
//! | name | content |
//! |---|---|
//! | `ID` | a hard link to the file whose `file_id` is `ID`, 16 hexadecimal digits |
//! | `ID-FROM-TO` | a sparse copy of that file from offset `FROM` to offset `TO` (decimal); later bytes are not valid |
//! | `ID-FROM` | a copy by an earlier version, valid to its end |
//! | `ID.tmp` | a copy without a valid part; removed after a restart |
//!
//! Bytes in a sparse copy keep their offsets. The bytes before `FROM` are a hole, except the head
//! and the fingerprinted bytes that identify the file.
//!
//! A copy is renamed whenever more of it is synced, so it never contains bytes that the file does
//! not have, even after a power loss. A compressed file is copied as a whole, from offset 0. A link
//! shares the inode, so it includes bytes appended later. A link or a name is durable once
//! [`HeldFolder::sync`] has returned.

pub mod copy;

use super::content::Content;
use copy::{CopySource, HeldCopy};
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

/// Upper bound in bytes on the default limit for held files.
const HELD_BYTES_MAX: u64 = 1 << 30;

/// The default limit is at most 1/20 (5%) of the file system.
const DISK_SHARE: u64 = 20;

/// Extension of a copy without a valid part.
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
    /// The part of the file that a copy contains; `None` for a link.
    pub part: Option<CopiedPart>,
}

/// The part of a file that a copy contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CopiedPart {
    /// First offset.
    pub from: u64,
    /// End offset; `None` if the copy is valid to its end.
    pub to: Option<u64>,
}

impl HeldFile {
    /// Describes a link.
    pub fn link(id: OriginId) -> HeldFile {
        HeldFile { id, part: None }
    }

    /// Returns the end offset of a copy's valid part; `None` for a link.
    pub fn copied_to(&self) -> Option<u64> {
        self.part.and_then(|part| part.to)
    }

    fn name(&self) -> String {
        let id = self.id;
        match self.part {
            None => id.to_string(),
            Some(CopiedPart { from, to: None }) => format!("{id}-{from}"),
            Some(CopiedPart { from, to: Some(to) }) => format!("{id}-{from}-{to}"),
        }
    }

    fn parse(name: &str) -> Option<HeldFile> {
        let mut fields = name.splitn(3, '-');
        let id = fields.next()?;
        let is_id = id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let from = fields.next().map(str::parse).transpose().ok()?;
        let to = fields.next().map(str::parse).transpose().ok()?;
        Some(HeldFile {
            id: u64::from_str_radix(id, 16).ok().filter(|_| is_id).map(OriginId)?,
            part: from.map(|from| CopiedPart { from, to }),
        })
    }
}

fn unfinished_name(id: OriginId) -> String {
    format!("{id}{UNFINISHED}")
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
        let name = HeldFile::link(id).name();
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

    /// Begins a copy of a file from offset `from`. The copy has no valid part yet.
    pub fn begin_copy(&mut self, source: CopySource, from: u64) -> io::Result<HeldCopy> {
        let name = unfinished_name(source.id);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let target = openat(self.folder()?.file(), &name, flags, Mode::RUSR | Mode::WUSR)?;
        let target = Arc::new(RecordedFile::new(target.into(), &self.path.join(&name)));
        let id = source.id;
        let copy = HeldCopy::begin(source, target, from);
        if copy.is_err() {
            self.discard_copy(id);
        }
        copy
    }

    /// Renames a copy after more of it was synced. `before` is the copy's previous description;
    /// `None` if it had no valid part. The name is durable after [`HeldFolder::sync`].
    pub fn publish(&mut self, before: Option<&HeldFile>, copy: &HeldFile) -> io::Result<()> {
        let unfinished = || self.path.join(unfinished_name(copy.id));
        let before = before.map_or_else(unfinished, |before| self.path_of(before));
        std::fs::rename(before, self.path_of(copy))?;
        self.folder()?;
        self.unsynced = true;
        Ok(())
    }

    /// Removes a copy without a valid part.
    pub fn discard_copy(&self, id: OriginId) {
        _ = std::fs::remove_file(self.path.join(unfinished_name(id)));
    }

    /// Copies a file durably from offset `from` to its end. If the deadline passes or the disk is
    /// full, the copy ends after its last complete line; a compressed file is then not copied at
    /// all. Returns the description of the copy.
    pub fn copy(
        &mut self,
        id: OriginId,
        content: &Content,
        from: u64,
        deadline: Instant,
    ) -> io::Result<HeldFile> {
        let mut copy = self.begin_copy(CopySource::new(id, content), from)?;
        let finished = copy.finish(deadline);
        let is_whole = finished.is_ok();
        let published = match (copy.held(is_whole), finished) {
            (Some(held), _) => self.publish(None, &held).and_then(|()| self.sync()).map(|()| held),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => Err(io::ErrorKind::UnexpectedEof.into()),
        };
        if published.is_err() {
            self.discard_copy(id);
        }
        published
    }

    /// Renames a held file to the id under which it will be read. The rename is durable after
    /// [`HeldFolder::sync`].
    pub fn rename(&mut self, file: &HeldFile, id: OriginId) -> io::Result<HeldFile> {
        let renamed = HeldFile { id, part: file.part };
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
        files.sort_by_key(|file| (file.id, file.part));
        Ok(files)
    }

    /// Opens a held file for reading. Removes the bytes of a copy that are not valid, which a crash
    /// left behind.
    pub fn open(&self, file: &HeldFile) -> io::Result<File> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(flags.bits() as i32);
        let opened = options.open(self.path_of(file))?;
        let size = fstat(&opened)?.st_size as u64;
        if let Some(to) = file.copied_to().filter(|to| *to < size) {
            options.write(true).open(self.path_of(file))?.set_len(to)?;
        }
        Ok(opened)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn names_round_trip_and_other_names_are_ignored() {
        let parts = [(0, None), (7_000_000_000, None), (5, Some(7_000_000_000))];
        let parts = parts.map(|(from, to)| Some(CopiedPart { from, to }));
        for part in parts.into_iter().chain([None]) {
            let file = HeldFile { id: OriginId(0xab), part };
            assert_eq!(HeldFile::parse(&file.name()), Some(file));
        }
        for other in
            ["", "ab", "00000000000000ab-", "00000000000000ab-x", "00000000000000ab-1-2-3", "notes"]
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
        assert_eq!(files, [HeldFile::link(OriginId(7))]);
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
        assert!(held.path_of(&HeldFile::link(OriginId(7))).exists());
    }

    #[test]
    fn incomplete_copies_are_removed_after_a_crash() {
        let dir = tempfile::tempdir().unwrap();
        let unfinished = ["00000000000000ab-5.tmp", "00000000000000ab.tmp"];
        for name in unfinished.into_iter().chain(["00000000000000ab-5", "README"]) {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let held = HeldFolder::new(dir.path().to_path_buf());
        let part = Some(CopiedPart { from: 5, to: None });
        assert_eq!(held.list().unwrap(), [HeldFile { id: OriginId(0xab), part }]);
        assert!(unfinished.iter().all(|name| !dir.path().join(name).exists()));
        assert!(dir.path().join("README").exists());
    }
}
