//! Changes to a source's sinks during a reload.

use super::tails::Tails;
use millstream_model::{EngineTime, OriginId, OriginRecord, SinkIndex, SinkSet, SourceOpen};
use std::collections::HashMap;

/// A change to a source's sinks.
pub(super) struct SinkChange<'a> {
    kept: SinkSet,
    added: Vec<&'a (SinkIndex, String)>,
}

impl<'a> SinkChange<'a> {
    /// Compares a source's new sinks with its current sinks.
    pub(super) fn new(sinks: &'a [(SinkIndex, String)], open: &SourceOpen) -> SinkChange<'a> {
        let stays = |sink: &&(SinkIndex, String)| open.sinks.contains(sink);
        SinkChange {
            kept: sinks.iter().filter(stays).map(|(index, _)| *index).collect(),
            added: sinks.iter().filter(|sink| !stays(sink)).collect(),
        }
    }

    /// Returns whether there are new sinks.
    pub(super) fn has_new(&self) -> bool {
        !self.added.is_empty()
    }

    /// Changes the sinks of all files. A new sink starts each file where it would start after a
    /// restart: at its checkpoint, or at the offset where reading of the file began. Remaining
    /// sinks keep their positions.
    pub(super) fn apply(&self, files: &mut Tails, open: &SourceOpen) {
        let checkpoints = self.checkpoints(open);
        for tail in files.iter_mut() {
            let id = tail.id();
            let start = tail.descriptor().start;
            let saved = checkpoints.get(&id).map_or(&[][..], Vec::as_slice);
            let position = |sink: &str| {
                let checkpoint = saved.iter().find(|(other, _)| other == sink);
                checkpoint.map_or(start, |(_, offset)| *offset)
            };
            let added = self.added.iter().map(|(index, sink)| (*index, position(sink)));
            let added: Vec<(SinkIndex, u64)> = added.collect();
            for (sink, offset) in &added {
                open.ledger.join(id, *sink, *offset);
            }
            tail.set_sinks(self.kept, added);
        }
        files.poll_all_at(EngineTime::ZERO);
    }

    /// Returns the saved checkpoints by file. Reads the store only if there are new sinks, because
    /// that is expensive if there are many files.
    fn checkpoints(&self, open: &SourceOpen) -> HashMap<OriginId, Vec<(String, u64)>> {
        let mut records: Vec<OriginRecord> = Vec::new();
        if self.has_new() {
            match open.store.origins() {
                Ok((saved, _)) => records = saved,
                Err(error) => log::error!(
                    "source {}: cannot read checkpoints: {error}; new sinks start where the source \
                     began to read each file",
                    open.info.id
                ),
            }
        }
        records.into_iter().map(|record| (record.id, record.checkpoints)).collect()
    }
}
