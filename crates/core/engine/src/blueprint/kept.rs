//! What a topology keeps of its predecessor at a reload.

use super::{Shared, SinkPart, wake_for_room};
use crate::core::{Fed, Node, SourceSlot};
use crate::disk_buffer::{DiskBuffer, Opening};
use crate::error::EngineError;
use crate::lane::LaneQueue;
use millstream_model::{Counters, Kind, SinkIndex};
use millstream_store::Store;
use std::sync::Arc;

/// The indices of a blueprint's sinks in sink sets.
pub(crate) struct SinkPlaces {
    /// Index of each sink, in the order of the blueprint.
    pub indices: Vec<SinkIndex>,
    /// For each sink, the lanes that must end before its own begin.
    pub after: Vec<Vec<Arc<LaneQueue>>>,
    /// For each sink, the disk buffer that it takes over.
    pub disks: Vec<Option<Arc<DiskBuffer>>>,
}

impl SinkPlaces {
    /// Assigns indices at the first start.
    pub fn first(sinks: &[SinkPart]) -> SinkPlaces {
        SinkPlaces {
            indices: SinkIndex::all().take(sinks.len()).collect(),
            after: vec![Vec::new(); sinks.len()],
            disks: vec![None; sinks.len()],
        }
    }
}

impl Shared<'_> {
    /// Returns the node of a transform or sink that is kept.
    pub fn kept_node(&self, kind: Kind, id: &str) -> Option<Node> {
        let node = self.old.nodes.iter().find(|node| node.kind == kind && *node.id == *id);
        node.filter(|_| (self.kept)(kind, id)).cloned()
    }

    /// Returns the counters of a component. They are shared with a predecessor of the same id and
    /// type, so that what it counts while it ends is visible.
    pub fn counters(&self, kind: Kind, id: &str, type_name: &str) -> Arc<Counters> {
        let nodes =
            self.old.nodes.iter().map(|node| (node.kind, &node.id, node.type_name, &node.counters));
        let sources = self
            .old
            .sources
            .iter()
            .map(|slot| (Kind::Source, &slot.id, slot.type_name, &slot.counters));
        let is_it = |(of, name, as_type, _): &(Kind, &Arc<str>, &str, &Arc<Counters>)| {
            *of == kind && ***name == *id && *as_type == type_name
        };
        let kept = nodes.chain(sources).find(is_it).map(|(.., counters)| counters.clone());
        kept.unwrap_or_else(|| Arc::new(Counters::of(id)))
    }

    /// Returns the disk buffer of a sink: the one that it has, or that is on disk, or a new one if
    /// it is configured.
    ///
    /// # Errors It cannot be opened, or the sink cannot send what is in it.
    pub fn disk_buffer(
        &self,
        index: usize,
        (kind, id): (Kind, &Arc<str>),
        part: &SinkPart,
        counters: &Arc<Counters>,
    ) -> Result<Option<Arc<DiskBuffer>>, EngineError> {
        if kind != Kind::Sink {
            return Ok(None);
        }
        let store = &self.old.store;
        let folder = store.disk_buffer_dir(id);
        let taken_over = self.places.disks[index].clone();
        let unknown = |error| EngineError::DiskBufferPosition { id: id.to_string(), error };
        let record = store.disk_buffer(id).map_err(unknown)?;
        // Of a folder that is gone what it held is counted.
        let is_used = folder.exists() || record.entries > 0;
        let is_wanted = part.buffer.disk.is_some() || taken_over.is_some() || is_used;
        if !is_wanted {
            return Ok(None);
        }
        let scheduler = Arc::downgrade(&self.old.scheduler);
        let keeper = Arc::downgrade(store);
        let opening = || Opening {
            sink_id: id.clone(),
            folder,
            buffer: part.buffer,
            record,
            counters: counters.clone(),
            grant: self.old.grant.clone(),
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

    /// Returns the id and counters of a new component.
    pub fn named(&self, kind: Kind, id: &str, type_name: &str) -> (Arc<str>, Arc<Counters>) {
        (id.into(), self.counters(kind, id, type_name))
    }

    /// Returns a new node with its counters.
    pub fn with_counters(&self, node: Node) -> Node {
        Node { counters: self.counters(node.kind, &node.id, node.type_name), ..node }
    }

    /// Returns the slot of a source that is kept; one that is `fed`, if its sink is kept.
    pub fn kept_source(&self, id: &str, fed: Option<&Fed>) -> Option<&SourceSlot> {
        let feeder = fed.map(|fed| &fed.feeder);
        let is_it = |slot: &&SourceSlot| {
            *slot.id == *id && slot.fed.as_ref().map(|fed| &fed.feeder) == feeder
        };
        self.old.sources.iter().find(is_it).filter(|slot| slot.is_kept(self.kept))
    }
}

/// Opens a disk buffer. If its files do not hold what was saved, that is saved at once: a start after
/// a kill must not count again what is missing.
fn opened(opening: Opening, store: &Store) -> Result<Arc<DiskBuffer>, EngineError> {
    let id = opening.sink_id.clone();
    let disk = DiskBuffer::open(opening)?;
    if let Some(record) = disk.unsaved() {
        match store.save_disk_buffer(&id, record) {
            Ok(()) => disk.saved(record),
            Err(error) => log::warn!("sink {id}: its disk buffer: {error}; trying again"),
        }
    }
    Ok(disk)
}
