//! Reads the entries in order, or rereads a single entry.

use super::{InFlight, Reader, Spool, Upcoming};
use crate::format::EntryHeader;
use crate::scan::{Bytes as _, FileBytes, FoundEntry, Skipped, Step};
use crate::{Entry, EntryNumber};
use bytes::Bytes;
use std::io;

impl Spool {
    /// Returns the next durable entry that is not settled; `None` if there is no such entry yet.
    ///
    /// Damage is skipped and counted in [`Spool::damage`].
    ///
    /// # Errors
    /// Returns an error if the disk fails; the call can be repeated.
    #[expect(clippy::should_implement_trait, reason = "the end of the entries is not final")]
    pub fn next(&mut self) -> io::Result<Option<Entry>> {
        while let Some(segment) = self.segments.get(self.reading) {
            if self.position_in(self.reading).at >= segment.end {
                if !self.is_complete(self.reading) {
                    return Ok(None);
                }
                self.end_segment();
                continue;
            }
            let Some(Step { skipped, found }) = self.step()? else { continue };
            if let Some(skipped) = skipped {
                self.segments[self.reading].is_counted |= found.is_none();
                self.note_damage(skipped, found.as_ref().map(|found| found.header.meta.number));
            }
            if let Some(FoundEntry { header, bytes: Some(bytes) }) = found {
                self.note_read(&header);
                return Ok(Some(header.entry(&Bytes::from(bytes))));
            }
        }
        Ok(None)
    }

    /// Rereads an entry for another delivery attempt; returns `None` if the entry is damaged or has
    /// been removed.
    ///
    /// # Errors
    /// Returns an error if the disk fails; the call can be repeated.
    pub fn read(&mut self, number: EntryNumber) -> io::Result<Option<Entry>> {
        let in_flight = self.in_flight.binary_search_by_key(&number, |entry| entry.number);
        let known = in_flight.ok().and_then(|index| self.in_flight.get(index));
        let first = known.map_or(number, |entry| entry.segment);
        let behind = self.segments.partition_point(|segment| segment.first <= first);
        let Some(segment) = behind.checked_sub(1).and_then(|index| self.segments.get(index)) else {
            return Ok(None);
        };
        let mut scanner = segment.scanner_at(known.map_or(segment.start, |entry| entry.position));
        let file = match self.disk.open(&segment.name()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut bytes = FileBytes::new(file, segment.end);
        loop {
            let step = scanner.step(&mut bytes, |header| header.meta.number == number)?;
            match step.found {
                Some(FoundEntry { header, bytes: Some(bytes) }) => {
                    return Ok(Some(header.entry(&Bytes::from(bytes))));
                }
                Some(FoundEntry { header, .. }) if header.meta.number < number => {}
                _ => return Ok(None),
            }
        }
    }

    /// Returns whether a segment will get no more entries.
    pub(super) fn is_complete(&self, index: usize) -> bool {
        let is_written = self.writer.is_some() && index + 1 == self.segments.len();
        !is_written && !self.segments[index].has_unsynced()
    }

    /// Moves past the segment. If the segment has no footer, the bytes that remain are lost,
    /// because the footer is durable before another segment exists.
    pub(super) fn end_segment(&mut self) {
        let segment = &mut self.segments[self.reading];
        if !segment.is_counted {
            segment.is_counted = true;
            let at = segment.end;
            self.note_damage(Skipped { at, bytes: 0, lost: None }, None);
        }
        self.finish_segment();
    }

    fn finish_segment(&mut self) {
        self.reading += 1;
        self.reader = None;
        self.upcoming = None;
    }

    /// Forgets the read position if the segment no longer exists.
    pub(super) fn forget_reader_of_removed(&mut self) {
        if self.reading >= self.segments.len() {
            self.reading = self.segments.len();
            self.reader = None;
            self.upcoming = None;
        }
    }

    /// Returns the reader of the current segment, after opening the segment if necessary.
    pub(super) fn reader(&mut self) -> io::Result<&mut Reader> {
        let segment = &self.segments[self.reading];
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => Reader {
                bytes: FileBytes::new(self.disk.open(&segment.name())?, segment.end),
                scanner: segment.scanner_at(segment.start),
            },
        };
        let reader = self.reader.insert(reader);
        reader.bytes.set_end(segment.end);
        reader.scanner.totals = segment.known_totals();
        Ok(reader)
    }

    /// Finds the next entry in the segment; returns `None` if the file is gone.
    fn step(&mut self) -> io::Result<Option<Step>> {
        let from = self.after_read.max(self.settled).max(self.segments[self.reading].first);
        let wanted = from..self.first_of_next(self.reading);
        let is_complete = self.is_complete(self.reading);
        let reader = match self.reader() {
            Err(error) if error.kind() == io::ErrorKind::NotFound && is_complete => {
                self.lose_segment();
                return Ok(None);
            }
            reader => reader?,
        };
        let wants = |header: &EntryHeader| wanted.contains(&header.meta.number);
        reader.scanner.step(&mut reader.bytes, wants).map(Some)
    }

    /// Returns the first number in the next segment. Entries in this segment with that number or a
    /// higher one remain from a failed write, and have been rewritten.
    fn first_of_next(&self, index: usize) -> EntryNumber {
        self.segments.get(index + 1).map_or(EntryNumber(u64::MAX), |next| next.first)
    }

    pub(super) fn note_read(&mut self, header: &EntryHeader) {
        let number = header.meta.number;
        self.after_read = number.next();
        self.in_flight.push_back(InFlight {
            number,
            written_ms: header.meta.written_ms,
            segment: self.segments[self.reading].first,
            position: header.position,
        });
        self.look_ahead();
    }

    /// Reads ahead for the number and the time of the next entry. The next call reads these bytes
    /// anyway.
    fn look_ahead(&mut self) {
        self.upcoming = None;
        if let Some(reader) = &mut self.reader
            && reader.scanner.position.at < self.segments[self.reading].end
            && let Ok(Some(header)) =
                reader.scanner.header_at(&mut reader.bytes, reader.scanner.position.at)
        {
            self.upcoming = Some(Upcoming::new(&header.meta));
        }
    }

    /// Moves past unread entries that are settled, without reading their bodies.
    pub(super) fn pass_settled(&mut self) -> io::Result<()> {
        while self.settled > self.after_read && self.reading < self.segments.len() {
            let segment = &self.segments[self.reading];
            let is_settled = segment.is_counted && segment.totals.last < self.settled;
            if is_settled && self.is_complete(self.reading) {
                self.finish_segment();
            } else if !self.pass_one()? {
                break;
            }
        }
        Ok(())
    }

    /// Moves past the next entry if it is settled. Returns `false` if the entry is not settled or
    /// does not exist.
    fn pass_one(&mut self) -> io::Result<bool> {
        let settled = self.settled;
        let reader = match self.reader() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            reader => reader?,
        };
        let mut ahead = reader.scanner;
        let Some(found) = ahead.step(&mut reader.bytes, |_| false)?.found else { return Ok(false) };
        if found.header.meta.number >= settled {
            self.upcoming = Some(Upcoming::new(&found.header.meta));
            return Ok(false);
        }
        reader.scanner = ahead;
        Ok(true)
    }

    /// Counts damage, and logs the first damage in a segment. Settled entries are not treated as
    /// lost.
    fn note_damage(&mut self, skipped: Skipped, next: Option<EntryNumber>) {
        let was_settled = next.is_some_and(|next| next <= self.settled);
        if was_settled && skipped.lost.is_some_and(|(entries, _)| entries > 0) {
            return;
        }
        let location = self.disk.location();
        let segment = &mut self.segments[self.reading];
        let damage = skipped.damage(segment.name());
        if !segment.is_damaged {
            log::error!(
                "disk buffer {location}: {} is damaged at byte {}; readable entries are delivered, \
                 and the file is kept under another name",
                damage.segment,
                damage.at
            );
        }
        segment.is_damaged = true;
        self.damage.push(damage);
    }

    /// Counts the unread remainder of a segment as damaged, because its file is gone.
    fn lose_segment(&mut self) {
        let position = self.position_in(self.reading);
        let segment = &self.segments[self.reading];
        let lost = segment.known_totals().map(|(entries, events)| {
            (entries.saturating_sub(position.ordinal), events.saturating_sub(position.events))
        });
        let bytes = segment.end.saturating_sub(position.at);
        self.note_damage(Skipped { at: position.at, bytes, lost }, None);
        self.finish_segment();
    }
}
