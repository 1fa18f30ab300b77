//! The files of recordings, and the choice of the chunks to read.

use super::chunk::{FileFrom, id_of};
use super::config::Settings;
use millstream_jfr::read::{ChunkError, ChunkHeader, ChunkState, read_header};
use millstream_recorder::file::RecordedFile;
use millstream_tail::discover::{Discovered, walk};
use millstream_tail::{Symlinks, open_regular};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of recordings that are open at the same time. More recordings wait.
const OPEN_MAX: usize = 512;

/// Divisor of the process's limit on open files. The quotient is the number of recordings that a
/// source may open.
const OPEN_PART: usize = 4;

/// Identity of a file: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileKey(u64, u64);

/// A file of a recording.
pub struct Recording {
    /// Last known path.
    pub path: PathBuf,
    /// The open file; `None` while no chunk of the file is being read.
    pub file: Option<Arc<RecordedFile>>,
    /// Offset of the chunk to open next.
    pub next_at: u64,
    /// Length of the file when the source started for the first time, if this part is skipped;
    /// otherwise 0.
    pub skip_until: u64,
    /// Length and modification time when the file was closed or found to be invalid. The file is
    /// not reopened until they change.
    seen: Option<(u64, i64, i64)>,
    /// Whether a path refers to the file.
    pub is_there: bool,
}

impl Recording {
    /// Closes the file. After a change, the file is reopened, starting with the chunk at `next_at`.
    pub fn close(&mut self, next_at: u64) {
        let file = self.file.take();
        self.seen = file.and_then(|file| signature(file.file()));
        self.next_at = next_at;
    }
}

fn signature(file: &File) -> Option<(u64, i64, i64)> {
    let metadata = file.metadata().ok()?;
    Some((metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
}

/// All files of recordings.
#[derive(Default)]
pub struct Recordings {
    files: BTreeMap<FileKey, Recording>,
    /// Files that cannot be read, with the reasons.
    invalid: BTreeMap<PathBuf, String>,
}

/// The result of checking a path.
enum Looked {
    /// There is nothing new at the path.
    Known,
    /// There is a chunk at the path, and its file is now open.
    Opened(Box<Candidate>),
    /// The file at the path must wait, because too many recordings are open.
    Waits,
}

/// A chunk that can be opened.
pub struct Candidate {
    /// Identity of the file.
    pub key: FileKey,
    /// Path of the file.
    pub path: PathBuf,
    /// The opened file.
    pub file: Arc<RecordedFile>,
    /// Offset of the chunk in the file.
    pub base: u64,
    /// Header of the chunk.
    pub header: ChunkHeader,
    /// Whether the chunk is skipped, because it existed when the source started for the first time.
    pub is_skipped: bool,
}

impl Candidate {
    /// Rereads the header, because the chunk may have grown.
    pub fn refreshed(self) -> Candidate {
        let from = FileFrom { file: &self.file, base: self.base };
        let new = read_header(&from).ok().flatten();
        let is_same = |new: &ChunkHeader| {
            id_of(new) == id_of(&self.header)
                && new.state != ChunkState::Updating
                && new.chunk_bytes >= self.header.chunk_bytes
        };
        Candidate { header: new.filter(is_same).unwrap_or(self.header), ..self }
    }
}

impl Recordings {
    /// Walks the file system. Returns the next chunk of each file that has no open chunk, and the
    /// reasons why paths are not read or patterns match nothing.
    pub fn discover(
        &mut self,
        settings: &Settings,
        is_first: bool,
    ) -> (Vec<Candidate>, BTreeMap<String, String>) {
        let Discovered { files, unreadable, missing, .. } =
            walk(&settings.include, &settings.exclude);
        self.files.values_mut().for_each(|recording| recording.is_there = false);
        self.invalid.retain(|path, _| files.contains(path));
        let mut candidates = Vec::new();
        let mut waiting = Vec::new();
        let mut failed = BTreeMap::new();
        let open_max = OPEN_MAX.min(millstream_tail::open_max() / OPEN_PART);
        let mut open = self.files.values().filter(|recording| recording.file.is_some()).count();
        for path in &files {
            match self.look(open < open_max, path, is_first && settings.is_from_end) {
                Ok(Looked::Opened(found)) => {
                    open += 1;
                    self.invalid.remove(path);
                    candidates.push(*found);
                }
                Ok(Looked::Waits) => waiting.push(path.display().to_string()),
                Ok(Looked::Known) => {}
                Err(ChunkError::Io(error)) => {
                    failed.insert(path.clone(), error.to_string());
                }
                Err(ChunkError::Format(error)) => {
                    self.invalid.insert(path.clone(), error.to_string());
                }
            }
        }
        self.files.retain(|_, recording| recording.is_there || recording.file.is_some());
        let unreadable = unreadable.iter().chain(&failed).chain(&self.invalid);
        let mut reasons: BTreeMap<String, String> =
            unreadable.map(|(path, reason)| (path.display().to_string(), reason.clone())).collect();
        let why = || {
            format!("it is waiting because {open_max} recordings are open, which is the maximum")
        };
        reasons.extend(waiting.into_iter().map(|path| (path, why())));
        reasons.extend(missing.into_iter().map(|pattern| (pattern, "no match".to_owned())));
        (candidates, reasons)
    }

    fn look(
        &mut self,
        may_open: bool,
        path: &Path,
        is_skipped: bool,
    ) -> Result<Looked, ChunkError> {
        let metadata = std::fs::metadata(path)?;
        let key = FileKey(metadata.dev(), metadata.ino());
        let recording = self.files.entry(key).or_insert_with(|| Recording {
            path: path.to_owned(),
            file: None,
            next_at: 0,
            skip_until: if is_skipped { metadata.len() } else { 0 },
            seen: None,
            is_there: true,
        });
        recording.is_there = true;
        recording.path = path.to_owned();
        let now = Some((metadata.len(), metadata.mtime(), metadata.mtime_nsec()));
        if recording.file.is_some() || recording.seen == now {
            return Ok(Looked::Known);
        }
        if !may_open {
            return Ok(Looked::Waits);
        }
        let opened = open_regular(path, &Symlinks::SameOwner)?;
        let Some((file, _)) = opened else { return Ok(Looked::Known) };
        if recording.next_at > metadata.len() {
            // The file was truncated, and now contains another recording.
            (recording.next_at, recording.skip_until) = (0, 0);
        }
        let candidate = self.first_of(key, &Arc::new(RecordedFile::new(file, path)));
        if candidate.as_ref().map_or(true, Option::is_none)
            && let Some(recording) = self.files.get_mut(&key)
        {
            recording.seen = now;
        }
        Ok(candidate?.map_or(Looked::Known, |candidate| Looked::Opened(Box::new(candidate))))
    }

    /// Returns the next chunk of an opened file. If the file was overwritten, returns the first
    /// chunk.
    fn first_of(
        &mut self,
        key: FileKey,
        file: &Arc<RecordedFile>,
    ) -> Result<Option<Candidate>, ChunkError> {
        let candidate = self.next_of(key, file);
        if candidate.is_err()
            && let Some(recording) = self.files.get_mut(&key)
            && recording.next_at > 0
        {
            // The file was overwritten, so restart at its beginning. Chunks that were already read
            // resume at their saved positions.
            (recording.next_at, recording.skip_until) = (0, 0);
            return self.next_of(key, file);
        }
        candidate
    }

    /// Returns the next chunk of a file; `None` if it does not exist yet.
    pub fn next_of(
        &mut self,
        key: FileKey,
        file: &Arc<RecordedFile>,
    ) -> Result<Option<Candidate>, ChunkError> {
        let Some(recording) = self.files.get_mut(&key) else { return Ok(None) };
        let base = recording.next_at;
        let Some(header) = read_header(&FileFrom { file, base })? else { return Ok(None) };
        let has_bytes = file.file().metadata()?.len() >= base.saturating_add(header.chunk_bytes);
        // The rest of a file that is being copied arrives later.
        if header.state == ChunkState::Updating || header.chunk_bytes == 0 || !has_bytes {
            return Ok(None);
        }
        recording.file = Some(file.clone());
        recording.seen = None;
        let is_skipped = base < recording.skip_until;
        let (path, file) = (recording.path.clone(), file.clone());
        Ok(Some(Candidate { key, path, file, base, header, is_skipped }))
    }

    /// Returns the file with this identity.
    pub fn get_mut(&mut self, key: FileKey) -> Option<&mut Recording> {
        self.files.get_mut(&key)
    }

    /// Records the reason why a file cannot be read. Returns whether the file had no such record
    /// before.
    pub fn note_invalid(&mut self, path: &Path, error: &ChunkError) -> bool {
        self.invalid.insert(path.to_owned(), error.to_string()).is_none()
    }

    /// Returns the paths that cannot be read.
    pub fn invalid(&self) -> BTreeSet<PathBuf> {
        self.invalid.keys().cloned().collect()
    }
}

/// Returns whether no path refers to an open file.
pub fn is_deleted(file: &RecordedFile) -> io::Result<bool> {
    Ok(file.file().metadata()?.nlink() == 0)
}
