//! The store's files in `data_dir`, written so that a full disk does not prevent updates to
//! existing data.

use crate::modes;
use millstream_recorder::file::{self, RecordedFile};
use parking_lot::{Mutex, MutexGuard};
use redb::StorageBackend;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// File name of the database.
pub const DATABASE: &str = "checkpoints.redb";

/// File name of the second copy of the identities.
pub const IDENTITIES: &str = "identities";

/// Name of the file that contains the layout version of `data_dir`.
pub const FORMAT_FILE: &str = "format";

/// Bytes allocated beyond the end of the database, so that it can grow on a full disk.
const RESERVE_BYTES: u64 = 256 * 1024;

/// Storage for the store's files: a folder or, in tests, a simulated disk that can lose power.
pub trait Disk: Send + Sync {
    /// Opens the database file. Creates an empty file if there is none.
    fn database(&self) -> io::Result<Box<dyn StorageBackend>>;

    /// Renames an unreadable database, so that a new one can be created.
    fn set_aside(&self, reason: &str) -> io::Result<()>;

    /// Reads a file in the database's folder; returns no bytes if the file is missing.
    fn read(&self, name: &'static str) -> io::Result<Vec<u8>>;

    /// Opens a file in the database's folder for reading. A missing file reads as empty.
    fn reader(&self, name: &'static str) -> io::Result<Box<dyn Read>>;

    /// Replaces a file in the database's folder atomically. The file is durable on return.
    fn replace(&self, name: &'static str, bytes: &[u8]) -> io::Result<()> {
        self.replace_with(name, &mut |file| file.write_all(bytes))
    }

    /// Atomically replaces a file in the database's folder with the output of `write`. The file is
    /// durable on return.
    fn replace_with(
        &self,
        name: &'static str,
        write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()>;

    /// Overwrites part of a file in the database's folder.
    fn write(&self, name: &'static str, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Syncs a file in the database's folder.
    fn sync(&self, name: &'static str) -> io::Result<()>;
}

/// The files of a store in a folder.
pub struct Folder {
    path: PathBuf,
    /// The most recently written file, with its name.
    open: Mutex<Option<(&'static str, RecordedFile)>>,
}

impl Folder {
    /// Returns the disk for an existing folder.
    pub fn new(path: &Path) -> Folder {
        Folder { path: path.to_path_buf(), open: Mutex::default() }
    }

    fn opened(&self) -> MutexGuard<'_, Option<(&'static str, RecordedFile)>> {
        self.open.lock()
    }

    fn with_file<T>(
        &self,
        name: &'static str,
        work: impl Fn(&RecordedFile) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut open = self.opened();
        let file = match open.take() {
            Some((open_name, file)) if open_name == name => file,
            _ => {
                let path = self.path.join(name);
                RecordedFile::new(OpenOptions::new().write(true).open(&path)?, &path)
            }
        };
        let done = work(&file);
        *open = Some((name, file));
        done
    }

    fn sync_folder(&self) -> io::Result<()> {
        RecordedFile::new(File::open(&self.path)?, &self.path).sync()
    }
}

impl Disk for Folder {
    fn database(&self) -> io::Result<Box<dyn StorageBackend>> {
        let path = self.path.join(DATABASE);
        let mut options = modes::options();
        let file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        // Without a sync of the folder, the entry of a new file can be lost, and the file's synced
        // data with it.
        self.sync_folder()?;
        Ok(Box::new(DatabaseFile::new(file)?))
    }

    fn set_aside(&self, reason: &str) -> io::Result<()> {
        set_aside(&self.path.join(DATABASE), reason)
    }

    fn read(&self, name: &'static str) -> io::Result<Vec<u8>> {
        match file::read(&self.path.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            read => read,
        }
    }

    fn reader(&self, name: &'static str) -> io::Result<Box<dyn Read>> {
        let path = self.path.join(name);
        match File::open(&path) {
            Ok(file) => Ok(Box::new(RecordedFile::new(file, &path))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Box::new(io::empty())),
            Err(error) => Err(error),
        }
    }

    fn replace_with(
        &self,
        name: &'static str,
        write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        self.opened().take();
        let (path, draft) = (self.path.join(name), self.path.join(format!("{name}.new")));
        let written = write_synced(&draft, write).and_then(|()| std::fs::rename(&draft, path));
        if let Err(error) = written {
            // An incomplete file would only waste space.
            let _ = std::fs::remove_file(&draft);
            return Err(error);
        }
        self.sync_folder()
    }

    fn write(&self, name: &'static str, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.with_file(name, |file| file.write_all_at(bytes, at))
    }

    fn sync(&self, name: &'static str) -> io::Result<()> {
        self.with_file(name, RecordedFile::sync_content)
    }
}

fn write_synced(
    path: &Path,
    write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let file = modes::options().write(true).create(true).truncate(true).open(path)?;
    let file = RecordedFile::new(file, path);
    write(&mut Appended { file: &file, bytes: 0 })?;
    file.sync()
}

/// Writes to a new file, from its start.
struct Appended<'f> {
    file: &'f RecordedFile,
    bytes: u64,
}

impl Write for Appended<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_all_at(bytes, self.bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Renames a corrupt database to an unused name.
pub fn set_aside(path: &Path, reason: &str) -> io::Result<()> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut names = (seconds..).map(|number| path.with_extension(format!("corrupt-{number}")));
    let aside = names.find(|name| !name.exists()).unwrap_or_default();
    log::error!(
        "checkpoint store {} cannot be read ({reason}); renaming it to {} and creating a new one",
        path.display(),
        aside.display()
    );
    std::fs::rename(path, aside)
}

/// The database file. Its blocks are allocated when it grows and kept when it shrinks, so that a
/// commit that does not enlarge the database needs no disk space.
#[derive(Debug)]
struct DatabaseFile {
    file: File,
    /// Bytes from the start of the file for which blocks should be allocated.
    wanted: AtomicU64,
}

impl DatabaseFile {
    fn new(file: File) -> io::Result<DatabaseFile> {
        let bytes = file.metadata()?.len();
        let database = DatabaseFile { file, wanted: AtomicU64::new(bytes + RESERVE_BYTES) };
        if bytes > 0 {
            database.reserve(bytes);
        }
        Ok(database)
    }

    /// Allocates blocks for the file up to this length, and beyond it if space permits. If these
    /// blocks cannot be allocated, a later commit can fail on a full disk, and reports that error
    /// itself.
    fn reserve(&self, bytes: u64) {
        let wanted = self.wanted.fetch_max(bytes + RESERVE_BYTES, Ordering::Relaxed);
        let wanted = wanted.max(bytes + RESERVE_BYTES);
        let allocate = |bytes| fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, bytes);
        if allocate(wanted).is_err()
            && let Err(error) = allocate(bytes)
        {
            log::debug!("checkpoint store: cannot allocate {bytes} bytes on disk: {error}");
        }
    }

    /// Extends the file with allocated blocks. If there is no space, the file keeps its length.
    fn grow(&self, from: u64, to: u64) -> io::Result<()> {
        match fallocate(&self.file, FallocateFlags::empty(), from, to - from) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => self.file.set_len(to),
            Err(error) => {
                // Some file systems keep the blocks allocated before the error. This releases them.
                let _ = self.file.set_len(from);
                Err(error.into())
            }
            Ok(()) => Ok(()),
        }
    }
}

impl StorageBackend for DatabaseFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let before = self.file.metadata()?.len();
        if len > before {
            self.grow(before, len)?;
        } else {
            self.file.set_len(len)?;
        }
        self.reserve(len);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }
}

/// The last OS error from the database file. It is recorded because the library does not always
/// return it: the library may report an earlier failure, or panic as it does on a corrupt file.
#[derive(Clone, Debug, Default)]
pub struct SystemError(Arc<AtomicI32>);

impl SystemError {
    /// Takes the last error recorded since the previous call.
    pub fn take(&self) -> Option<io::Error> {
        let code = self.0.swap(0, Ordering::Relaxed);
        (code != 0).then(|| io::Error::from_raw_os_error(code))
    }

    /// Records the OS error if the call failed.
    pub fn note<T>(&self, done: io::Result<T>) -> io::Result<T> {
        if let Err(Some(code)) = done.as_ref().map_err(io::Error::raw_os_error) {
            self.0.store(code, Ordering::Relaxed);
        }
        done
    }
}

/// A file whose errors are recorded.
#[derive(Debug)]
pub struct Watched {
    /// The underlying file.
    pub file: Box<dyn StorageBackend>,
    /// Receives the errors from the file.
    pub error: SystemError,
}

impl StorageBackend for Watched {
    fn len(&self) -> io::Result<u64> {
        self.error.note(self.file.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.error.note(self.file.read(offset, out))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.error.note(self.file.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.error.note(self.file.sync_data())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.error.note(self.file.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.error.note(self.file.close())
    }
}
