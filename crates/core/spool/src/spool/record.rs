//! Compares the files with an external record of the spool.

use super::Segment;
use super::release::remove_surplus_damaged;
use super::write::remove;
use crate::format::{FOOTER, Position, damaged_name};
use crate::scan::Bytes;
use crate::{Missing, SpoolDisk, SpoolRecord};
use std::collections::VecDeque;
use std::io::{self, IoSlice};

/// Number of bytes to copy at once.
const COPY_BYTES: usize = 1 << 20;

/// Counts the recorded entries that the segments contain.
pub(super) struct Comparison<'a> {
    record: &'a SpoolRecord,
    entries: u64,
    events: u64,
}

impl Comparison<'_> {
    /// Creates a comparison without segments.
    pub fn with(record: &SpoolRecord) -> Comparison<'_> {
        Comparison { record, entries: 0, events: 0 }
    }

    /// Adds a segment. Damaged entries count as present if the entries around them reveal their
    /// number, because reading will find the damage.
    pub fn add(&mut self, segment: &Segment, bytes: &mut impl Bytes) -> io::Result<()> {
        let SpoolRecord { settled, end, .. } = *self.record;
        let totals = &segment.totals;
        if totals.entries == 0 || totals.last < settled || totals.first >= end {
            return Ok(());
        }
        let is_whole = totals.first >= settled && totals.last < end;
        let (from, until) = match is_whole {
            true => (Position::default(), segment.after_last()),
            false => self.bounds(segment, bytes)?,
        };
        self.entries += until.ordinal.saturating_sub(from.ordinal);
        self.events += until.events.saturating_sub(from.events);
        Ok(())
    }

    /// Returns the positions at which a segment's recorded entries begin and end.
    fn bounds(
        &self,
        segment: &Segment,
        bytes: &mut impl Bytes,
    ) -> io::Result<(Position, Position)> {
        let SpoolRecord { settled, end, .. } = *self.record;
        let mut scanner = segment.scanner_at(segment.start);
        let mut from = segment.start;
        while let Some(found) = scanner.step(bytes, |_| false)?.found {
            let number = found.header.meta.number;
            if number >= end {
                return Ok((from, found.header.position));
            }
            if number < settled {
                from = scanner.position;
            }
        }
        Ok((from, segment.after_last()))
    }

    /// Returns the recorded entries that no segment contains.
    pub fn missing(&self) -> Missing {
        Missing {
            entries: self.record.entries.saturating_sub(self.entries),
            events: self.record.events.saturating_sub(self.events),
        }
    }
}

impl Segment {
    /// Returns the position after the last entry.
    fn after_last(&self) -> Position {
        let totals = &self.totals;
        Position { at: self.end, ordinal: totals.entries, events: totals.events }
    }
}

/// Sets `is_counted` for the segments whose entries the record includes, because entries that were
/// truncated from them are reported as missing.
pub(super) fn count_recorded(segments: &mut VecDeque<Segment>, record: &SpoolRecord) {
    let limits: Vec<_> = segments.iter().skip(1).map(|next| next.first).collect();
    for (segment, limit) in segments.iter_mut().zip(limits) {
        segment.is_counted |= record.entries > 0 && limit <= record.end;
    }
}

/// Keeps a copy of each file that [`open`](super::Spool::open) is about to truncate or remove.
/// `segments` contains each segment with the end of its last valid entry.
///
/// If an error occurs, only the copy is lost.
pub(super) fn keep_copies(disk: &dyn SpoolDisk, segments: &VecDeque<(Segment, u64)>) {
    for (segment, valid_end) in segments.iter().rev() {
        let rest = segment.file_bytes.saturating_sub(*valid_end);
        let is_intact = rest == 0 || segment.has_footer && rest == FOOTER as u64;
        if !is_intact && let Err(error) = keep_copy(disk, segment) {
            log::warn!("disk buffer {}: cannot keep {}: {error}", disk.location(), segment.name());
            // A partial copy would only waste space on a disk that may be full.
            _ = remove(disk, &damaged_name(segment.first));
        }
        if segment.totals.entries > 0 {
            return;
        }
    }
}

fn keep_copy(disk: &dyn SpoolDisk, segment: &Segment) -> io::Result<()> {
    let name = damaged_name(segment.first);
    remove(disk, &name)?;
    let from = disk.open(&segment.name())?;
    let to = disk.create(&name)?;
    let mut at = 0;
    while at < segment.file_bytes {
        let mut chunk = Vec::new();
        from.read_at(at, COPY_BYTES, &mut chunk)?;
        if chunk.is_empty() {
            break;
        }
        to.write_at(at, &[IoSlice::new(&chunk)])?;
        at += chunk.len() as u64;
    }
    remove_surplus_damaged(disk)
}
