//! Reads the segments in a folder without locking or changing them, even while an agent is running.
//!
//! Some of the returned entries may already be settled, because a segment is removed only once all
//! its entries are settled.

use crate::disk::RecordedFile;
use crate::format::{segment_name, segment_number};
use crate::scan::{
    Bytes as SegmentBytes, FileBytes, FoundEntry, Frame, OtherVersion, Scanner, Step,
};
use crate::{Damage, Entry, EntryNumber, SEGMENT_FORMAT, SegmentFile};
use bytes::Bytes;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Size, entries and damage of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Name of the file.
    pub name: String,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Entries that can be read.
    pub entries: u64,
    /// Events in these entries.
    pub events: u64,
    /// Number of the first readable entry.
    pub first: Option<EntryNumber>,
    /// Number of the last readable entry.
    pub last: Option<EntryNumber>,
    /// Time at which the first entry was written, in milliseconds since 1970 (UTC).
    pub first_written_ms: Option<i64>,
    /// Time at which the last entry was written, in milliseconds since 1970 (UTC).
    pub last_written_ms: Option<i64>,
    /// Payload format; `None` if no entry and no header can be read.
    pub format: Option<Arc<str>>,
    /// Parts of the file that cannot be read.
    pub damage: Vec<Damage>,
}

/// The contents of one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// Size, entries and damage of the segment.
    pub info: SegmentInfo,
    /// Readable entries of the segment.
    pub entries: Vec<Entry>,
}

/// Error for a segment with another version of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the segment has format {found}, but this release reads {SEGMENT_FORMAT}")]
pub struct OtherFormat {
    /// Version of the segment's format.
    pub found: u32,
}

impl From<OtherVersion> for OtherFormat {
    fn from(OtherVersion(found): OtherVersion) -> OtherFormat {
        OtherFormat { found }
    }
}

impl From<OtherFormat> for io::Error {
    fn from(error: OtherFormat) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }
}

/// Parses the bytes of a segment that may be damaged, or still being written.
///
/// # Errors
/// Returns an error if the segment has another version of the format.
pub fn parse(segment: &[u8]) -> Result<Parsed, OtherFormat> {
    let mut bytes = segment;
    let mut entries = Vec::new();
    let place = Place {
        name: String::new(),
        first: EntryNumber(0),
        limit: EntryNumber(u64::MAX),
        is_last: true,
    };
    match survey(&mut bytes, place, |entry| entries.push(entry)) {
        Ok(Ok(info)) => Ok(Parsed { info, entries }),
        Ok(Err(error)) => Err(error),
        // A reader of memory never fails.
        Err(_) => Ok(Parsed { info: SegmentInfo::default(), entries }),
    }
}

/// Returns a summary of each segment in a folder. The list is empty if the folder does not exist.
pub fn segments(folder: &Path) -> io::Result<Vec<SegmentInfo>> {
    let mut found = Vec::new();
    for place in places(folder)? {
        if let Some(mut bytes) = open(folder, &place)? {
            found.push(survey(&mut bytes, place, |_| {})??);
        }
    }
    Ok(found)
}

/// Returns the entries in a folder, in order, starting at number `from`.
///
/// # Errors
/// Returns an error if the folder cannot be read. If a file cannot be read, the iterator returns
/// the error and then ends.
pub fn entries(folder: &Path, from: EntryNumber) -> io::Result<Entries> {
    let mut places = VecDeque::from(places(folder)?);
    while places.front().is_some_and(|place| place.limit <= from) {
        places.pop_front();
    }
    Ok(Entries { folder: folder.to_path_buf(), places, current: None, from })
}

/// A segment in a folder.
struct Place {
    name: String,
    /// The number in the segment's name.
    first: EntryNumber,
    /// The first number of the next segment.
    limit: EntryNumber,
    /// Whether an agent may still be writing to the segment.
    is_last: bool,
}

/// Lists the segments in a folder, in order.
fn places(folder: &Path) -> io::Result<Vec<Place>> {
    let mut numbers = Vec::new();
    let listed = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed?,
    };
    for entry in listed {
        numbers.extend(entry?.file_name().to_str().and_then(segment_number));
    }
    numbers.sort_unstable();
    let limits = numbers.iter().skip(1).copied().map(Some).chain([None]);
    let place = |(first, next): (&EntryNumber, Option<EntryNumber>)| Place {
        name: segment_name(*first),
        first: *first,
        limit: next.unwrap_or(EntryNumber(u64::MAX)),
        is_last: next.is_none(),
    };
    Ok(numbers.iter().zip(limits).map(place).collect())
}

/// Opens a segment; returns `None` if it has been removed in the meantime.
fn open(folder: &Path, place: &Place) -> io::Result<Option<FileBytes>> {
    let path = folder.join(&place.name);
    match File::open(&path) {
        Ok(file) => {
            let file = RecordedFile::new(file, &path);
            let end = file.size()?;
            Ok(Some(FileBytes::new(Box::new(file), end)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a whole segment.
fn survey(
    bytes: &mut impl SegmentBytes,
    place: Place,
    mut on_entry: impl FnMut(Entry),
) -> io::Result<Result<SegmentInfo, OtherFormat>> {
    let mut segment = match Opened::new(bytes, place.first..place.limit)? {
        Ok(segment) => segment,
        Err(error) => return Ok(Err(error)),
    };
    let has_footer = segment.frame.footer.is_some();
    let mut info = SegmentInfo {
        name: place.name,
        bytes: segment.frame.file_bytes,
        format: segment.frame.header.as_ref().map(|header| header.format.clone()),
        ..SegmentInfo::default()
    };
    loop {
        let Step { skipped, found } = segment.step(bytes, EntryNumber(0))?;
        // The agent is writing the end of the last segment, or was writing it when it stopped.
        let may_be_torn = found.is_none() && place.is_last && !has_footer;
        if let Some(skipped) = skipped.filter(|_| !may_be_torn) {
            info.damage.push(skipped.damage(info.name.clone()));
        }
        match found {
            Some(FoundEntry { header, bytes: Some(bytes) }) => {
                let entry = header.entry(&Bytes::from(bytes));
                info.add(&entry);
                on_entry(entry);
            }
            Some(_) => {}
            None => return Ok(Ok(info)),
        }
    }
}

impl SegmentInfo {
    fn add(&mut self, entry: &Entry) {
        self.entries += 1;
        self.events = self.events.saturating_add(entry.meta.events);
        self.first.get_or_insert(entry.meta.number);
        self.last = Some(entry.meta.number);
        self.first_written_ms.get_or_insert(entry.meta.written_ms);
        self.last_written_ms = Some(entry.meta.written_ms);
        self.format.get_or_insert_with(|| entry.meta.format.clone());
    }
}

/// An open segment.
struct Opened {
    frame: Frame,
    scanner: Scanner,
    /// The range of numbers that the next entry may have.
    numbers: Range<EntryNumber>,
}

impl Opened {
    fn new(
        bytes: &mut impl SegmentBytes,
        numbers: Range<EntryNumber>,
    ) -> io::Result<Result<Opened, OtherFormat>> {
        let frame = match Frame::read(bytes)? {
            Ok(frame) => frame,
            Err(other) => return Ok(Err(other.into())),
        };
        bytes.set_end(frame.end());
        let scanner = Scanner::new(&frame);
        Ok(Ok(Opened { frame, scanner, numbers }))
    }

    /// Finds the next entry, and reads its bytes if its number is at least `from`.
    fn step(&mut self, bytes: &mut impl SegmentBytes, from: EntryNumber) -> io::Result<Step> {
        let wanted = self.numbers.start.max(from)..self.numbers.end;
        let step = self.scanner.step(bytes, |header| wanted.contains(&header.meta.number))?;
        if let Some(FoundEntry { header, bytes: Some(_) }) = &step.found {
            self.numbers.start = header.meta.number.next();
        }
        Ok(step)
    }
}

/// The entries in a folder, in order.
pub struct Entries {
    folder: PathBuf,
    places: VecDeque<Place>,
    current: Option<(FileBytes, Opened)>,
    from: EntryNumber,
}

impl Entries {
    /// Opens the next segment; returns `false` if there is none.
    fn open_next(&mut self) -> io::Result<bool> {
        while let Some(place) = self.places.pop_front() {
            if let Some(mut bytes) = open(&self.folder, &place)? {
                let opened = Opened::new(&mut bytes, place.first..place.limit)??;
                self.current = Some((bytes, opened));
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn read(&mut self) -> io::Result<Option<Entry>> {
        loop {
            let Some((bytes, segment)) = &mut self.current else {
                match self.open_next()? {
                    true => continue,
                    false => return Ok(None),
                }
            };
            match segment.step(bytes, self.from)?.found {
                Some(FoundEntry { header, bytes: Some(bytes) }) => {
                    return Ok(Some(header.entry(&Bytes::from(bytes))));
                }
                Some(_) => {}
                None => self.current = None,
            }
        }
    }
}

impl Iterator for Entries {
    type Item = io::Result<Entry>;

    fn next(&mut self) -> Option<io::Result<Entry>> {
        let read = self.read();
        if read.is_err() {
            self.places.clear();
            self.current = None;
        }
        read.transpose()
    }
}
