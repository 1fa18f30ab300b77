//! Matches each sink of the next topology to the sink that it replaces.

use crate::blueprint::{Parts, SinkPart, SinkPlace};
use crate::core::{Core, IsKept, SinkSlot};
use crate::disk_buffer::DiskBuffer;
use crate::error::EngineError;
use crate::retired::Retired;
use millstream_model::{SinkIndex, SinkSet};
use std::sync::Arc;

/// The sinks before and after a change of the topology.
pub(super) struct Succession<'a> {
    pub old: &'a Core,
    /// The components of the next topology.
    pub parts: &'a Parts,
    pub kept: &'a IsKept<'a>,
    /// Sinks that earlier reloads have removed, and that still deliver.
    pub retired: &'a [Arc<Retired>],
    /// Sinks that this change removes.
    pub leaving: &'a [Arc<Retired>],
}

impl<'a> Succession<'a> {
    /// Assigns indices to the sinks of the next topology. A sink with changed options keeps its
    /// index, because its successor is responsible for the data in flight.
    ///
    /// # Errors
    ///
    /// Returns an error if no index is free.
    pub fn places(&self) -> Result<Vec<SinkPlace>, EngineError> {
        let sinks = &self.parts.sinks;
        let before = sinks.iter().filter_map(|part| self.before(part));
        let mut taken: SinkSet = before.map(|slot| slot.index).collect();
        let mut places = Vec::new();
        for part in sinks {
            let place = self.place(part, taken)?;
            taken = taken | SinkSet::one(place.index);
            places.push(place);
        }
        Ok(places)
    }

    fn place(&self, part: &SinkPart, taken: SinkSet) -> Result<SinkPlace, EngineError> {
        let before = self.before(part);
        let index = match before {
            Some(slot) => slot.index,
            None => SinkIndex::all()
                .find(|index| !taken.contains(*index))
                .ok_or(EngineError::NoFreeSinkIndex)?,
        };
        let mut after = Vec::new();
        if !(self.kept)(self.parts.kind_of(&part.id), &part.id) {
            for sink in self.retired.iter().chain(self.leaving) {
                if sink.may_meet(part) {
                    after.extend(sink.lanes().iter().cloned());
                }
            }
        }
        let running = before.and_then(|slot| slot.disk.clone());
        Ok(SinkPlace { index, after, disk: running.or_else(|| self.retired_disk(part)) })
    }

    /// Returns the disk buffer of a previously removed sink with the same id.
    fn retired_disk(&self, part: &SinkPart) -> Option<Arc<DiskBuffer>> {
        let mut retired = self.retired.iter().filter(|sink| *sink.id() == *part.id);
        retired.find_map(|sink| sink.disk())
    }

    /// Returns the previously removed sinks whose ids the next topology uses again.
    pub fn returning(&self) -> Vec<Arc<Retired>> {
        let is_new = |id: &str| {
            let is_part = self.parts.sinks.iter().any(|part| part.id == id);
            is_part && !self.old.nodes().sinks().any(|(node, _)| *node.id == *id)
        };
        self.retired.iter().filter(|sink| is_new(sink.id())).cloned().collect()
    }

    /// Returns the running sink with the same id as a part.
    fn before(&self, part: &SinkPart) -> Option<&'a SinkSlot> {
        let mut sinks = self.old.nodes().sinks();
        sinks.find(|(node, _)| *node.id == *part.id).map(|(_, slot)| slot)
    }
}
