//! Replaces the sinks of a running source after a reload.

use super::{JfrSource, SavedChunk};
use millstream_model::{SinkIndex, SinkSet};

impl JfrSource {
    /// Replaces the sinks. A new sink starts each chunk at the same position as after a restart: at
    /// its checkpoint, or where reading of the chunk began. The other sinks keep their positions.
    pub(super) fn change_sinks(&mut self, sinks: &[(SinkIndex, String)]) {
        let stays = |sink: &&(SinkIndex, String)| self.open.sinks.contains(sink);
        let kept: SinkSet = sinks.iter().filter(stays).map(|(index, _)| *index).collect();
        let come: Vec<_> = sinks.iter().filter(|sink| !stays(sink)).cloned().collect();
        self.open.sinks = sinks.to_vec();
        self.read_positions(!come.is_empty());
        for (_, chunk) in &mut self.chunks {
            let known = self.known.get(&chunk.id());
            let position = |sink: &str| known.and_then(|known| known.position(sink));
            let at = |sink: &str| position(sink).unwrap_or(chunk.start);
            let come: Vec<(SinkIndex, u64)> =
                come.iter().map(|(index, sink)| (*index, at(sink))).collect();
            for (sink, at) in &come {
                self.open.ledger.join(chunk.id(), *sink, *at);
            }
            chunk.set_sinks(kept, come);
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
                self.known.extend(records.into_iter().map(SavedChunk::of));
            }
            Err(error) => log::error!(
                "source {}: cannot read checkpoints: {error}; new sinks start where the source \
                 began to read each recording",
                self.open.info.id
            ),
        }
    }
}
