//! The positions of sinks: at the start of a sequence, and after a reload.

use super::record::Record;
use super::{JournaldSource, SavedSequence};
use millstream_model::{OriginId, SinkIndex, SinkSet, SourceCx};
use xxhash_rust::xxh3::xxh3_64;

/// Returns the id of the record of the source itself.
pub fn own_record() -> OriginId {
    OriginId(xxh3_64(b"journald source"))
}

impl JournaldSource {
    /// Returns the time before which no entry is read, in microseconds since 1970. The first start
    /// fixes the time, so that a later start misses no entries that were written meanwhile.
    pub(super) fn since(&mut self, cx: &SourceCx<'_>) -> u64 {
        if let Some(since) = self.since_us {
            return since;
        }
        let since = match self.is_first {
            true => self.settings.since.unix_us(cx.now.unix_ns),
            false => 0,
        };
        let record = Record { since_us: Some(since), ..Record::default() };
        match self.open.store.keep(&[(own_record(), record.to_bytes())]) {
            Ok(()) => self.since_us = Some(since),
            Err(error) => {
                cx.counters.error("store");
                log::error!("source {}: cannot save its first start: {error}", cx.info.id);
            }
        }
        since
    }

    /// Replaces the sinks. A new sink starts at its checkpoint, or where the source began to read
    /// the sequence. The other sinks keep their positions.
    pub(super) fn change_sinks(&mut self, sinks: &[(SinkIndex, String)]) {
        let stays = |sink: &&(SinkIndex, String)| self.open.sinks.contains(sink);
        let kept: SinkSet = sinks.iter().filter(stays).map(|(index, _)| *index).collect();
        let come: Vec<_> = sinks.iter().filter(|sink| !stays(sink)).cloned().collect();
        self.open.sinks = sinks.to_vec();
        self.read_positions(!come.is_empty());
        for sequence in &mut self.sequences {
            let known = self.known.get(&sequence.id());
            let start = sequence.record.start;
            let position = |sink: &str| known.and_then(|known| known.position(sink));
            let at = |sink: &str| position(sink).unwrap_or(start);
            let come: Vec<(SinkIndex, u64)> =
                come.iter().map(|(index, sink)| (*index, at(sink))).collect();
            for (sink, at) in &come {
                self.open.ledger.join(sequence.id(), *sink, *at);
            }
            sequence.cursors.set_sinks(kept, come);
        }
        for sequence in &self.sequences {
            self.known.remove(&sequence.id());
        }
        if !come.is_empty() {
            // A new sink may need files that the other sinks have read.
            self.done.clear();
            self.folders.forget();
            self.looked = None;
        }
    }

    /// Reads the saved positions from the store if they are needed, which is only the case for new
    /// sinks.
    fn read_positions(&mut self, is_needed: bool) {
        if !is_needed {
            return;
        }
        match self.open.store.origins() {
            Ok((records, _)) => {
                let records = records.into_iter().filter(|record| record.id != own_record());
                for (id, saved) in records.map(SavedSequence::of) {
                    self.known.entry(id).or_default().add(saved);
                }
            }
            Err(error) => log::error!(
                "source {}: cannot read checkpoints: {error}; new sinks start where the source \
                 began to read each sequence",
                self.open.info.id
            ),
        }
    }
}
