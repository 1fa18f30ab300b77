//! The files of runs in the data folder.
//!
//! Each run has a file `run-TIME.rings`, or, while it is running, a link to a file in memory (see
//! [`memory`]). A run holds a lock on its file, so that other processes can tell whether the run is
//! still active. The next run removes the files of runs that ended in an orderly way, and all but
//! the newest two files of runs that died. Of the remaining files, those in memory are moved to
//! disk.

pub mod memory;

use jiff::Timestamp;
use millstream_config::RecorderStorage;
use millstream_recorder::snapshot::{NoRecording, Snapshot};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

/// Folder of the files in `data_dir`.
pub const FOLDER: &str = "recorder";

/// Number of files to keep from runs that died: the latest run, and the previous one for
/// comparison.
const DIED_MAX: usize = 2;

/// Bytes of a header.
const HEADER_BYTES: u64 = 4096;

/// The target of log lines about these files, by which operators may select them.
const TARGET: &str = "millstream::recorder::files";

const PREFIX: &str = "run-";
const SUFFIX: &str = ".rings";
/// File name suffix of an incomplete file.
const NEW: &str = ".new";

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The run has not ended.
    Running,
    /// The run ended in an orderly way.
    Ended,
    /// The run was ended by a crash, a kill or a power loss.
    Died,
}

/// The file of a run.
#[derive(Debug)]
pub struct RunFile {
    /// Path of the file.
    pub path: PathBuf,
    /// How the run ended.
    pub end: End,
    /// The header, or the reason why it cannot be read.
    pub header: Result<Snapshot, NoRecording>,
}

impl RunFile {
    /// Reads the header of a file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read.
    pub fn open(path: &Path) -> io::Result<RunFile> {
        let file = memory::open(path)?;
        let is_running = matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
        let mut bytes = Vec::new();
        file.take(HEADER_BYTES).read_to_end(&mut bytes)?;
        let header = Snapshot::parse(&bytes);
        let end = match &header {
            _ if is_running => End::Running,
            Ok(header) if header.has_ended() => End::Ended,
            // The copy was made while the agent ran.
            Ok(header) if header.is_copy() => End::Running,
            _ => End::Died,
        };
        Ok(RunFile { path: path.to_owned(), end, header })
    }

    /// Returns whether the file may be needed: its run died and recorded events. A file of another
    /// release is also kept, because that release may be able to read it.
    fn is_worth_keeping(&self) -> bool {
        let has_events = matches!(self.header, Ok(_) | Err(NoRecording::OtherVersion));
        has_events && self.end != End::Ended
    }
}

/// Returns the file paths of all runs, from the oldest to the newest.
///
/// # Errors
///
/// Returns an error if the folder cannot be read.
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

/// The files of earlier runs.
#[derive(Debug, Default)]
pub struct Earlier {
    /// Files of runs that died.
    pub kept: Vec<PathBuf>,
    /// Files that are no longer needed.
    pub useless: Vec<PathBuf>,
}

impl Earlier {
    /// Removes the files that are no longer needed, and moves all other files to disk, including
    /// files of data folders that no agent uses anymore.
    pub fn clean(&self) {
        remove(&self.useless);
        self.kept.iter().for_each(|path| leave_memory(path));
        memory::remove_abandoned();
        memory::unused_links().iter().for_each(|path| leave_memory(path));
    }
}

/// Finds the files of earlier runs. The caller holds the lock of the data folder.
pub fn earlier(folder: &Path) -> Earlier {
    let is_unfinished = |name: &str| name.starts_with(PREFIX) && name.ends_with(NEW);
    let mut useless = named_files(folder, is_unfinished).unwrap_or_default();
    let mut kept = Vec::new();
    for path in list(folder).unwrap_or_default().into_iter().rev() {
        let is_kept = RunFile::open(&path).is_ok_and(|run| run.is_worth_keeping());
        if is_kept && kept.len() < DIED_MAX {
            kept.push(path);
        } else {
            useless.push(path);
        }
    }
    Earlier { kept, useless }
}

/// Removes files and the files that they link to.
pub fn remove(paths: &[PathBuf]) {
    for path in paths {
        let target = memory::owned_target(path).map_or(Ok(()), fs::remove_file);
        let removed = fs::remove_file(path).and(target);
        if let Err(error) = removed
            && error.kind() != ErrorKind::NotFound
        {
            log::warn!(target: TARGET, "recorder: cannot remove {}: {error}", path.display());
        }
    }
}

fn leave_memory(path: &Path) {
    if let Err(error) = to_disk(path) {
        log::warn!(
            target: TARGET,
            "recorder: cannot move {} from memory to disk: {error}",
            path.display()
        );
    }
}

/// Moves a file in memory to disk in place of its link, so that the file survives a reboot.
fn to_disk(path: &Path) -> io::Result<()> {
    let Some(target) = memory::owned_target(path) else { return Ok(()) };
    replace(path, &mut memory::open(&target)?)
}

/// Replaces a link to a file in memory with a file with other content, and removes the linked file.
///
/// # Errors
///
/// Returns an error if the file cannot be written. In this case, the link is unchanged.
pub fn replace(path: &Path, content: &mut dyn Read) -> io::Result<()> {
    let target = memory::target(path);
    let new = new_path(path);
    let written = create_file(&new).and_then(|mut file| {
        io::copy(content, &mut file)?;
        fs::rename(&new, path)
    });
    if let Err(error) = written {
        remove(&[new]);
        return Err(error);
    }
    target.map_or(Ok(()), fs::remove_file)
}

fn new_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(NEW);
    name.into()
}

fn create_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// An incomplete file, or a link to it. Dropping this value removes the file.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    file: Option<File>,
}

impl NewFile {
    /// Creates an empty file for a run that starts now. No other user may read it.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder or the file cannot be created.
    pub fn create(folder: &Path, storage: RecorderStorage) -> io::Result<NewFile> {
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let start = Timestamp::now().strftime("%Y%m%dT%H%M%S%.6fZ");
        let path = folder.join(format!("{PREFIX}{start}{SUFFIX}{NEW}"));
        let file = match storage {
            RecorderStorage::Disk => create_file(&path)?,
            RecorderStorage::Memory => linked(&path, &start.to_string())?,
        };
        let new = NewFile { file: Some(file), path };
        // On a file system without locks, no lock can be misinterpreted.
        let _ = new.file().try_lock();
        Ok(new)
    }

    /// Returns the file.
    pub fn file(&self) -> &File {
        self.file.as_ref().expect("taken only when it is kept")
    }

    /// Gives the file its final name. Returns the name and the file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be renamed.
    pub fn keep(mut self) -> io::Result<(PathBuf, File)> {
        let path = self.path.with_extension("");
        if memory::target(&self.path).is_some() {
            memory::note_link(self.file(), &path)?;
        }
        fs::rename(&self.path, &path)?;
        let file = self.file.take().ok_or(ErrorKind::NotFound)?;
        Ok((path, file))
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            remove(std::slice::from_ref(&self.path));
        }
    }
}

/// Creates a file in memory, and a link to it.
fn linked(path: &Path, start: &str) -> io::Result<File> {
    let (target, file) = memory::create(start)?;
    if let Err(error) = symlink(&target, path) {
        let _ = fs::remove_file(target);
        return Err(error);
    }
    Ok(file)
}

#[cfg(test)]
mod tests;
