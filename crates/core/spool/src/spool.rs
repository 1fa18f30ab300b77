//! The spool: its segments, and its read and write positions.

mod open;
mod read;
mod record;
mod release;
mod skip;
mod write;

use crate::format::{Position, Salt, Totals, segment_name};
use crate::scan::{FileBytes, Scanner};
use crate::{Damage, EntryNumber, Missing, SpoolDisk, SpoolOptions, SpoolStats};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use write::{Queue, Writer};

/// A segment file.
struct Segment {
    /// The number in the segment's name, which is the number of its first entry.
    first: EntryNumber,
    format: Arc<str>,
    /// The segment's salt; `None` if no header in the file could be read.
    salt: Option<Salt>,
    start: Position,
    /// End of the durable entries.
    end: u64,
    /// Totals of the durable entries.
    totals: Totals,
    /// End of all entries, including entries that are not synced yet.
    written_end: u64,
    written: Totals,
    /// Whether `totals` include every entry that has ever been durable. In that case, any missing
    /// entries are known to be lost.
    is_counted: bool,
    /// Whether the file existed before the last successful sync.
    is_durable: bool,
    /// Size of the file in bytes.
    file_bytes: u64,
    is_damaged: bool,
    has_footer: bool,
}

impl Segment {
    fn name(&self) -> String {
        segment_name(self.first)
    }

    fn has_unsynced(&self) -> bool {
        self.end != self.written_end
    }

    /// Returns the number of entries and events that the segment must contain, if known.
    fn known_totals(&self) -> Option<(u64, u64)> {
        self.is_counted.then_some((self.totals.entries, self.totals.events))
    }

    /// Returns a scanner at this position.
    fn scanner_at(&self, position: Position) -> Scanner {
        Scanner { position, salt: self.salt, totals: self.known_totals() }
    }
}

/// The state of reading a segment.
struct Reader {
    bytes: FileBytes,
    scanner: Scanner,
}

/// An entry that was returned and has not been released yet.
#[derive(Clone, Copy)]
struct InFlight {
    number: EntryNumber,
    written_ms: i64,
    segment: EntryNumber,
    position: Position,
}

/// The number and the time of an unread entry.
#[derive(Clone, Copy)]
struct Upcoming {
    number: EntryNumber,
    written_ms: i64,
}

/// A sequence of entries in segment files.
///
/// [`append`](Spool::append) and [`sync`](Spool::sync) add entries, [`next`](Spool::next) reads
/// them in order, and [`release`](Spool::release) removes delivered entries.
///
/// If `append` or `sync` fails, the spool has lost all entries since the last successful `sync`,
/// and the caller must append them again. They go to a new file, because the kernel may have lost
/// pages of the old file.
pub struct Spool {
    disk: Box<dyn SpoolDisk>,
    options: SpoolOptions,
    segments: VecDeque<Segment>,
    /// Entries before this number have been delivered.
    settled: EntryNumber,
    /// A number that is greater than that of any durable entry.
    after_durable: EntryNumber,
    /// Number of segments that have been read to the end.
    reading: usize,
    /// The segment being read; `None` at the start of a segment.
    reader: Option<Reader>,
    /// A number that is greater than that of any entry that was returned or passed over.
    after_read: EntryNumber,
    in_flight: VecDeque<InFlight>,
    /// The first unread entry, if it is known and is not the first one in its segment.
    upcoming: Option<Upcoming>,
    writer: Option<Writer>,
    queue: Queue,
    /// The first entry since the last sync.
    first_unsynced: Option<Upcoming>,
    /// Whether a file was created since the last sync of the folder.
    has_new_names: bool,
    /// Files that remain from failed writes, and files with dropped entries. They are removed
    /// before another file is created.
    stale: Vec<String>,
    damage: Vec<Damage>,
    missing: Missing,
}

impl Spool {
    /// Returns the lowest number that the next entry may have.
    fn next_number(&self) -> EntryNumber {
        let written = self.segments.back().filter(|segment| segment.written.entries > 0);
        let after_written = written.map_or(EntryNumber(0), |segment| segment.written.last.next());
        after_written.max(self.after_durable).max(self.settled)
    }

    /// Returns the size and the entries of the spool.
    pub fn stats(&self) -> SpoolStats {
        let mut stats = SpoolStats {
            bytes: self.segments.iter().map(|segment| segment.file_bytes).sum(),
            segments: self.segments.len(),
            next_number: self.next_number(),
            durable_end: self.after_durable,
            ..SpoolStats::default()
        };
        for (index, segment) in self.segments.iter().enumerate().skip(self.reading) {
            let position = self.position_in(index);
            stats.unread_entries += segment.totals.entries.saturating_sub(position.ordinal);
            stats.unread_events += segment.totals.events.saturating_sub(position.events);
            stats.unread_bytes += segment.end.saturating_sub(position.at);
        }
        stats.has_unread = stats.unread_entries > 0;
        stats.oldest_unread_ms = self.first_unread().map(|unread| unread.written_ms);
        let in_flight = self.in_flight.front().map(|entry| entry.written_ms);
        stats.oldest_unreleased_ms = in_flight.or(stats.oldest_unread_ms);
        stats
    }

    /// Returns the distinct payload formats of the segments with unread entries, in reading order.
    pub fn formats(&self) -> io::Result<Vec<Arc<str>>> {
        let mut formats: Vec<Arc<str>> = Vec::new();
        for index in self.reading..self.segments.len() {
            let segment = &self.segments[index];
            if self.has_unread_in(index) && !formats.contains(&segment.format) {
                formats.push(segment.format.clone());
            }
        }
        Ok(formats)
    }

    /// Takes the damage that was found since the last call.
    pub fn damage(&mut self) -> Vec<Damage> {
        std::mem::take(&mut self.damage)
    }

    /// Returns the entries that the record includes but the files lacked when the spool was opened.
    pub fn missing(&self) -> Missing {
        self.missing
    }

    /// Returns the position of the next entry to read in a segment.
    fn position_in(&self, index: usize) -> Position {
        let reader = self.reader.as_ref().filter(|_| index == self.reading);
        reader.map_or(self.segments[index].start, |reader| reader.scanner.position)
    }

    fn has_unread_in(&self, index: usize) -> bool {
        self.segments[index].totals.entries > self.position_in(index).ordinal
    }

    fn first_unread(&self) -> Option<Upcoming> {
        let index = (self.reading..self.segments.len()).find(|index| self.has_unread_in(*index))?;
        let totals = &self.segments[index].totals;
        let first = Upcoming { number: totals.first, written_ms: totals.first_ms };
        let is_partly_read = index == self.reading && self.position_in(index).ordinal > 0;
        // The upcoming entry is unknown only after a disk error. In that case, use the first entry
        // of the segment, which cannot be newer.
        Some(self.upcoming.filter(|_| is_partly_read).unwrap_or(first))
    }
}
