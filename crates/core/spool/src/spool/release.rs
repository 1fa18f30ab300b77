//! Removes segments whose entries are delivered or dropped.

use super::write::remove;
use super::{Segment, Spool};
use crate::format::{damaged_name, is_damaged_name};
use crate::{EntryNumber, OldestEntries, SpoolDisk};
use std::io;

/// Maximum number of damaged segments to keep.
const DAMAGED_FILES_MAX: usize = 2;

impl Spool {
    /// Records that the entries before `settled` have been delivered, and that this has been
    /// committed. Removes the segments that contain only such entries. If no entries remain, no
    /// files remain.
    ///
    /// A damaged segment is renamed to `*.damaged` instead; the latest two are kept.
    ///
    /// # Errors
    /// Returns an error if the disk fails; the next call removes the remaining segments.
    pub fn release(&mut self, settled: EntryNumber) -> io::Result<()> {
        self.settled = self.settled.max(settled);
        while self.in_flight.pop_front_if(|entry| entry.number < self.settled).is_some() {}
        let removed = self.remove_released();
        self.pass_settled().and(removed)
    }

    fn remove_released(&mut self) -> io::Result<()> {
        while !self.segments.is_empty() && self.is_first_released() {
            self.remove_segment(0)?;
        }
        Ok(())
    }

    /// Returns the oldest entries that can be dropped to make room: the unread entries of the first
    /// segment that has any and whose entries are all synced. Returns `None` if there is no such
    /// segment.
    ///
    /// A segment stays as long as any of its entries has been read and not released, because the
    /// entry can be reread, even after a crash.
    pub fn oldest(&self) -> Option<OldestEntries> {
        let index = (self.reading..self.segments.len()).find(|index| self.may_drop(*index))?;
        let segment = &self.segments[index];
        let position = self.position_in(index);
        let is_partly_read = position.ordinal > 0;
        let first = if is_partly_read { self.first_unread()?.number } else { segment.totals.first };
        Some(OldestEntries {
            segment: segment.first,
            first,
            last: segment.totals.last,
            entries: segment.totals.entries.saturating_sub(position.ordinal),
            events: segment.totals.events.saturating_sub(position.events),
        })
    }

    fn may_drop(&self, index: usize) -> bool {
        let segment = &self.segments[index];
        // Segments are read in order, so the last entry in flight is in the last segment that was
        // read.
        let last_read = self.in_flight.back().map(|entry| entry.segment);
        self.has_unread_in(index) && !segment.has_unsynced() && last_read != Some(segment.first)
    }

    /// Drops the entries that [`Spool::oldest`] has returned, and their segment.
    ///
    /// The entries are never returned after that, even if the disk fails. A file that cannot be
    /// removed now is removed before another file is created.
    pub fn drop_oldest(&mut self, oldest: &OldestEntries) {
        let is_it = |segment: &Segment| segment.first == oldest.segment;
        let Some(index) = self.segments.iter().position(is_it) else { return };
        let name = self.segments[index].name();
        let removed = self.remove_file(index);
        if removed.is_err() {
            self.stale.push(name);
        }
        self.forget_segment(index);
        // Without the sync, the entries could reappear after a power loss.
        let synced = removed.and_then(|()| self.disk.sync_folder());
        self.tolerate(synced);
    }

    /// Returns whether all entries in the first segment are settled, so that the segment can be
    /// removed.
    fn is_first_released(&self) -> bool {
        let segment = &self.segments[0];
        let is_before_settled = segment.totals.last < self.settled;
        // If a segment is not counted, lost entries are noticed only by reading it.
        let is_known = segment.is_counted && segment.totals.entries > 0;
        let is_passed = self.segments.get(1).is_some_and(|next| next.first <= self.settled);
        !segment.has_unsynced()
            && (is_passed || (is_before_settled && (is_known || self.reading > 0)))
    }

    /// Removes a segment without unsynced entries.
    fn remove_segment(&mut self, index: usize) -> io::Result<()> {
        self.remove_file(index)?;
        self.forget_segment(index);
        Ok(())
    }

    /// Removes a segment's file, or keeps a damaged file under another name.
    fn remove_file(&self, index: usize) -> io::Result<()> {
        let segment = &self.segments[index];
        match segment.is_damaged {
            true => self.keep_damaged(segment.first),
            false => remove(&*self.disk, &segment.name()),
        }
    }

    fn forget_segment(&mut self, index: usize) {
        self.segments.remove(index);
        if index == self.segments.len() {
            self.writer = None;
        }
        if index < self.reading {
            self.reading -= 1;
        } else if index == self.reading {
            self.reader = None;
            self.upcoming = None;
        }
    }

    /// Renames a damaged segment, and removes the oldest damaged segments beyond the limit.
    fn keep_damaged(&self, first: EntryNumber) -> io::Result<()> {
        let name = crate::format::segment_name(first);
        match self.disk.rename(&name, &damaged_name(first)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done?,
        }
        remove_surplus_damaged(&*self.disk)
    }
}

/// Removes the oldest damaged segments beyond the limit.
pub(super) fn remove_surplus_damaged(disk: &dyn SpoolDisk) -> io::Result<()> {
    let mut kept = disk.names()?;
    kept.retain(|name| is_damaged_name(name));
    kept.sort_unstable();
    let surplus = kept.len().saturating_sub(DAMAGED_FILES_MAX);
    kept[..surplus].iter().try_for_each(|name| remove(disk, name))
}
