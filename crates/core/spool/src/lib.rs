//! The segment files of a sink's disk buffer.
//!
//! A separate crate because it cuts a dependency: the command line reads disk buffers without the
//! engine, and the format can be fuzzed alone.
//!
//! A [`Spool`] is a sequence of entries in files of up to [`SEGMENT_BYTES_MAX`]. An entry is an
//! encoded payload with the information that the engine needs to deliver it. One thread appends
//! entries, syncs them, reads them in order and releases delivered entries. `docs/formats/spool.md`
//! describes the files.
//!
//! A power loss does not remove entries that a sync has confirmed. An entry is returned whole or
//! not at all: its header and its body each have a checksum, seeded with the position in the file,
//! that covers the segment's random number. Bytes that look like an entry but belong to another
//! position or file, such as a payload that contains a disk buffer, or disk blocks of a removed
//! segment, fail this checksum.
//!
//! Damage is counted and skipped; the entries around it are returned. A disk error is not treated
//! as damage. Instead, the call fails and can be repeated.

#![forbid(unsafe_code)]

mod disk;
mod format;
pub mod inspect;
mod scan;
mod spool;

pub use disk::{Folder, SegmentFile, SpoolDisk};
pub use spool::Spool;

use bytes::Bytes;
use std::io;
use std::sync::Arc;

/// Maximum size of a segment in bytes, unless a single entry is larger.
pub const SEGMENT_BYTES_MAX: u64 = 64 << 20;

/// Version of the segment format.
pub const SEGMENT_FORMAT: u32 = format::VERSION;

/// An entry number.
///
/// Numbers ascend in a spool. There are gaps, because a payload that is delivered from memory may
/// never be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryNumber(pub u64);

impl EntryNumber {
    /// Returns the next number.
    pub fn next(self) -> EntryNumber {
        EntryNumber(self.0.saturating_add(1))
    }
}

/// A range in a source's origin whose events are in an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRange {
    /// Id of the source.
    pub source: Arc<str>,
    /// Origin number.
    pub origin: u64,
    /// First offset of the range.
    pub start: u64,
    /// Offset after the range.
    pub end: u64,
}

/// The description of an entry's payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryMeta {
    /// Entry number.
    pub number: EntryNumber,
    /// Time of writing, in milliseconds since 1970 (UTC).
    pub written_ms: i64,
    /// Number of events in the payload.
    pub events: u64,
    /// The lane for which the payload was encoded.
    pub lane: u16,
    /// Number of lanes that the sink had when the payload was encoded.
    pub lanes: u16,
    /// Payload format, such as `kafka/1`.
    pub format: Arc<str>,
    /// The ranges from which the events come.
    pub ranges: Vec<SourceRange>,
    /// Whether this is the last payload that covers its ranges for the sink.
    pub completes: bool,
}

/// An entry to append.
#[derive(Clone, Copy, Debug)]
pub struct NewEntry<'a> {
    /// The description of the payload.
    pub meta: &'a EntryMeta,
    /// The payload; the boundaries of its parts are kept.
    pub parts: &'a [Bytes],
    /// Information for the sink's lane, such as the topic; opaque to the spool.
    pub routing: &'a [u8],
    /// Information about single events; opaque to the spool.
    pub rows: &'a [u8],
}

/// An entry that was read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The description of the payload.
    pub meta: EntryMeta,
    /// The payload, in the same parts as it was written. All parts are slices of one buffer.
    pub parts: Vec<Bytes>,
    /// Bytes for the sink's lane.
    pub routing: Bytes,
    /// Bytes about single events.
    pub rows: Bytes,
}

impl Entry {
    /// Returns the number of bytes in the payload.
    pub fn payload_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.len() as u64).sum()
    }

    /// Returns the entry in the form that `append` takes.
    pub fn as_new(&self) -> NewEntry<'_> {
        NewEntry { meta: &self.meta, parts: &self.parts, routing: &self.routing, rows: &self.rows }
    }
}

/// Options for a spool.
#[derive(Clone, Copy, Debug)]
pub struct SpoolOptions {
    /// Bytes after which a new segment begins, at most [`SEGMENT_BYTES_MAX`]. A larger entry gets a
    /// separate segment.
    pub segment_bytes: u64,
}

impl Default for SpoolOptions {
    fn default() -> SpoolOptions {
        SpoolOptions { segment_bytes: SEGMENT_BYTES_MAX }
    }
}

/// An external record of a spool, for example from a checkpoint store: the minimum that its files
/// must contain.
///
/// The files alone cannot reveal that the last files are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpoolRecord {
    /// Entries before this number have been delivered.
    pub settled: EntryNumber,
    /// Number after the last entry that the record includes. The files may also contain later
    /// entries.
    pub end: EntryNumber,
    /// Number of entries from `settled` to `end`.
    pub entries: u64,
    /// Number of events in these entries.
    pub events: u64,
}

/// Creates a record in which only the delivered entries are known.
impl From<EntryNumber> for SpoolRecord {
    fn from(settled: EntryNumber) -> SpoolRecord {
        SpoolRecord { settled, end: settled, entries: 0, events: 0 }
    }
}

/// The entries that a [`SpoolRecord`] includes but the files lack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Number of entries.
    pub entries: u64,
    /// Number of events in these entries.
    pub events: u64,
}

/// A damaged part of a segment. Its entries are not returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Name of the segment's file.
    pub segment: String,
    /// Position of the first damaged byte in the file.
    pub at: u64,
    /// Number of bytes that were skipped.
    pub bytes: u64,
    /// Number of entries that were lost, if known.
    pub entries: Option<u64>,
    /// Number of events that were lost, if known.
    pub events: Option<u64>,
}

/// The oldest entries that can be dropped to make room. They all belong to one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldestEntries {
    /// The number in the segment's name.
    pub segment: EntryNumber,
    /// The lowest number of these entries.
    pub first: EntryNumber,
    /// The highest number of these entries.
    pub last: EntryNumber,
    /// Number of entries.
    pub entries: u64,
    /// Number of events in these entries.
    pub events: u64,
}

/// The size and the entries of a spool. Entries that have not been synced yet do not count as
/// unread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpoolStats {
    /// Total bytes of the segment files, including appended bytes that are not synced.
    pub bytes: u64,
    /// Number of segment files.
    pub segments: usize,
    /// Entries that [`Spool::next`] has not returned.
    pub unread_entries: u64,
    /// Events in the unread entries.
    pub unread_events: u64,
    /// Bytes of the unread entries.
    pub unread_bytes: u64,
    /// Time at which the oldest unreleased entry was written, in milliseconds since 1970.
    pub oldest_unreleased_ms: Option<i64>,
    /// Time at which the oldest unread entry was written, in milliseconds since 1970.
    pub oldest_unread_ms: Option<i64>,
    /// The lowest number allowed for the next entry. It is greater than the numbers of all entries,
    /// and at least the number of the first unsettled entry.
    pub next_number: EntryNumber,
    /// A number that is greater than that of any durable entry.
    pub durable_end: EntryNumber,
    /// Whether there is an unread entry.
    pub has_unread: bool,
}

/// Reason why a spool cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// Another agent uses the folder.
    #[error(
        "disk buffer {folder} is in use by another agent (process {process}); stop that agent, or set another data_dir for this agent"
    )]
    InUse {
        /// The spool's folder.
        folder: String,
        /// Id of the process that uses the folder.
        process: String,
    },
    /// A segment was written by a newer release.
    #[error(
        "disk buffer {folder} has format {found}, but this release reads {SEGMENT_FORMAT}; run the \
         release that wrote the buffer until the buffer is empty, or move the folder away"
    )]
    Newer {
        /// The spool's folder.
        folder: String,
        /// Version of the segment's format.
        found: u32,
    },
    /// The disk cannot be read or written.
    #[error("disk buffer {folder}: {error}")]
    Io {
        /// The spool's folder.
        folder: String,
        /// The disk error.
        error: io::Error,
    },
}

#[cfg(test)]
mod tests;
