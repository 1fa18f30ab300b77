//! Opens a spool: finds its segments, and repairs the end of the last one.

use super::record::{Comparison, count_recorded, keep_copies};
use super::write::{Queue, remove};
use super::{Segment, Spool, Upcoming};
use crate::format::{EntryHeader, FOOTER, Position, Salt, Totals, segment_number};
use crate::scan::{Bytes, FileBytes, Frame, OtherVersion, Scanner};
use crate::{EntryMeta, EntryNumber, Missing, SpoolDisk, SpoolError, SpoolOptions, SpoolRecord};
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;

impl Spool {
    /// Opens the segments on `disk`. Entries that the record counts as settled are skipped, and
    /// segments that contain only such entries are removed.
    ///
    /// The headers and footers are read; a segment without a valid footer is read to its end. Bytes
    /// after the last valid entry in the last segment were not synced before a crash, so they are
    /// truncated. If the files contain fewer entries than the record counts, the difference is in
    /// [`Spool::missing`], and a copy of the last segment before the truncation is kept as
    /// `*.damaged`.
    ///
    /// # Errors
    /// Returns [`SpoolError::Newer`] if a segment has a newer format; the files are then unchanged.
    /// Returns [`SpoolError::Io`] for disk errors; in that case, no entry is lost, and the call can
    /// be repeated.
    pub fn open(
        disk: Box<dyn SpoolDisk>,
        options: SpoolOptions,
        record: impl Into<SpoolRecord>,
    ) -> Result<Spool, SpoolError> {
        let folder = disk.location();
        open(disk, options, &record.into()).map_err(|refused| match refused {
            Refused::Newer(found) => SpoolError::Newer { folder, found },
            Refused::Io(error) => SpoolError::Io { folder, error },
        })
    }
}

enum Refused {
    Newer(u32),
    Io(io::Error),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        Refused::Io(error)
    }
}

/// A segment file that was found, with the facts that are needed to read it.
struct FoundSegment {
    first: EntryNumber,
    bytes: FileBytes,
    frame: Frame,
}

/// The valid entries in a segment.
#[derive(Default)]
struct Valid {
    totals: Totals,
    /// End of the last valid entry.
    end: u64,
    /// Whether `totals` include all entries that the segment has ever contained.
    is_counted: bool,
    salt: Option<Salt>,
    format: Option<Arc<str>>,
}

fn open(
    disk: Box<dyn SpoolDisk>,
    options: SpoolOptions,
    record: &SpoolRecord,
) -> Result<Spool, Refused> {
    let found = found_segments(&*disk)?;
    let (mut segments, missing) = loaded_all(found, record)?;
    if missing.entries > 0 {
        keep_copies(&*disk, &segments);
    }
    repair(&*disk, &mut segments)?;
    let mut segments: VecDeque<Segment> =
        segments.into_iter().map(|(segment, _)| segment).collect();
    count_recorded(&mut segments, record);
    let mut spool = Spool {
        after_durable: segments.iter().map(Segment::after_durable).max().unwrap_or_default(),
        segments,
        disk,
        options,
        settled: record.settled,
        reading: 0,
        reader: None,
        after_read: EntryNumber(0),
        in_flight: VecDeque::new(),
        upcoming: None,
        writer: None,
        queue: Queue::default(),
        first_unsynced: None,
        has_new_names: false,
        stale: Vec::new(),
        damage: Vec::new(),
        missing,
    };
    spool.release(record.settled)?;
    Ok(spool)
}

/// Returns the segments, each with the end of its last valid entry, and the entries that are
/// missing according to the record.
fn loaded_all(
    found: Vec<FoundSegment>,
    record: &SpoolRecord,
) -> io::Result<(VecDeque<(Segment, u64)>, Missing)> {
    let mut comparison = Comparison::with(record);
    let mut segments = VecDeque::with_capacity(found.len());
    let mut limits: Vec<EntryNumber> = found.iter().skip(1).map(|next| next.first).collect();
    limits.push(EntryNumber(u64::MAX));
    for (mut found, limit) in found.into_iter().zip(limits) {
        let (segment, valid_end) = loaded(&mut found, limit, record.settled)?;
        comparison.add(&segment, &mut found.bytes)?;
        segments.push_back((segment, valid_end));
    }
    Ok((segments, comparison.missing()))
}

/// Reads the header and footer of every segment, in order.
fn found_segments(disk: &dyn SpoolDisk) -> Result<Vec<FoundSegment>, Refused> {
    let mut numbers: Vec<(EntryNumber, String)> = Vec::new();
    for name in disk.names()? {
        numbers.extend(segment_number(&name).map(|first| (first, name)));
    }
    numbers.sort_unstable();
    let mut found = Vec::with_capacity(numbers.len());
    for (first, name) in numbers {
        let file = disk.open(&name)?;
        let end = file.size()?;
        let mut bytes = FileBytes::new(file, end);
        match Frame::read(&mut bytes)? {
            Ok(frame) => found.push(FoundSegment { first, bytes, frame }),
            Err(OtherVersion(version)) => return Err(Refused::Newer(version)),
        }
    }
    Ok(found)
}

/// Loads a segment: the entries from the number in its name up to `limit`. Also returns the end of
/// the last valid entry.
fn loaded(
    found: &mut FoundSegment,
    limit: EntryNumber,
    settled: EntryNumber,
) -> io::Result<(Segment, u64)> {
    let frame = &found.frame;
    let numbers = found.first..limit;
    let are_ours =
        |totals: &Totals| numbers.contains(&totals.first) && numbers.contains(&totals.last);
    let sealed = frame.footer.filter(are_ours);
    let valid = match sealed {
        _ if limit <= settled => Valid::default(),
        Some(totals) => {
            Valid { totals, end: frame.end(), is_counted: true, salt: frame.salt, format: None }
        }
        None => scan(&mut found.bytes, frame, numbers)?,
    };
    let format = match (&frame.header, valid.format) {
        (Some(header), _) => header.format.clone(),
        (None, Some(format)) => format,
        (None, None) => first_format(&mut found.bytes, frame)?,
    };
    let end = if valid.is_counted { valid.end } else { frame.file_bytes };
    let segment = Segment {
        first: found.first,
        format,
        salt: valid.salt.or(frame.salt),
        start: frame.start(),
        end,
        totals: valid.totals,
        written_end: end,
        written: valid.totals,
        is_counted: valid.is_counted,
        is_durable: true,
        file_bytes: frame.file_bytes,
        is_damaged: false,
        has_footer: frame.footer.is_some(),
    };
    Ok((segment, valid.end))
}

/// Reads a segment to the end of its valid entries with these numbers.
fn scan(bytes: &mut impl Bytes, frame: &Frame, numbers: Range<EntryNumber>) -> io::Result<Valid> {
    let mut scanner = Scanner { totals: None, ..Scanner::new(frame) };
    let mut valid = Valid { end: frame.start().at, ..Valid::default() };
    while let Some(found) = scanner.step(bytes, |_| true)?.found {
        let EntryHeader { meta, position, .. } = found.header;
        if meta.number >= numbers.end {
            // From here on, the bytes remain from a failed write.
            valid.is_counted = true;
            valid.end = position.at;
            break;
        }
        // Lower numbers belong to another file, whose blocks a disk may leave in a file after a
        // torn write.
        if meta.number >= numbers.start {
            valid.add(&meta, scanner.position);
        }
    }
    valid.salt = scanner.salt;
    Ok(valid)
}

impl Valid {
    /// Adds an entry that ends at position `end`.
    fn add(&mut self, meta: &EntryMeta, end: Position) {
        self.totals.add(meta);
        // The counts in the position include damaged entries.
        self.totals.entries = end.ordinal;
        self.totals.events = end.events;
        self.end = end.at;
        self.format.get_or_insert_with(|| meta.format.clone());
    }
}

/// Returns the payload format of a segment whose header is damaged, taken from its first entry.
fn first_format(bytes: &mut impl Bytes, frame: &Frame) -> io::Result<Arc<str>> {
    let found = Scanner::new(frame).step(bytes, |_| false)?.found;
    Ok(found.map_or_else(|| Arc::from(""), |found| found.header.meta.format))
}

/// Removes segments without synced entries from the end, and cuts the last segment after its last
/// valid entry. The remaining bytes were being written when the agent was killed or the power
/// failed.
fn repair(disk: &dyn SpoolDisk, segments: &mut VecDeque<(Segment, u64)>) -> io::Result<()> {
    while let Some((torn, _)) = segments.back().filter(|(last, _)| last.totals.entries == 0) {
        log::debug!("disk buffer {}: {} contains no entry", disk.location(), torn.name());
        remove(disk, &torn.name())?;
        segments.pop_back();
    }
    let Some((last, valid_end)) = segments.back_mut() else { return Ok(()) };
    last.end = *valid_end;
    last.written_end = *valid_end;
    let file = disk.open(&last.name())?;
    let torn = last.file_bytes - last.end;
    if last.is_counted && torn == FOOTER as u64 {
        // After a kill, the content may be only in the kernel's cache.
        file.sync()?;
    } else {
        log::debug!(
            "disk buffer {}: removed an incomplete entry of {torn} bytes from {}",
            disk.location(),
            last.name()
        );
        last.is_counted = true;
        last.cut(&*file)?;
    }
    disk.sync_folder()
}

impl Segment {
    /// Returns a number that is greater than that of any durable entry.
    fn after_durable(&self) -> EntryNumber {
        match self.totals.entries {
            0 => self.first,
            _ => self.totals.last.next(),
        }
    }
}

impl Upcoming {
    /// Creates the description of an unread entry from its number and time.
    pub fn new(meta: &EntryMeta) -> Upcoming {
        Upcoming { number: meta.number, written_ms: meta.written_ms }
    }
}
