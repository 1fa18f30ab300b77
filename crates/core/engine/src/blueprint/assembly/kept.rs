//! The components that a topology takes over from its predecessor during a reload.

use super::Assembly;
use crate::blueprint::{SinkPart, wake_for_room};
use crate::core::{Fed, Node, SourceSlot};
use crate::disk_buffer::{DiskBuffer, Opening};
use crate::error::EngineError;
use millstream_model::{Counters, Kind};
use millstream_store::Store;
use std::sync::Arc;

impl Assembly<'_> {
    /// Returns the node of a transform or sink if the reload keeps it.
    pub fn kept_node(&self, kind: Kind, id: &str) -> Option<Node> {
        let mut nodes = self.old.nodes().iter();
        let node = nodes.find(|node| node.kind == kind && *node.id == *id);
        node.filter(|_| (self.kept)(kind, id)).cloned()
    }

    /// Returns a component's counters. The counters are shared with a predecessor of the same id
    /// and type, so that events that the predecessor counts while it shuts down are not lost.
    pub fn counters(&self, kind: Kind, id: &str, type_name: &str) -> Arc<Counters> {
        for node in self.old.nodes().iter() {
            if node.kind == kind && *node.id == *id && node.type_name == type_name {
                return node.counters.clone();
            }
        }
        for source in self.old.sources().iter() {
            if kind == Kind::Source && *source.id == *id && source.type_name == type_name {
                return source.counters.clone();
            }
        }
        Arc::new(Counters::of(id))
    }

    /// Returns a sink's disk buffer: the buffer that the sink takes over, an existing one on disk,
    /// or a new one if the sink's configuration asks for it.
    ///
    /// # Errors
    ///
    /// Returns an error if the disk buffer cannot be opened, or if the sink cannot deliver the
    /// entries in it.
    pub fn disk_buffer(
        &self,
        id: &Arc<str>,
        part: &SinkPart,
        taken_over: Option<Arc<DiskBuffer>>,
        counters: &Arc<Counters>,
    ) -> Result<Option<Arc<DiskBuffer>>, EngineError> {
        let resources = self.old.resources();
        let store = &resources.store;
        let folder = store.disk_buffer_dir(id);
        let unknown = |error| EngineError::DiskBufferPosition { id: id.to_string(), error };
        let record = store.disk_buffer(id).map_err(unknown)?;
        // Also open a folder that has disappeared, so that its entries are counted as lost.
        let is_used = folder.exists() || record.entries > 0;
        let is_wanted = part.buffer.disk.is_some() || taken_over.is_some() || is_used;
        if !is_wanted {
            return Ok(None);
        }
        let scheduler = Arc::downgrade(&resources.scheduler);
        let keeper = Arc::downgrade(store);
        let opening = || Opening {
            sink_id: id.clone(),
            folder,
            buffer: part.buffer,
            record,
            counters: counters.clone(),
            grant: resources.grant.clone(),
            on_room: Box::new(move || wake_for_room(&scheduler)),
            commit: Box::new(move || keeper.upgrade().map_or(Ok(()), |store| store.commit_moved())),
        };
        let disk = match taken_over {
            Some(disk) => disk,
            None => opened(opening(), store)?,
        };
        disk.check_format(&part.sink.payload_format())?;
        Ok(Some(disk))
    }

    /// Returns the slot of a source if the reload keeps it. A source that a sink feeds is kept
    /// together with that sink.
    pub fn kept_source(&self, id: &str, fed: Option<&Fed>) -> Option<&SourceSlot> {
        let feeder = fed.map(|fed| &fed.feeder);
        let is_same = |slot: &&SourceSlot| {
            *slot.id == *id && slot.fed.as_ref().map(|fed| &fed.feeder) == feeder
        };
        self.old.sources().iter().find(is_same).filter(|slot| slot.is_kept(self.kept))
    }
}

/// Opens a disk buffer. If its files lack entries that the saved record includes, a new record is
/// saved immediately, so that a restart after a kill does not count the missing entries twice.
fn opened(opening: Opening, store: &Store) -> Result<Arc<DiskBuffer>, EngineError> {
    let id = opening.sink_id.clone();
    let disk = DiskBuffer::open(opening)?;
    if let Some(record) = disk.unsaved() {
        match store.save_disk_buffer(&id, record) {
            Ok(()) => disk.saved(record),
            Err(error) => log::warn!("sink {id}: disk buffer: {error}; retrying"),
        }
    }
    Ok(disk)
}
