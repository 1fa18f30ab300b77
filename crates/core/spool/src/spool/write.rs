//! Appends entries, and syncs them.

use super::{Segment, Spool, Upcoming};
use crate::format::{
    EntryChecksum, FOOTER, Position, Salt, Totals, entry_bytes, put_entry_header, put_footer,
    put_segment_header,
};
use crate::{EntryMeta, NewEntry, SEGMENT_BYTES_MAX, SegmentFile, SpoolDisk};
use bytes::Bytes;
use std::io::{self, IoSlice};
use std::ops::Range;

/// Minimum size in bytes at which a part is written directly from its buffer instead of being
/// copied.
const SHARED_BYTES_MIN: usize = 4 << 10;

/// Number of queued bytes at which the queue is written.
const QUEUED_BYTES_MAX: u64 = 512 << 10;

/// Number of queued pieces at which the queue is written. It must not exceed the number that one
/// system call takes.
const QUEUED_PIECES_MAX: usize = 480;

/// Capacity above which the queue's buffer is not kept, in bytes.
const BUFFER_BYTES_MAX: usize = 1 << 20;

/// The last segment, to which entries are appended.
pub struct Writer {
    file: Box<dyn SegmentFile>,
    salt: Salt,
    /// Number of bytes written to the file.
    at: u64,
}

/// Bytes that have not been written to the file yet.
#[derive(Default)]
pub struct Queue {
    buffer: Vec<u8>,
    pieces: Vec<Piece>,
    bytes: u64,
}

/// Bytes to write, which are either in the queue's buffer or in one of the caller's buffers.
enum Piece {
    Buffered(Range<usize>),
    Shared(Bytes),
}

impl Queue {
    /// Queues the bytes that `put` appends to the queue's buffer.
    fn buffered<T>(&mut self, put: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let start = self.buffer.len();
        let done = put(&mut self.buffer);
        let end = self.buffer.len();
        self.bytes += (end - start) as u64;
        match self.pieces.last_mut() {
            Some(Piece::Buffered(last)) => last.end = end,
            _ => self.pieces.push(Piece::Buffered(start..end)),
        }
        done
    }

    fn copied(&mut self, bytes: &[u8]) {
        self.buffered(|buffer| buffer.extend_from_slice(bytes));
    }

    fn part(&mut self, part: &Bytes) {
        if part.len() < SHARED_BYTES_MIN {
            self.copied(part);
        } else {
            self.bytes += part.len() as u64;
            self.pieces.push(Piece::Shared(part.clone()));
        }
    }

    fn is_full(&self) -> bool {
        self.bytes >= QUEUED_BYTES_MAX || self.pieces.len() >= QUEUED_PIECES_MAX
    }

    fn clear(&mut self) {
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_BYTES_MAX);
        self.pieces.clear();
        self.bytes = 0;
    }

    /// Writes everything, and clears the queue.
    fn write(&mut self, writer: &mut Writer) -> io::Result<()> {
        let slices: Vec<IoSlice<'_>> = self
            .pieces
            .iter()
            .map(|piece| match piece {
                Piece::Buffered(range) => IoSlice::new(&self.buffer[range.clone()]),
                Piece::Shared(bytes) => IoSlice::new(bytes),
            })
            .collect();
        writer.file.write_at(writer.at, &slices)?;
        writer.at += self.bytes;
        self.clear();
        Ok(())
    }
}

impl Spool {
    /// Appends an entry. The entry is durable and readable after the next [`Spool::sync`].
    ///
    /// An entry that starts a segment waits until the previous segment is synced.
    ///
    /// # Errors
    /// Returns an error if the disk fails, and [`io::ErrorKind::InvalidInput`] for a number below
    /// [`next_number`](crate::SpoolStats::next_number) or a section larger than 4 GiB. After any
    /// error, the spool has lost all entries since the last successful sync. Entries that were
    /// settled in the meantime do not need to be reappended.
    pub fn append(&mut self, entry: &NewEntry<'_>) -> io::Result<()> {
        let done = self.append_entry(entry);
        if done.is_err() {
            self.roll_back();
        }
        done
    }

    /// Makes all appended entries durable and readable.
    ///
    /// # Errors
    /// Returns an error if the disk fails. The spool has then lost all entries since the last
    /// successful sync.
    pub fn sync(&mut self) -> io::Result<()> {
        let done = self.sync_written();
        if done.is_err() {
            self.roll_back();
            return done;
        }
        self.commit();
        // Entries may have been delivered from memory, and settled, before they became durable.
        let released = self.release(self.settled);
        self.tolerate(released);
        Ok(())
    }

    /// Ends the last segment with a footer, which is durable on return, so that the next entry
    /// starts another segment. All entries must be synced.
    ///
    /// # Errors
    /// Returns an error if the disk fails. The entries remain in the spool nevertheless.
    pub fn finish(&mut self) -> io::Result<()> {
        let done = self.seal();
        if done.is_err() {
            self.roll_back();
        }
        done
    }

    fn append_entry(&mut self, entry: &NewEntry<'_>) -> io::Result<()> {
        if entry.meta.number < self.next_number() {
            let message = format!("entry {} is not the next one", entry.meta.number.0);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let bytes = entry_bytes(entry);
        if self.writer.is_some() && !self.has_room(entry.meta, bytes) {
            self.seal()?;
        }
        if self.writer.is_none() {
            self.begin_segment(entry.meta)?;
        }
        self.queue_entry(entry, bytes)?;
        if self.queue.is_full() { self.write_queue() } else { Ok(()) }
    }

    /// Returns whether the last segment has room for an entry with this payload format and length.
    fn has_room(&self, meta: &EntryMeta, bytes: u64) -> bool {
        let Some(segment) = self.segments.back() else { return false };
        let limit = self.options.segment_bytes.min(SEGMENT_BYTES_MAX);
        let is_empty = segment.written.entries == 0;
        let fits = segment.written_end + bytes + FOOTER as u64 <= limit;
        segment.format == meta.format && (is_empty || fits)
    }

    /// Creates a segment that starts with this entry.
    fn begin_segment(&mut self, meta: &EntryMeta) -> io::Result<()> {
        self.remove_stale()?;
        self.finish_previous();
        let salt = getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?;
        let salt = Salt(salt);
        let mut header = Vec::new();
        put_segment_header(&mut header, salt, &meta.format)?;
        let start = Position { at: header.len() as u64, ..Position::default() };
        let segment = Segment {
            first: meta.number,
            format: meta.format.clone(),
            salt: Some(salt),
            start,
            end: start.at,
            totals: Totals::default(),
            written_end: start.at,
            written: Totals::default(),
            is_counted: true,
            is_durable: false,
            file_bytes: start.at,
            is_damaged: false,
            has_footer: false,
        };
        let file = self.disk.create(&segment.name())?;
        self.has_new_names = true;
        self.segments.push_back(segment);
        self.writer = Some(Writer { file, salt, at: 0 });
        self.queue.copied(&header);
        Ok(())
    }

    /// Adds the footer of the previous segment if the disk had no room for it earlier. The footer
    /// shows that the file is complete, so that nothing is missing before the next file.
    fn finish_previous(&mut self) {
        let previous = self.segments.back_mut().filter(|segment| !segment.has_footer);
        if let Some(segment) = previous {
            let done = self.disk.open(&segment.name()).and_then(|file| segment.cut(&*file));
            self.tolerate(done);
        }
    }

    fn queue_entry(&mut self, entry: &NewEntry<'_>, bytes: u64) -> io::Result<()> {
        let (Some(segment), Some(writer)) = (self.segments.back_mut(), &self.writer) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let at = segment.written_end;
        let Totals { entries, events, .. } = segment.written;
        let position = Position { at, ordinal: entries, events };
        let checksum = self.queue.buffered(|buffer| {
            let start = buffer.len();
            put_entry_header(buffer, writer.salt, position, entry)?;
            Ok::<_, io::Error>(EntryChecksum::new(at, &buffer[start..]))
        });
        let mut checksum = checksum?;
        for part in entry.parts {
            checksum.update(part);
            self.queue.part(part);
        }
        for section in [entry.routing, entry.rows] {
            checksum.update(section);
            self.queue.copied(section);
        }
        self.queue.copied(&checksum.finish());
        segment.written.add(entry.meta);
        segment.written_end += bytes;
        segment.file_bytes = segment.written_end;
        let EntryMeta { number, written_ms, .. } = *entry.meta;
        self.first_unsynced.get_or_insert(Upcoming { number, written_ms });
        Ok(())
    }

    fn write_queue(&mut self) -> io::Result<()> {
        match &mut self.writer {
            Some(writer) if self.queue.bytes > 0 => self.queue.write(writer),
            _ => Ok(()),
        }
    }

    /// Ends the last segment with a footer. The footer and the file's name are durable before
    /// another segment exists, so that after a power loss, only the last segment can end with a
    /// torn entry.
    fn seal(&mut self) -> io::Result<()> {
        let Some(salt) = self.writer.as_ref().map(|writer| writer.salt) else { return Ok(()) };
        if let Some(segment) = self.segments.back_mut() {
            let (at, totals) = (segment.written_end, segment.written);
            self.queue.buffered(|buffer| put_footer(buffer, salt, at, &totals));
            segment.file_bytes = at + FOOTER as u64;
        }
        self.sync_file()?;
        self.writer = None;
        if let Some(segment) = self.segments.back_mut() {
            segment.has_footer = true;
        }
        Ok(())
    }

    fn sync_written(&mut self) -> io::Result<()> {
        match self.segments.back() {
            Some(segment) if segment.has_unsynced() => self.sync_file(),
            _ => Ok(()),
        }
    }

    /// Writes the queue, and syncs its file and the names of new files.
    fn sync_file(&mut self) -> io::Result<()> {
        self.write_queue()?;
        if let Some(writer) = &self.writer {
            writer.file.sync()?;
        }
        if self.has_new_names {
            self.disk.sync_folder()?;
            self.has_new_names = false;
        }
        Ok(())
    }

    /// Makes synced entries readable.
    fn commit(&mut self) {
        if let Some(first) = self.first_unsynced.take()
            && self.first_unread().is_none()
        {
            self.upcoming = Some(first);
        }
        let is_new = |segment: &&mut Segment| segment.has_unsynced();
        for segment in self.segments.iter_mut().rev().take_while(is_new) {
            segment.totals = segment.written;
            segment.end = segment.written_end;
            segment.is_durable = true;
        }
        self.after_durable = self.next_number();
    }

    /// Discards all entries since the last successful sync. Nothing more is written to the files of
    /// these entries, because after a failed sync, pages of a file may be lost even if later syncs
    /// succeed.
    fn roll_back(&mut self) {
        self.queue.clear();
        self.first_unsynced = None;
        let mut is_open = self.writer.take().is_some();
        while let Some(new) = self.segments.pop_back_if(|segment| !segment.is_durable) {
            self.stale.push(new.name());
            is_open = false;
        }
        self.forget_reader_of_removed();
        if let Some(segment) = self.segments.back_mut().filter(|it| is_open || it.has_unsynced()) {
            segment.written = segment.totals;
            segment.written_end = segment.end;
            let cut = self.disk.open(&segment.name()).and_then(|file| segment.cut(&*file));
            self.tolerate(cut);
        }
        let removed = self.remove_stale();
        self.tolerate(removed);
    }

    /// Logs an error that does not affect reading the files.
    pub(super) fn tolerate(&self, done: io::Result<()>) {
        if let Err(error) = done {
            log::debug!("disk buffer {}: {error}", self.disk.location());
        }
    }

    /// Removes files from failed writes and files with dropped entries. A file from a failed write
    /// could hide entries in the next segment.
    fn remove_stale(&mut self) -> io::Result<()> {
        while let Some(name) = self.stale.last() {
            remove(&*self.disk, name)?;
            self.stale.pop();
        }
        Ok(())
    }
}

impl Segment {
    /// Truncates the file after the durable entries, adds a footer if the disk has room for it, and
    /// syncs the file.
    pub fn cut(&mut self, file: &dyn SegmentFile) -> io::Result<()> {
        file.set_len(self.end)?;
        self.file_bytes = self.end;
        self.has_footer = false;
        let mut footer = Vec::with_capacity(FOOTER);
        let Some(salt) = self.salt else { return file.sync() };
        put_footer(&mut footer, salt, self.end, &self.totals);
        match file.write_at(self.end, &[IoSlice::new(&footer)]) {
            Ok(()) => {
                self.file_bytes += footer.len() as u64;
                self.has_footer = true;
            }
            // Without a footer, the segment is scanned when it is opened.
            Err(_) => file.set_len(self.end)?,
        }
        file.sync()
    }
}

/// Removes a file, unless it is already gone.
pub fn remove(disk: &dyn SpoolDisk, name: &str) -> io::Result<()> {
    match disk.remove(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
