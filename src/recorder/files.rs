//! The files of runs in the data folder.
//!
//! Each run has a file `run-TIME.rings`. A run holds a lock on its file, so that others can tell
//! whether it still runs. The next run removes the file of a run that has ended in order, and all but
//! the newest two of runs that died.

use jiff::Timestamp;
use millstream_recorder::snapshot::{NoRecording, Snapshot};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Folder of the files in `data_dir`.
pub const FOLDER: &str = "recorder";

/// How many runs that died are kept: the latest, and one before it to compare with.
const DIED_MAX: usize = 2;

/// Bytes of a header.
const HEADER_BYTES: u64 = 4096;

const PREFIX: &str = "run-";
const SUFFIX: &str = ".rings";
/// What a name ends in before the file is complete.
const NEW: &str = ".new";

/// How a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It runs.
    Running,
    /// In order.
    Ended,
    /// By a crash, a kill or a power loss.
    Died,
}

/// The file of a run.
#[derive(Debug)]
pub struct RunFile {
    /// Where it is.
    pub path: PathBuf,
    /// How the run has ended.
    pub end: End,
    /// The header; or why it cannot be read.
    pub header: Result<Snapshot, NoRecording>,
}

impl RunFile {
    /// Reads the header of a file.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn open(path: &Path) -> io::Result<RunFile> {
        let file = File::open(path)?;
        let is_running = matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
        let mut bytes = Vec::new();
        file.take(HEADER_BYTES).read_to_end(&mut bytes)?;
        let header = Snapshot::parse(&bytes);
        let end = match &header {
            _ if is_running => End::Running,
            Ok(header) if header.has_ended() => End::Ended,
            _ => End::Died,
        };
        Ok(RunFile { path: path.to_owned(), end, header })
    }

    /// Whether it may be asked for: its run died and has recorded something. A file of another
    /// release may say more to that.
    fn is_worth_keeping(&self) -> bool {
        let has_events = matches!(self.header, Ok(_) | Err(NoRecording::OtherVersion));
        has_events && self.end != End::Ended
    }
}

/// Returns the paths of the files of all runs, from the oldest to the newest.
///
/// # Errors
///
/// The folder cannot be read.
pub fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let named = |name: &str| name.starts_with(PREFIX) && name.ends_with(SUFFIX);
    named_files(folder, named)
}

fn named_files(folder: &Path, is_named: impl Fn(&str) -> bool) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(&is_named) {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

/// Returns the files that no one needs. The caller holds the lock of the data folder.
pub fn useless(folder: &Path) -> Vec<PathBuf> {
    let is_unfinished = |name: &str| name.starts_with(PREFIX) && name.ends_with(NEW);
    let mut useless = named_files(folder, is_unfinished).unwrap_or_default();
    let mut kept = 0;
    for path in list(folder).unwrap_or_default().into_iter().rev() {
        let is_kept = RunFile::open(&path).is_ok_and(|run| run.is_worth_keeping());
        if is_kept && kept < DIED_MAX {
            kept += 1;
        } else {
            useless.push(path);
        }
    }
    useless
}

/// Removes files.
pub fn remove(paths: &[PathBuf]) {
    for path in paths {
        let removed = fs::remove_file(path);
        if let Err(error) = removed
            && error.kind() != ErrorKind::NotFound
        {
            log::warn!("recorder: {} cannot be removed: {error}", path.display());
        }
    }
}

/// A file that is not complete. Dropping it removes it.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    file: Option<File>,
}

impl NewFile {
    /// Creates an empty file of a run that starts now, which no other user may read.
    ///
    /// # Errors
    ///
    /// The folder or the file cannot be created.
    pub fn create(folder: &Path) -> io::Result<NewFile> {
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let start = Timestamp::now().strftime("%Y%m%dT%H%M%S%.6fZ");
        let path = folder.join(format!("{PREFIX}{start}{SUFFIX}{NEW}"));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let new = NewFile { file: Some(options.open(&path)?), path };
        // A file system without locks has none to misunderstand, either.
        let _ = new.file().try_lock();
        Ok(new)
    }

    /// Returns the file.
    pub fn file(&self) -> &File {
        self.file.as_ref().expect("taken only when it is kept")
    }

    /// Gives the file its final name; returns that and the file.
    ///
    /// # Errors
    ///
    /// The file cannot be renamed.
    pub fn keep(mut self) -> io::Result<(PathBuf, File)> {
        let path = self.path.with_extension("");
        fs::rename(&self.path, &path)?;
        let file = self.file.take().ok_or(ErrorKind::NotFound)?;
        Ok((path, file))
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.file.is_some() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests;
