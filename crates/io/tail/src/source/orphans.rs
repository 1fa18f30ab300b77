//! Truncated files whose copy may still appear, and files whose data is still in flight.

use super::scope::Scope;
use crate::copy_detection::{Candidate, may_be_rotation, read_part_in};
use crate::identity::Fingerprints;
use crate::records::{FileRecord, forget};
use crate::tail::Tail;
use millstream_model::{EngineTime, Ledger, OriginId, SinkIndex, SourceCx, SourceOpen};
use std::path::Path;
use std::time::Duration;

/// How long to wait for the copy of a truncated file to appear, because the copy may be compressed
/// first.
pub(super) const ORPHAN_TIME: Duration = Duration::from_secs(60);

/// A file that was truncated, deleted or dropped, and whose copy may still appear.
pub(super) struct Orphan {
    /// When the wait for the copy began.
    since: EngineTime,
    record: FileRecord,
    fingerprints: Fingerprints,
    name: String,
    /// The known size in bytes; 0 if unread data is not counted as lost.
    size: u64,
}

impl Orphan {
    /// Creates the orphan of a file that was truncated at `now`, with the checkpoints of `sinks`.
    pub(super) fn new(mut old: Tail, sinks: &[(SinkIndex, String)], now: EngineTime) -> Orphan {
        Orphan {
            since: now,
            size: old.known_size(),
            name: old.name().to_owned(),
            fingerprints: old.take_fingerprints(),
            record: old.into_record(sinks),
        }
    }

    /// Creates the orphan of a deleted file. The data that was read is settled, and at least
    /// `unread` bytes are unread.
    pub(super) fn of_record(record: FileRecord, unread: u64, now: EngineTime) -> Orphan {
        let descriptor = &record.descriptor;
        Orphan {
            since: now,
            fingerprints: Fingerprints::new(descriptor.fingerprint),
            name: descriptor.path.to_string(),
            size: if unread > 0 { descriptor.fingerprint.end + unread } else { 0 },
            record,
        }
    }

    /// Makes the orphan's unread data not count as lost.
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

    /// Returns the number of known bytes that at least one sink has not read.
    pub(super) fn unread(&self) -> u64 {
        self.size.saturating_sub(self.least())
    }

    /// Returns the lowest checkpoint.
    fn least(&self) -> u64 {
        self.record.checkpoints.iter().map(|(_, position)| *position).min().unwrap_or(0)
    }

    /// Moves the checkpoint of a sink back to an offset.
    fn take_back(&mut self, sink: &str, offset: u64) {
        for (id, checkpoint) in &mut self.record.checkpoints {
            if id == sink {
                *checkpoint = offset.min(*checkpoint);
            }
        }
    }

    /// Returns the offset up to which `copy` contains what was read from the file; `None` if it is
    /// not a copy.
    fn read_part_in(&self, copy: &mut Candidate) -> Option<u64> {
        let descriptor = &self.record.descriptor;
        if !may_be_rotation(&descriptor.path, Path::new(descriptor.name()), &copy.path) {
            return None;
        }
        read_part_in(copy, descriptor.head, &self.fingerprints)
    }

    /// Returns the record with which reading continues in the copy.
    pub(super) fn into_record(mut self, copy: &mut Candidate) -> FileRecord {
        let least = self.least();
        let descriptor = &mut self.record.descriptor;
        if let Err(error) = descriptor.continue_in(&mut copy.content, &self.fingerprints) {
            log::warn!("cannot read the copy {}: {error}", copy.path.display());
        }
        // The store may have no checkpoint for the file until a checkpoint advances. Until then, a
        // restart continues at `start`.
        descriptor.start = descriptor.start.max(least);
        self.record
    }
}

/// Truncated, deleted or dropped files that cannot be forgotten yet.
#[derive(Default)]
pub(super) struct Orphans {
    orphans: Vec<Orphan>,
    /// Files that the ledger still tracks, because some of their data may be in flight.
    closing: Vec<OriginId>,
}

impl Orphans {
    /// Returns whether no copy is awaited.
    pub(super) fn is_empty(&self) -> bool {
        self.orphans.is_empty()
    }

    /// Adds a file whose copy may appear.
    pub(super) fn push(&mut self, orphan: Orphan) {
        self.orphans.push(orphan);
    }

    /// Records that a file must be closed in the ledger once none of its data is in flight.
    pub(super) fn close(&mut self, id: OriginId) {
        self.closing.push(id);
    }

    /// Closes the files without data in flight. The wait for the copy of a truncated file restarts
    /// when the file is closed, because abandoned data is read from the copy.
    pub(super) fn close_settled(&mut self, ledger: &Ledger, now: EngineTime) {
        let orphans = &mut self.orphans;
        self.closing.retain(|id| {
            let Some(orphan) = orphans.iter_mut().find(|orphan| orphan.id() == *id) else {
                return !ledger.close(*id);
            };
            let is_released = ledger.release(*id);
            if is_released {
                orphan.since = now;
            }
            !is_released
        });
    }

    /// Records that a sink abandoned data of a truncated file starting at `offset`; returns whether
    /// a copy is awaited from which the data can be reread. Returns `false` for a file that was
    /// dropped, because its data was already counted as lost.
    pub(super) fn take_back(&mut self, id: OriginId, sink: &str, offset: u64) -> bool {
        let mut counted = self.orphans.iter_mut().filter(|orphan| orphan.size > 0);
        let Some(orphan) = counted.find(|orphan| orphan.record.id == id) else { return false };
        orphan.take_back(sink, offset);
        true
    }

    /// Returns the modification time up to which all generations of a name are accounted for;
    /// `None` if no copy of a generation is awaited.
    pub(super) fn since(&self, name: &Path) -> Option<i64> {
        let descriptors = self.orphans.iter().map(|orphan| &orphan.record.descriptor);
        let named = descriptors.filter(|descriptor| Path::new(descriptor.name()) == name);
        named.map(|descriptor| descriptor.since_ns).max()
    }

    /// Returns whether the candidate is the copy of a truncated file with data in flight. Reading
    /// continues in the copy once nothing is in flight.
    pub(super) fn is_in_flight(&self, candidate: &mut Candidate) -> bool {
        let mut closing =
            self.orphans.iter().filter(|orphan| self.closing.contains(&orphan.record.id));
        closing.any(|orphan| orphan.read_part_in(candidate).is_some())
    }

    /// Removes and returns the file that continues in the candidate. If several files have the same
    /// beginning, the best match is the file from which the most data was read.
    pub(super) fn take(&mut self, candidate: &mut Candidate) -> Option<Orphan> {
        let orphans = self.orphans.iter().enumerate();
        let continued =
            orphans.filter_map(|(index, orphan)| Some((orphan.read_part_in(candidate)?, index)));
        let (_, best) = continued.max()?;
        Some(self.orphans.swap_remove(best))
    }

    /// Removes and returns the files that were truncated so long ago that no copy will appear. A
    /// file with data in flight is kept, because its copy is read only after this data is settled.
    fn take_late(&mut self, now: EngineTime) -> Vec<Orphan> {
        let closing = &self.closing;
        let is_late = |orphan: &mut Orphan| {
            now - orphan.since >= ORPHAN_TIME && !closing.contains(&orphan.record.id)
        };
        self.orphans.extract_if(.., is_late).collect()
    }

    /// Gives up on truncated files whose copy will not appear: counts their unread data as lost,
    /// and deletes their records. With a finite input, gives up on all truncated files; otherwise,
    /// on those that were truncated at least `ORPHAN_TIME` ago.
    pub(super) fn expire(&mut self, scope: &Scope, cx: &SourceCx<'_>) {
        let late = if scope.is_finite(cx) {
            std::mem::take(&mut self.orphans)
        } else {
            self.take_late(cx.now.since_start)
        };
        for orphan in &late {
            count_truncated(orphan.name(), orphan.unread(), &scope.open);
        }
        let late: Vec<OriginId> = late.iter().map(Orphan::id).collect();
        forget(&late, &*scope.open.store, &cx.info.id);
    }

    /// Counts the unread data of truncated files without a copy during shutdown. Their records
    /// stay, because the agent may find the copies after a restart.
    pub(super) fn count_all(&mut self, open: &SourceOpen) {
        for orphan in std::mem::take(&mut self.orphans) {
            count_truncated(orphan.name(), orphan.unread(), open);
        }
    }
}

/// Counts and logs the lost bytes of a truncated file.
pub(super) fn count_truncated(name: &str, bytes: u64, open: &SourceOpen) {
    if bytes == 0 {
        return;
    }
    let counters = &open.counters;
    counters.error("truncated_unread");
    counters.dropped("truncated_unread", 1);
    counters.dropped_bytes("truncated_unread", bytes);
    log::error!(
        "source {}: {bytes} bytes of {name} were truncated before all sinks had delivered them",
        open.info.id
    );
}
