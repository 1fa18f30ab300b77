//! Committing checkpoints.

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
        let mut checkpoints = 0;
        let committed = self.commit_moved(&mut checkpoints);
        if checkpoints > 0 || committed.is_err() {
            let outcome = match &committed {
                Ok(()) => "committed".to_owned(),
                Err(error) => error.kind().to_string(),
            };
            record::checkpoint(timer, checkpoints, &outcome);
        }
        committed
    }

    /// Commits the checkpoints that moved, and counts them.
    fn commit_moved(&self, checkpoints: &mut usize) -> io::Result<()> {
        let sink_ids: HashMap<SinkIndex, &Arc<str>> =
            self.nodes.sinks().map(|(node, slot)| (slot.index, &node.id)).collect();
        let mut saved: Vec<(&Arc<DiskBuffer>, DiskBufferRecord)> = Vec::new();
        self.resources.store.commit(|moved| {
            for source in self.sources.iter() {
                for (origin, offsets) in source.ledger.take_moved() {
                    for (sink, offset) in offsets {
                        let Some(sink_id) = sink_ids.get(&sink) else { continue };
                        moved.checkpoint(&source.id, origin, sink_id, offset);
                        *checkpoints += 1;
                    }
                }
            }
            // Disk buffers come after the sources, so that each record includes all the data that a
            // committed checkpoint counts as durable on disk.
            for (node, disk) in self.nodes.disks() {
                let Some(record) = disk.unsaved() else { continue };
                moved.disk_buffer(&node.id, record);
                saved.push((disk, record));
                *checkpoints += 1;
            }
        })?;
        for (disk, record) in saved {
            disk.saved(record);
        }
        Ok(())
    }
}
