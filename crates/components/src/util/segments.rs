//! Snapshots of a merge transform: the changes since the last snapshot, appended to a file.
//!
//! A segment is a file `NUMBER.segment` of frames. A frame is the length of the body in four bytes,
//! its XXH3 hash in eight bytes, both little-endian, and the body; the hash is seeded with the hash
//! of the previous frame. The store contains the segment number, the segment's length and the last
//! hash. Data after this length was not committed and is truncated. When a segment is much larger
//! than the state that it describes, the next frame starts a new segment.

use millstream_recorder::file::{self, RecordedFile};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Length in bytes that a segment must exceed before a new segment starts.
const SEGMENT_BYTES_MIN: u64 = 1 << 20;

/// Ratio of a segment's length to the length of its first frame that must be exceeded before a new
/// segment starts.
const GROWTH_MAX: u64 = 8;

/// Number of bytes before a frame's body.
const HEAD_BYTES: usize = 12;

/// The position of a snapshot, as saved in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// Segment number.
    segment: u64,
    /// Committed length of the segment in bytes.
    length: u64,
    /// Hash of the last committed frame.
    hash: u64,
    /// Length of the first frame in bytes.
    base: u64,
    /// Number of the next result. Smaller numbers are used up even if the segment is lost.
    next: u64,
}

/// Applies the body of a frame; returns `None` if the body is invalid.
pub type Apply<'a> = &'a mut dyn FnMut(&[u8]) -> Option<()>;

/// The file of a snapshot.
pub struct Segments {
    folder: PathBuf,
    file: Option<RecordedFile>,
    place: Place,
}

impl Segments {
    /// Opens the snapshot in `folder` at the position in the store, and applies its frames.
    ///
    /// # Errors
    /// Returns an error if the snapshot cannot be read or is damaged. In that case, its state is
    /// lost, even if some frames were applied.
    pub fn open(
        folder: &Path,
        place: Option<Place>,
        apply: Apply<'_>,
    ) -> (Segments, io::Result<()>) {
        let read = place.map_or(Ok(()), |place| read(folder, &place, apply));
        let next = place.unwrap_or_default().next;
        let place = match &read {
            Ok(()) => place.unwrap_or_default(),
            Err(_) => {
                Place { segment: place.map_or(0, |saved| saved.segment), next, ..Place::default() }
            }
        };
        let segments = Segments { folder: folder.to_path_buf(), file: None, place };
        match &read {
            Ok(()) => segments.remove_others(),
            Err(_) => segments.set_aside(),
        }
        (segments, read)
    }

    /// Returns the number of the next result according to the store.
    pub fn next(&self) -> u64 {
        self.place.next
    }

    /// Returns whether the next frame starts a new segment, and so must contain the whole state.
    pub fn begins_segment(&self) -> bool {
        let Place { length, base, .. } = self.place;
        length == 0 || length > SEGMENT_BYTES_MIN.max(base * GROWTH_MAX)
    }

    /// Appends a frame, which is durable when the function returns. `begins` means that the frame
    /// contains the whole state and starts a new segment. `next` is the number of the next result.
    ///
    /// # Errors
    /// Returns an error if the frame cannot be written. The next attempt writes to the same
    /// position.
    pub fn append(&mut self, frame: &[u8], begins: bool, next: u64) -> io::Result<Place> {
        let mut place = Place { next, ..self.place };
        if begins {
            place = Place { segment: self.place.segment + 1, next, ..Place::default() };
            self.file = None;
        }
        let is_new = self.file.is_none();
        if is_new {
            self.file = Some(self.open_segment(place.segment, place.length)?);
        }
        let Some(file) = &self.file else { return Ok(place) };
        let hash = xxh3_64_with_seed(frame, place.hash);
        let length = u32::try_from(frame.len()).map_err(io::Error::other)?;
        let head = [&length.to_le_bytes()[..], &hash.to_le_bytes()].concat();
        file.write_all_at(&head, place.length)?;
        file.write_all_at(frame, place.length + HEAD_BYTES as u64)?;
        file.sync_content()?;
        if is_new {
            file::sync_folder(&self.folder)?;
        }
        place.length += (HEAD_BYTES + frame.len()) as u64;
        place.hash = hash;
        if begins {
            place.base = place.length;
        }
        self.place = place;
        Ok(place)
    }

    fn open_segment(&self, number: u64, length: u64) -> io::Result<RecordedFile> {
        // The groups of a window may contain parts of log lines, which other users must not be able
        // to read.
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let path = segment(&self.folder, number);
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).write(true).mode(0o600).open(&path)?;
        file.set_len(length)?;
        Ok(RecordedFile::new(file, &path))
    }

    /// Renames a damaged segment, so that it is neither read nor removed.
    fn set_aside(&self) {
        let path = segment(&self.folder, self.place.segment);
        // The file may not exist.
        let _ = fs::rename(&path, path.with_extension("damaged"));
    }

    /// Removes all segments except the current one. Call this only after the current segment is
    /// committed.
    pub fn remove_others(&self) {
        let current = segment(&self.folder, self.place.segment);
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let paths = entries.flatten().map(|entry| entry.path());
        for path in paths
            .filter(|path| *path != current && path.extension().is_some_and(|e| e == "segment"))
        {
            if let Err(error) = fs::remove_file(&path) {
                log::warn!("{} could not be removed: {error}", path.display());
            }
        }
    }
}

fn segment(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number}.segment"))
}

/// Reads a segment up to its committed length.
fn read(folder: &Path, place: &Place, apply: Apply<'_>) -> io::Result<()> {
    let path = segment(folder, place.segment);
    let bytes = file::read(&path)?;
    let damaged = || io::Error::other(format!("{} is damaged", path.display()));
    let committed = bytes.get(..place.length as usize).ok_or_else(damaged)?;
    let (mut rest, mut hash) = (committed, 0);
    while !rest.is_empty() {
        let length = array(&mut rest).map(u32::from_le_bytes).ok_or_else(damaged)?;
        let expected = array(&mut rest).map(u64::from_le_bytes).ok_or_else(damaged)?;
        let (body, behind) = rest.split_at_checked(length as usize).ok_or_else(damaged)?;
        hash = xxh3_64_with_seed(body, hash);
        if hash != expected {
            return Err(damaged());
        }
        apply(body).ok_or_else(damaged)?;
        rest = behind;
    }
    if hash == place.hash { Ok(()) } else { Err(damaged()) }
}

/// Takes an array from the front of `bytes`.
pub fn array<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (array, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*array)
}
