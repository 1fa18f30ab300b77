//! Removes segments.

use super::Spool;
use super::write::remove;
use crate::format::{damaged_name, is_damaged_name};
use crate::{DroppedEntries, EntryNumber};
use std::io;

/// Most damaged segments that are kept.
const DAMAGED_FILES_MAX: usize = 2;

impl Spool {
    /// Takes note that the entries before `settled` are delivered, and that this is committed:
    /// removes the segments that hold nothing else. A spool without other entries leaves no file.
    ///
    /// A damaged segment is renamed to `*.damaged` instead; the latest two are kept.
    ///
    /// # Errors
    /// Those of the disk; the rest is removed with the next call.
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

    /// Removes the oldest segment that has unread entries, to make room; `None` if there is none,
    /// or if entries in it are not synced yet.
    ///
    /// Entries of the segment that are read and not released cannot be read again.
    ///
    /// # Errors
    /// Those of the disk. The segment is then still there.
    pub fn drop_oldest(&mut self) -> io::Result<Option<DroppedEntries>> {
        let mut indexes = self.reading..self.segments.len();
        let (Some(index), Some(first)) =
            (indexes.find(|index| self.has_unread_in(*index)), self.first_unread())
        else {
            return Ok(None);
        };
        let (position, segment) = (self.position_in(index), &self.segments[index]);
        if segment.has_unsynced() {
            return Ok(None);
        }
        let dropped = DroppedEntries {
            first: first.number,
            last: segment.totals.last,
            entries: segment.totals.entries.saturating_sub(position.ordinal),
            events: segment.totals.events.saturating_sub(position.events),
        };
        let number = segment.first;
        self.remove_segment(index)?;
        self.in_flight.retain(|entry| entry.segment != number);
        self.after_read = self.after_read.max(dropped.last.next());
        // Without it a power loss may bring the entries back.
        let synced = self.disk.sync_folder();
        self.tolerate(synced);
        Ok(Some(dropped))
    }

    /// Returns whether all entries of the first segment are settled.
    fn is_first_released(&self) -> bool {
        let segment = &self.segments[0];
        let is_before_settled = segment.totals.last < self.settled;
        // Of a segment that is not counted, only reading it tells what is lost.
        let is_known = segment.is_counted && segment.totals.entries > 0;
        let is_passed = self.segments.get(1).is_some_and(|next| next.first <= self.settled);
        !segment.has_unsynced()
            && (is_passed || (is_before_settled && (is_known || self.reading > 0)))
    }

    /// Removes a segment without unsynced entries.
    fn remove_segment(&mut self, index: usize) -> io::Result<()> {
        let segment = &self.segments[index];
        if segment.is_damaged {
            self.keep_damaged(segment.first)?;
        } else {
            remove(&*self.disk, &segment.name())?;
        }
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
        Ok(())
    }

    /// Renames a damaged segment, and removes the oldest of those that were kept before.
    fn keep_damaged(&self, first: EntryNumber) -> io::Result<()> {
        let name = crate::format::segment_name(first);
        match self.disk.rename(&name, &damaged_name(first)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done?,
        }
        let mut kept = self.disk.names()?;
        kept.retain(|name| is_damaged_name(name));
        kept.sort_unstable();
        let surplus = kept.len().saturating_sub(DAMAGED_FILES_MAX);
        kept[..surplus].iter().try_for_each(|name| remove(&*self.disk, name))
    }
}
