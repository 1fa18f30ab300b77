//! A disk buffer's files, which are created when the first entry is written.

use super::view::View;
use super::window::Label;
use bytes::Bytes;
use millstream_model::{Payload, RoutingError, RowSource, Sink};
use millstream_spool::{
    Entry, EntryMeta, EntryNumber, Folder, Missing, NewEntry, OldestEntries, Spool, SpoolError,
    SpoolOptions, SpoolRecord,
};
use millstream_store::DiskBufferRecord;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

pub(super) struct Files {
    folder: PathBuf,
    options: SpoolOptions,
    /// See [`Spool::open`].
    record: SpoolRecord,
    spool: Option<Spool>,
    /// Reusable memory for an entry's routing.
    routing: Vec<u8>,
    /// Reusable memory for an entry's rows.
    rows: Vec<u8>,
    damaged_entries: u64,
    /// The payload formats of the entries in the files.
    formats: Vec<Arc<str>>,
}

impl Files {
    /// Opens the files if they exist, or if the record says that they should.
    pub fn open(
        folder: PathBuf,
        segment_bytes: u64,
        record: &DiskBufferRecord,
    ) -> Result<Files, SpoolError> {
        let options = SpoolOptions { segment_bytes };
        let DiskBufferRecord { position, end, entries, events } = *record;
        let settled = EntryNumber(position);
        let end = EntryNumber(end);
        let record = SpoolRecord { settled, end, entries, events };
        let mut files = Files {
            folder,
            options,
            record,
            spool: None,
            routing: Vec::new(),
            rows: Vec::new(),
            damaged_entries: 0,
            formats: Vec::new(),
        };
        if files.folder.exists() || entries > 0 {
            files.spool()?;
            files.note_damaged(files.missing().entries);
        }
        Ok(files)
    }

    fn spool(&mut self) -> Result<&mut Spool, SpoolError> {
        if self.spool.is_none() {
            let disk = Folder::open(&self.folder)?;
            let spool = Spool::open(Box::new(disk), self.options, self.record)?;
            self.formats = spool.formats().unwrap_or_default();
            self.spool = Some(spool);
        }
        let folder = || self.folder.display().to_string();
        let unopened =
            || SpoolError::Io { folder: folder(), error: io::ErrorKind::NotFound.into() };
        self.spool.as_mut().ok_or_else(unopened)
    }

    /// Returns the entries that were missing from the files when they were opened.
    pub fn missing(&self) -> Missing {
        self.spool.as_ref().map(Spool::missing).unwrap_or_default()
    }

    pub fn has_unread(&self) -> bool {
        self.spool.as_ref().is_some_and(|spool| spool.stats().unread_entries > 0)
    }

    /// Returns a number that is greater than that of any entry the files have ever contained.
    pub fn next_number(&self) -> u64 {
        let settled = self.record.settled;
        self.spool.as_ref().map_or(settled, |spool| spool.stats().next_number).0
    }

    /// Appends an entry, which is durable after the next sync.
    pub fn append(&mut self, number: u64, label: &Label, payload: &Payload) -> io::Result<()> {
        let mut routing = std::mem::take(&mut self.routing);
        let mut rows = std::mem::take(&mut self.rows);
        routing.clear();
        rows.clear();
        put_routing(payload, &mut routing);
        RowSource::write_all(&payload.sources, &mut rows);
        let meta = EntryMeta {
            number: EntryNumber(number),
            written_ms: label.since_ms,
            events: payload.events,
            lane: u16::try_from(label.lane.get()).unwrap_or(u16::MAX),
            lanes: u16::try_from(label.lanes).unwrap_or(u16::MAX),
            format: label.format.clone(),
            ranges: label.ranges.clone(),
            completes: label.completes,
        };
        let entry = NewEntry { meta: &meta, parts: &payload.parts, routing: &routing, rows: &rows };
        let appended =
            self.spool().map_err(io::Error::other).and_then(|spool| spool.append(&entry));
        self.routing = routing;
        self.rows = rows;
        if !self.formats.contains(&label.format) {
            self.formats.push(label.format.clone());
        }
        appended
    }

    pub fn sync(&mut self) -> io::Result<()> {
        self.spool.as_mut().map_or(Ok(()), Spool::sync)
    }

    /// Counts the entries up to and including `number` as read.
    pub fn skip(&mut self, number: u64) {
        if let Some(spool) = &mut self.spool {
            spool.skip(EntryNumber(number));
        }
    }

    /// Returns the next entry that no lane has received.
    pub fn next(&mut self) -> io::Result<Option<Entry>> {
        self.spool.as_mut().map_or(Ok(None), Spool::next)
    }

    /// Rereads an entry; `None` if the entry is damaged or gone.
    pub fn read(&mut self, number: u64) -> io::Result<Option<Entry>> {
        self.spool.as_mut().map_or(Ok(None), |spool| spool.read(EntryNumber(number)))
    }
}

impl Files {
    /// Removes the files whose entries all come before `settled`, a number that has been saved.
    pub fn release(&mut self, settled: u64) -> io::Result<()> {
        self.record = self.record.settled.max(EntryNumber(settled)).into();
        self.spool.as_mut().map_or(Ok(()), |spool| spool.release(EntryNumber(settled)))
    }

    /// Returns the oldest entries that can be dropped.
    pub fn oldest(&self) -> Option<OldestEntries> {
        self.spool.as_ref().and_then(Spool::oldest)
    }

    /// Drops entries that [`Files::oldest`] has returned.
    pub fn drop_oldest(&mut self, oldest: &OldestEntries) {
        if let Some(spool) = &mut self.spool {
            spool.drop_oldest(oldest);
        }
    }

    /// Completes the last file with its totals, so that the agent can check after a restart whether
    /// the file is complete.
    pub fn finish(&mut self) -> io::Result<()> {
        self.spool.as_mut().map_or(Ok(()), Spool::finish)
    }

    /// Starts new files after the old ones have disappeared.
    pub fn begin_again(&mut self) {
        self.record = EntryNumber(self.next_number()).into();
        self.spool = None;
        self.formats.clear();
    }

    /// Returns the number of entries found damaged since the last call, and the number of their
    /// events, as far as known.
    pub fn take_damage(&mut self) -> (u64, u64) {
        let found = self.spool.as_mut().map_or_else(Vec::new, Spool::damage);
        // Damage of unknown extent counts as one entry.
        let entries = found.iter().map(|damage| damage.entries.unwrap_or(1)).sum();
        let events = found.iter().map(|damage| damage.events.unwrap_or(0)).sum();
        self.note_damaged(entries);
        (entries, events)
    }

    /// Counts entries that are damaged and have been reported.
    pub fn note_damaged(&mut self, entries: u64) {
        self.damaged_entries += entries;
    }

    /// Returns a view of the current state of the files.
    pub fn view(&self) -> View {
        let folder = self.folder.clone();
        let damaged_entries = self.damaged_entries;
        let Some(spool) = &self.spool else {
            return View { folder, damaged_entries, ..View::default() };
        };
        let stats = spool.stats();
        View {
            folder,
            bytes: stats.bytes,
            unread_entries: stats.unread_entries,
            unread_events: stats.unread_events,
            oldest_ms: stats.oldest_unread_ms,
            end: stats.durable_end.0,
            formats: if stats.bytes > 0 { self.formats.clone() } else { Vec::new() },
            damaged_entries,
            ..View::default()
        }
    }
}

/// Appends a payload's size and routing. The size may be less than the size of the payload's parts.
/// Without a routing, nothing is appended.
fn put_routing(payload: &Payload, out: &mut Vec<u8>) {
    if let Some(routing) = &payload.routing {
        out.extend_from_slice(&payload.bytes.to_le_bytes());
        routing.write(out);
    }
}

/// Recreates a payload from its parts and the output of [`put_routing`].
pub(super) fn payload_of(
    events: u64,
    parts: Vec<Bytes>,
    routing: &[u8],
    sink: &dyn Sink,
) -> Result<Payload, RoutingError> {
    let mut payload = Payload::new(events);
    for part in parts {
        payload.push(part);
    }
    if let Some((bytes, routing)) = routing.split_first_chunk() {
        payload.bytes = u64::from_le_bytes(*bytes).min(payload.bytes);
        payload.routing = sink.read_routing(routing, &payload)?;
    }
    Ok(payload)
}
