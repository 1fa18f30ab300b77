//! Truncated files whose copy may still appear, and files whose data is still in flight.

use crate::copy_detection::{Candidate, may_be_rotation, read_part_in};
use crate::identity::{Descriptor, Fingerprints};
use crate::records::FileRecord;
use crate::tail::Tail;
use millstream_model::{EngineTime, Ledger, OriginId, OriginRecord, SinkIndex};
use std::path::Path;
use std::time::Duration;

/// How long to wait for the copy of a truncated file to appear: it may be compressed first.
pub(super) const ORPHAN_TIME: Duration = Duration::from_secs(60);

/// A file that was truncated before a copy of it was found.
pub(super) struct Orphan {
    /// When it was truncated.
    since: EngineTime,
    record: OriginRecord,
    descriptor: Descriptor,
    fingerprints: Fingerprints,
    name: String,
    /// The known size; 0 if unread data does not count as lost.
    size: u64,
}

impl Orphan {
    /// Creates the orphan of a file that was truncated at `now`. `sinks` are those of its source.
    pub(super) fn new(mut old: Tail, sinks: &[(SinkIndex, String)], now: EngineTime) -> Orphan {
        let checkpoints = old.checkpoints(sinks);
        Orphan {
            since: now,
            record: OriginRecord { id: old.id(), descriptor: Vec::new(), checkpoints },
            size: old.known_size(),
            name: old.name().to_owned(),
            fingerprints: old.take_fingerprints(),
            descriptor: old.into_descriptor(),
        }
    }

    /// Creates the orphan of a deleted file. What was read of it is settled; at least `unread` bytes
    /// were not.
    pub(super) fn of_record(
        record: OriginRecord,
        descriptor: Descriptor,
        unread: u64,
        now: EngineTime,
    ) -> Orphan {
        Orphan {
            since: now,
            record,
            fingerprints: Fingerprints::new(descriptor.fingerprint),
            name: descriptor.path.to_string(),
            size: if unread > 0 { descriptor.fingerprint.end + unread } else { 0 },
            descriptor,
        }
    }

    /// Returns the same orphan, whose unread data does not count as lost.
    pub(super) fn without_loss(self) -> Orphan {
        Orphan { size: 0, ..self }
    }

    /// Returns the id of the file.
    pub(super) fn id(&self) -> OriginId {
        self.record.id
    }

    /// Returns the first path of the file.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of bytes that some sink has not read, as far as the file's length was
    /// known.
    pub(super) fn unread(&self) -> u64 {
        self.size.saturating_sub(self.least())
    }

    /// Returns the lowest checkpoint.
    fn least(&self) -> u64 {
        self.record.checkpoints.iter().map(|(_, position)| *position).min().unwrap_or(0)
    }

    /// Moves the checkpoint of a sink back to an offset.
    fn take_back(&mut self, sink: &str, offset: u64) {
        let of_sink = self.record.checkpoints.iter_mut().filter(|(id, _)| id == sink);
        of_sink.for_each(|(_, checkpoint)| *checkpoint = offset.min(*checkpoint));
    }

    /// Returns up to which offset `copy` contains what was read of the file; `None` if it is no copy
    /// of it.
    fn read_part_in(&self, copy: &mut Candidate) -> Option<u64> {
        let (first, name) = (&self.descriptor.path, Path::new(self.descriptor.name()));
        let is_related = may_be_rotation(first, name, &copy.path);
        is_related.then(|| read_part_in(copy, self.descriptor.head, &self.fingerprints)).flatten()
    }

    /// Returns the record with which reading continues in the copy.
    pub(super) fn into_known(mut self, copy: &mut Candidate) -> FileRecord {
        if let Err(error) = self.descriptor.continue_in(&mut copy.content, &self.fingerprints) {
            log::warn!("cannot read the copy {}: {error}", copy.path.display());
        }
        // The store may have no checkpoints of the file until one advances. Until then a restart
        // continues at `start`.
        self.descriptor.start = self.descriptor.start.max(self.least());
        (self.record, self.descriptor)
    }
}

/// Files that are read no longer and not forgotten yet.
#[derive(Default)]
pub(super) struct Orphans {
    orphans: Vec<Orphan>,
    /// Files that the ledger still tracks, as data of them may be in flight.
    closing: Vec<OriginId>,
}

impl Orphans {
    /// Whether no copy is awaited.
    pub(super) fn is_empty(&self) -> bool {
        self.orphans.is_empty()
    }

    /// Adds a file whose copy may appear.
    pub(super) fn push(&mut self, orphan: Orphan) {
        self.orphans.push(orphan);
    }

    /// Closes a file in the ledger once none of its data is in flight.
    pub(super) fn close(&mut self, id: OriginId) {
        self.closing.push(id);
    }

    /// Closes the files without data in flight. What was abandoned of a file is read from its copy,
    /// which is awaited from then on.
    pub(super) fn close_settled(&mut self, ledger: &Ledger, now: EngineTime) {
        let orphans = &mut self.orphans;
        self.closing.retain(|id| match orphans.iter_mut().find(|orphan| orphan.id() == *id) {
            Some(orphan) => {
                let is_released = ledger.release(*id);
                orphan.since = if is_released { now } else { orphan.since };
                !is_released
            }
            None => !ledger.close(*id),
        });
    }

    /// Notes that a sink abandoned data of a truncated file from `offset` on, which is then read
    /// from the copy; returns whether a copy is awaited. Not for a file that was dropped: that its data
    /// is lost is counted at once.
    pub(super) fn take_back(&mut self, id: OriginId, sink: &str, offset: u64) -> bool {
        let mut counted = self.orphans.iter_mut().filter(|orphan| orphan.size > 0);
        let orphan = counted.find(|orphan| orphan.record.id == id);
        orphan.map(|orphan| orphan.take_back(sink, offset)).is_some()
    }

    /// Returns the modification time up to which all generations of a name are accounted for, if one
    /// of them is awaited.
    pub(super) fn since(&self, name: &Path) -> Option<i64> {
        let descriptors = self.orphans.iter().map(|orphan| &orphan.descriptor);
        let named = descriptors.filter(|descriptor| Path::new(descriptor.name()) == name);
        named.map(|descriptor| descriptor.since_ns).max()
    }

    /// Whether the candidate is the copy of a truncated file with data in flight. Reading continues
    /// in it once nothing is in flight.
    pub(super) fn is_in_flight(&self, candidate: &mut Candidate) -> bool {
        let mut closing =
            self.orphans.iter().filter(|orphan| self.closing.contains(&orphan.record.id));
        closing.any(|orphan| orphan.read_part_in(candidate).is_some())
    }

    /// Removes and returns the file that continues in the candidate. Of several with the same
    /// beginning, the one of which most was read is the best match.
    pub(super) fn take(&mut self, candidate: &mut Candidate) -> Option<Orphan> {
        let orphans = self.orphans.iter().enumerate();
        let continued =
            orphans.filter_map(|(index, orphan)| Some((orphan.read_part_in(candidate)?, index)));
        let (_, best) = continued.max()?;
        Some(self.orphans.swap_remove(best))
    }

    /// Removes and returns the files truncated so long ago that no copy will appear. One with data in
    /// flight stays: its copy is not read before that is settled.
    pub(super) fn take_late(&mut self, now: EngineTime) -> Vec<Orphan> {
        let closing = &self.closing;
        let is_late = |orphan: &mut Orphan| {
            now - orphan.since >= ORPHAN_TIME && !closing.contains(&orphan.record.id)
        };
        self.orphans.extract_if(.., is_late).collect()
    }

    /// Removes and returns all files whose copy may appear.
    pub(super) fn take_all(&mut self) -> Vec<Orphan> {
        std::mem::take(&mut self.orphans)
    }
}
