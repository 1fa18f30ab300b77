//! Commits of checkpoints.

use super::Core;
use crate::disk_buffer::DiskBuffer;
use millstream_model::SinkIndex;
use millstream_recorder::record;
use millstream_recorder::recorder;
use millstream_recorder::schema::EventKind;
use millstream_store::DiskBufferRecord;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

impl Core {
    /// Commits the checkpoints that moved.
    pub fn commit(&self) -> io::Result<()> {
        let timer = recorder::start(EventKind::Checkpoint);
        let (committed, checkpoints) = self.commit_moved();
        if checkpoints > 0 || committed.is_err() {
            let failure = |error: &io::Error| error.kind().to_string();
            let outcome = committed.as_ref().err().map_or_else(|| "committed".to_owned(), failure);
            record::checkpoint(timer, checkpoints, &outcome);
        }
        committed
    }

    /// The same; returns the number of checkpoints, too.
    fn commit_moved(&self) -> (io::Result<()>, usize) {
        let sink_ids: HashMap<SinkIndex, &Arc<str>> =
            self.sinks().map(|(node, slot)| (slot.index, &node.id)).collect();
        let mut saved: Vec<(&Arc<DiskBuffer>, DiskBufferRecord)> = Vec::new();
        let mut checkpoints = 0;
        let committed = self.store.commit(|moved| {
            for source in &self.sources {
                for (origin, offsets) in source.ledger.take_moved() {
                    let known =
                        offsets.iter().filter_map(|(sink, at)| Some((*sink_ids.get(sink)?, *at)));
                    for (sink, offset) in known {
                        moved.checkpoint(&source.id, origin, sink, offset);
                        checkpoints += 1;
                    }
                }
            }
            // Behind the sources: what they have settled as durable on disk is in the record.
            for (node, disk) in self.disks() {
                let Some(record) = disk.unsaved() else { continue };
                moved.disk_buffer(&node.id, record);
                saved.push((disk, record));
            }
        });
        checkpoints += saved.len();
        if committed.is_ok() {
            saved.into_iter().for_each(|(disk, record)| disk.saved(record));
        }
        (committed, checkpoints)
    }
}
