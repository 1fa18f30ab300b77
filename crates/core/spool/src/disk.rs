//! The storage for a spool: a folder or, in tests, a simulated disk that can lose power. This
//! module makes and records all system calls that read, write and sync segments.

use crate::SpoolError;
use millstream_recorder::record::{self, Subject};
use millstream_recorder::recorder;
use millstream_recorder::schema::EventKind;
use rustix::buffer::spare_capacity;
use rustix::io::{Errno, pread, pwritev};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, IoSlice};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Name of the file that is locked while a spool is open.
const LOCK: &str = "lock";

/// Bytes in the lock file: a process id, spaces and a line ending.
const LOCK_BYTES: usize = 12;

/// Maximum number of buffers passed to one system call; the kernel's limit is 1024.
const BUFFERS_MAX: usize = 512;

/// Number of attempts to lock a folder that another process may be removing at the same time.
const LOCK_ATTEMPTS: usize = 8;

/// Storage for a spool's files: a folder or, in tests, a simulated disk that can lose power.
pub trait SpoolDisk: Send {
    /// Returns the name of the storage for use in messages, such as the folder's path.
    fn location(&self) -> String;

    /// Lists the names of all files.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Creates a file; fails if the file exists. The file's name is durable after
    /// [`SpoolDisk::sync_folder`].
    fn create(&self, name: &str) -> io::Result<Box<dyn SegmentFile>>;

    /// Opens an existing file.
    fn open(&self, name: &str) -> io::Result<Box<dyn SegmentFile>>;

    /// Renames a file, and replaces any existing file with the new name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes file names durable.
    fn sync_folder(&self) -> io::Result<()>;
}

/// An open segment.
pub trait SegmentFile: Send {
    /// Returns the length in bytes.
    fn size(&self) -> io::Result<u64>;

    /// Writes all buffers one after the other, starting at position `at`.
    fn write_at(&self, at: u64, buffers: &[IoSlice<'_>]) -> io::Result<()>;

    /// Appends `len` bytes to `into`, starting at position `at`, or fewer if the file ends earlier.
    fn read_at(&self, at: u64, len: usize, into: &mut Vec<u8>) -> io::Result<()>;

    /// Shortens the file to `len` bytes.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes the content durable.
    fn sync(&self) -> io::Result<()>;
}

/// A folder that this process has locked.
///
/// Folders are created with mode 0700, files with 0600. Dropping the value removes the folder if it
/// is empty.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Creates the folder if it is missing, and locks it.
    ///
    /// # Errors
    /// Returns [`SpoolError::InUse`] if another process, or another `Folder` in this process, has
    /// locked the folder, even through another path, and [`SpoolError::Io`] if the folder cannot be
    /// created.
    pub fn open(path: &Path) -> Result<Folder, SpoolError> {
        let failed = |error| SpoolError::Io { folder: path.display().to_string(), error };
        for _ in 0..LOCK_ATTEMPTS {
            create_durably(path).map_err(failed)?;
            match lock(path) {
                Ok(Locked::Owned(lock)) => {
                    return Ok(Folder { path: path.to_path_buf(), _lock: lock });
                }
                Ok(Locked::By(process)) => {
                    return Err(SpoolError::InUse { folder: path.display().to_string(), process });
                }
                // Another process removed the lock file or the folder after this process had opened
                // the lock file.
                Ok(Locked::Removed) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(failed(io::ErrorKind::ResourceBusy.into()))
    }

    fn file(&self, name: &str, options: &mut OpenOptions) -> io::Result<Box<dyn SegmentFile>> {
        let path = self.path.join(name);
        let file = options.read(true).write(true).mode(0o600).open(&path)?;
        Ok(Box::new(RecordedFile::new(file, &path)))
    }
}

impl Drop for Folder {
    /// Remove the lock file while it is still locked, so that no other process unknowingly locks a
    /// removed file.
    fn drop(&mut self) {
        let _ = fs::remove_file(self.path.join(LOCK));
        // This call fails, as intended, unless the folder is empty.
        let _ = fs::remove_dir(&self.path);
    }
}

/// Creates a folder and its missing parents, and makes their names durable. Otherwise a power loss
/// could remove the folder with all synced files in it.
fn create_durably(path: &Path) -> io::Result<()> {
    let above = path.ancestors().skip(1);
    let missing = above.take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists());
    let created: Vec<&Path> = std::iter::once(path).chain(missing).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    for folder in created {
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
        sync_folder(parent.unwrap_or(Path::new(".")))?;
    }
    Ok(())
}

/// The result of an attempt to lock a folder.
enum Locked {
    Owned(File),
    By(String),
    Removed,
}

fn lock(folder: &Path) -> io::Result<Locked> {
    let path = folder.join(LOCK);
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true).mode(0o600);
    let file = options.open(&path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Ok(Locked::By(fs::read_to_string(&path)?.trim().to_owned()));
        }
        Err(TryLockError::Error(error)) => return Err(error),
    }
    if fs::metadata(&path)?.ino() != file.metadata()?.ino() {
        return Ok(Locked::Removed);
    }
    let owner = format!("{:<1$}\n", std::process::id(), LOCK_BYTES - 1);
    if let Err(error) = file.write_all_at(owner.as_bytes(), 0) {
        // The lock is effective even if the file's content cannot be written because the disk is
        // full.
        log::debug!("{}: {error}", path.display());
    }
    Ok(Locked::Owned(file))
}

impl SpoolDisk for Folder {
    fn location(&self) -> String {
        self.path.display().to_string()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let names =
            fs::read_dir(&self.path)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names.filter_map(Result::transpose).collect()
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn SegmentFile>> {
        self.file(name, OpenOptions::new().create_new(true))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn SegmentFile>> {
        self.file(name, &mut OpenOptions::new())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync_folder(&self) -> io::Result<()> {
        sync_folder(&self.path)
    }
}

/// Makes the file names in a folder durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = File::open(path)?;
    let timer = recorder::start(EventKind::FileSync);
    folder.sync_all()?;
    record::file_sync(timer, &Subject::file(path));
    Ok(())
}

/// A segment file that records its reads, writes and syncs: one event for each successful system
/// call, with the number of bytes that the call returned.
pub struct RecordedFile {
    file: File,
    subject: Subject,
}

impl RecordedFile {
    /// Wraps `file`, which was opened at this path.
    pub fn new(file: File, path: &Path) -> RecordedFile {
        RecordedFile { file, subject: Subject::file(path) }
    }

    fn pread(&self, into: &mut Vec<u8>, at: u64) -> Result<usize, Errno> {
        let timer = recorder::start(EventKind::FileRead);
        let bytes = pread(&self.file, spare_capacity(into), at)?;
        record::file_read(timer, &self.subject, bytes, bytes == 0);
        Ok(bytes)
    }

    fn pwritev(&self, buffers: &[IoSlice<'_>], at: u64) -> Result<usize, Errno> {
        let timer = recorder::start(EventKind::FileWrite);
        let bytes = pwritev(&self.file, buffers, at)?;
        record::file_write(timer, &self.subject, bytes);
        Ok(bytes)
    }
}

impl SegmentFile for RecordedFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn write_at(&self, mut at: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        for buffers in buffers.chunks(BUFFERS_MAX) {
            write_all(self, at, buffers)?;
            at += buffers.iter().map(|buffer| buffer.len() as u64).sum::<u64>();
        }
        Ok(())
    }

    fn read_at(&self, mut at: u64, len: usize, into: &mut Vec<u8>) -> io::Result<()> {
        let end = into.len() + len;
        into.reserve_exact(len);
        while into.len() < end {
            let read = match self.pread(into, at) {
                Err(Errno::INTR) => continue,
                read => read?,
            };
            if read == 0 {
                break;
            }
            at += read as u64;
        }
        // The buffer may have more capacity than requested.
        into.truncate(end);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        let timer = recorder::start(EventKind::FileSync);
        self.file.sync_data()?;
        record::file_sync(timer, &self.subject);
        Ok(())
    }
}

/// Writes all buffers with as few system calls as the kernel permits.
fn write_all(file: &RecordedFile, mut at: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
    let total: usize = buffers.iter().map(|buffer| buffer.len()).sum();
    let mut written = 0;
    while written < total {
        let rest = behind(buffers, written);
        match file.pwritev(&rest, at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(bytes) => {
                written += bytes;
                at += bytes as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Returns the buffers without their first `skip` bytes.
fn behind<'a>(buffers: &'a [IoSlice<'a>], mut skip: usize) -> Vec<IoSlice<'a>> {
    let mut rest = Vec::with_capacity(buffers.len());
    for buffer in buffers {
        let skipped = skip.min(buffer.len());
        skip -= skipped;
        if skipped < buffer.len() {
            rest.push(IoSlice::new(&buffer[skipped..]));
        }
    }
    rest
}
