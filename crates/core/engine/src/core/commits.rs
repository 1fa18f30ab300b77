//! Commits of checkpoints.

use super::Core;
use millstream_model::SinkIndex;
use millstream_recorder::record;
use millstream_recorder::recorder;
use millstream_recorder::schema::EventKind;
use millstream_store::{DISK_BUFFER, DISK_BUFFERS};
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
        let mut positions = Vec::new();
        let mut checkpoints = 0;
        if self.disks().any(|(_, disk)| disk.position().is_some()) {
            self.store.note_disk_buffers();
        }
        let committed = self.store.commit(|note| {
            for (node, disk) in self.disks() {
                let Some(position) = disk.position() else { continue };
                note(&DISK_BUFFERS, DISK_BUFFER, &node.id, position);
                positions.push((disk, position));
            }
            for source in &self.sources {
                for (origin, moved) in source.ledger.take_moved() {
                    let known =
                        moved.iter().filter_map(|(sink, at)| Some((*sink_ids.get(sink)?, *at)));
                    for (sink, offset) in known {
                        note(&source.id, origin, sink, offset);
                        checkpoints += 1;
                    }
                }
            }
        });
        checkpoints += positions.len();
        if committed.is_ok() {
            positions.into_iter().for_each(|(disk, position)| disk.committed(position));
        }
        (committed, checkpoints)
    }
}
