//! Records of the sinks' disk buffers.

use crate::database::{self, DISK_BUFFERS};
use crate::health::Operation;
use crate::{Moved, Pending, Store};
use millstream_model::OriginId;
use redb::{Database, ReadableDatabase, TableError};
use std::io;
use std::sync::{Arc, LazyLock};

/// Id of the source with which the positions in disk buffers are saved. Component ids contain no
/// dots.
static SOURCE: LazyLock<Arc<str>> = LazyLock::new(|| "disk.buffers".into());

/// Origin with which the positions are saved.
const ORIGIN: OriginId = OriginId(0);

/// What is saved about a sink's disk buffer: the position up to which its entries are settled, and
/// a count of later entries that its files still contain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskBufferRecord {
    /// Entries before this number are settled.
    pub position: u64,
    /// Number after the last entry that the record covers. The files may also contain later
    /// entries.
    pub end: u64,
    /// Number of entries in the files from `position` to `end`.
    pub entries: u64,
    /// Number of events in these entries.
    pub events: u64,
}

impl DiskBufferRecord {
    /// Returns the record for a buffer for which only the position is known.
    fn at(position: u64) -> DiskBufferRecord {
        DiskBufferRecord { position, end: position, entries: 0, events: 0 }
    }

    /// Returns the record as a table value.
    pub(crate) fn encoded(self) -> Vec<u8> {
        let numbers = [self.position, self.end, self.entries, self.events];
        numbers.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// Parses a table value; `None` if its length is wrong.
    fn decoded(value: &[u8]) -> Option<DiskBufferRecord> {
        let (numbers, rest) = value.as_chunks::<8>();
        let [position, end, entries, events] = *numbers else { return None };
        let number = u64::from_le_bytes;
        let record = DiskBufferRecord {
            position: number(position),
            end: number(end),
            entries: number(entries),
            events: number(events),
        };
        rest.is_empty().then_some(record)
    }
}

impl Moved<'_> {
    /// Records the state of a sink's disk buffer.
    pub fn disk_buffer(&mut self, sink: &Arc<str>, record: DiskBufferRecord) {
        // A checkpoint is saved only for a known origin.
        self.pending.origins.insert((SOURCE.clone(), ORIGIN), Vec::new());
        self.checkpoint(&SOURCE, ORIGIN, sink, record.position);
        self.pending.disk_buffers.insert(sink.clone(), record);
    }
}

impl Store {
    /// Saves the record of a sink's disk buffer when the buffer is opened, before any other call.
    /// The record is durable on return.
    pub fn save_disk_buffer(&self, sink: &Arc<str>, record: DiskBufferRecord) -> io::Result<()> {
        let mut due = Pending::default();
        Moved { pending: &mut due }.disk_buffer(sink, record);
        self.with(Operation::Commit, |database, copy| {
            let new = database::write(database, &due)?;
            copy.append(&*self.disk, database, &new, true)
        })
    }

    /// Returns the saved record of a sink's disk buffer. The record covers no entries if only the
    /// position is known: nothing was saved, or a release without the table has moved the position.
    pub fn disk_buffer(self: &Arc<Self>, sink: &str) -> io::Result<DiskBufferRecord> {
        let saved = self.of_source(&SOURCE).committed(ORIGIN)?;
        let position = saved.into_iter().find(|(id, _)| id == sink).map_or(0, |(_, at)| at);
        let record = self.read(|database| record_of(database, sink))?;
        let record = record.filter(|record| record.position == position);
        Ok(record.unwrap_or_else(|| DiskBufferRecord::at(position)))
    }
}

fn record_of(database: &Database, sink: &str) -> Result<Option<DiskBufferRecord>, redb::Error> {
    let table = match database.begin_read()?.open_table(DISK_BUFFERS) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        table => table?,
    };
    let value = table.get(sink)?;
    let value = value.and_then(|value| database::opened(sink.as_bytes(), value.value()));
    Ok(value.and_then(|value| DiskBufferRecord::decoded(&value)))
}
