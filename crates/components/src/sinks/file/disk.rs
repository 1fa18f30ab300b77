//! File operations that the standard library lacks: renaming to an unused name, and vectored
//! appends.

use bytes::Bytes;
use millstream_recorder::file::{self, RecordedFile};
use rustix::fs::{CWD, RenameFlags, Stat, fstat, renameat_with};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Exclusive upper bound of the numbers that are tried to find an unused name.
const NAMES_MAX: u32 = 1000;

/// Maximum slices of one `writev` (Linux allows 1,024).
const SLICES_MAX: usize = 256;

/// A file that is appended to.
pub struct Appended {
    /// The file, open to append and to read.
    pub file: RecordedFile,
    /// Length that the file has according to the writes of this process.
    pub length: u64,
    /// Length to truncate to, if an earlier truncation failed.
    pending_truncation: Option<u64>,
}

impl Appended {
    /// Wraps a file whose first `length` bytes are accounted for.
    pub fn new(file: RecordedFile, length: u64) -> Appended {
        Appended { file, length, pending_truncation: None }
    }

    /// Returns the status of the file.
    pub fn stat(&self) -> io::Result<Stat> {
        Ok(fstat(self.file.file())?)
    }

    /// Returns the new length if the file was truncated (copytruncate) since the last write.
    /// Reports each truncation once.
    pub fn take_truncation(&mut self) -> io::Result<Option<u64>> {
        let size = self.stat()?.st_size as u64;
        if size >= self.length {
            return Ok(None);
        }
        // The truncation also removed the bytes that were still to be truncated.
        (self.length, self.pending_truncation) = (size, None);
        Ok(Some(size))
    }

    /// Appends all parts or none; a partial write is truncated.
    pub fn append(&mut self, parts: &[Bytes]) -> io::Result<()> {
        if let Some(length) = self.pending_truncation {
            self.file.file().set_len(length)?;
            self.pending_truncation = None;
        }
        // Use the length of the file, not the length of this process's writes, because the file may
        // have been truncated meanwhile.
        let before = self.stat()?.st_size as u64;
        let written = write_all(&self.file, parts);
        match written {
            Ok(bytes) => self.length = before + bytes,
            Err(_) => {
                self.pending_truncation = Some(before);
                if self.file.file().set_len(before).is_ok() {
                    self.pending_truncation = None;
                }
            }
        }
        written.map(drop)
    }
}

/// Returns the wall clock, in nanoseconds since 1970.
pub fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Renames a file to the first unused name, numbered `first` or higher. Never replaces a file.
pub fn rename_to_free(
    path: &Path,
    first: u32,
    name: impl Fn(u32) -> String,
) -> io::Result<PathBuf> {
    for number in first..NAMES_MAX {
        let free = path.with_file_name(name(number));
        match renameat_with(CWD, path, CWD, &free, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(free),
            Err(rustix::io::Errno::EXIST) => {}
            // Not every file system supports RENAME_NOREPLACE.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) if !free.exists() => {
                return std::fs::rename(path, &free).map(|()| free);
            }
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "found no unused name to rename the file to"))
}

/// Returns the folder of a file.
pub fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes the directory entries in a file's folder durable.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    file::sync_folder(folder(path))
}

/// Writes all parts, and returns the number of written bytes.
pub fn write_all(file: &RecordedFile, parts: &[Bytes]) -> io::Result<u64> {
    let mut total = 0;
    for group in parts.chunks(SLICES_MAX) {
        let mut slices: Vec<IoSlice<'_>> = group.iter().map(|part| IoSlice::new(part)).collect();
        let mut slices = &mut slices[..];
        while slices.iter().any(|slice| !slice.is_empty()) {
            match file.append(slices) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    total += n as u64;
                    IoSlice::advance_slices(&mut slices, n);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(total)
}
