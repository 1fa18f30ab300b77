//! Changes of a source's sinks at a reload.

use super::FileSource;
use millstream_model::{EngineTime, OriginId, OriginRecord, SinkIndex, SinkSet};
use std::collections::HashMap;

impl FileSource {
    /// Replaces the sinks. A new sink starts each file where it would after a restart: at its
    /// checkpoint, or where reading of the file began. The others keep their positions.
    pub(super) fn change_sinks(&mut self, sinks: &[(SinkIndex, String)]) {
        let stays = |sink: &&(SinkIndex, String)| self.open.sinks.contains(sink);
        let kept: SinkSet = sinks.iter().filter(stays).map(|(index, _)| *index).collect();
        let come: Vec<&(SinkIndex, String)> = sinks.iter().filter(|sink| !stays(sink)).collect();
        // Reading the store is expensive with many files, and only new sinks need it.
        let read = if come.is_empty() { Ok(Default::default()) } else { self.open.store.origins() };
        let (records, _) = read.unwrap_or_else(|error| {
            log::error!(
                "source {}: cannot read checkpoints: {error}; new sinks start where reading of each file began",
                self.open.info.id
            );
            Default::default()
        });
        let records: HashMap<OriginId, OriginRecord> =
            records.into_iter().map(|r| (r.id, r)).collect();
        for tail in self.files.iter_mut() {
            let (id, start) = (tail.id(), tail.descriptor().start);
            let checkpoints = records.get(&id).map_or(&[][..], |record| &record.checkpoints);
            let checkpoint =
                |sink: &str| checkpoints.iter().find(|(of, _)| of == sink).map(|(_, at)| *at);
            let position =
                |(index, id): &&(SinkIndex, String)| (*index, checkpoint(id).unwrap_or(start));
            let come: Vec<(SinkIndex, u64)> = come.iter().map(position).collect();
            come.iter().for_each(|(sink, at)| self.open.ledger.join(id, *sink, *at));
            tail.set_sinks(kept, come);
            self.schedule.poll_at(tail, EngineTime::ZERO);
        }
        self.open.sinks = sinks.to_vec();
        if !come.is_empty() {
            // A walk loads the finished files, which a new sink may have to read.
            self.finished.forget_states();
            self.walks.request();
        }
    }
}
