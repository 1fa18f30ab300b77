//! The disk buffers of a topology.

use super::{Core, Node, Op, SinkSlot, SourceSlot};
use crate::buffer::Buffer;
use crate::disk_buffer::{DiskBuffer, Target};
use crate::lane::LaneQueue;
use millstream_model::{EngineTime, SinkSet};
use std::sync::Arc;
use std::time::Duration;

impl Node {
    /// Returns the node of a sink with another buffer.
    pub fn with_buffer(
        mut self,
        share: u64,
        buffer: Buffer,
        disk: Option<Arc<DiskBuffer>>,
    ) -> Node {
        if let Op::Sink(slot) = &mut self.op {
            (slot.share, slot.buffer, slot.disk) = (share, buffer, disk);
        }
        self
    }
}

impl SinkSlot {
    /// Adds a disk buffer, and the lanes that must end before those of this sink begin.
    pub fn with_disk(self, disk: Option<Arc<DiskBuffer>>, after: Vec<Arc<LaneQueue>>) -> SinkSlot {
        SinkSlot { disk, after, ..self }
    }

    /// Delivers from the disk buffer, if there is one, to these lanes.
    pub fn attach_disk(&self) {
        let target = || Target {
            sink: self.sink.clone(),
            lanes: self.lanes.clone(),
            after: self.after.clone(),
            feed: self.feed.clone(),
            share: self.share,
            buffer: self.buffer,
        };
        self.disk.iter().for_each(|disk| disk.attach(target()));
    }
}

impl Core {
    /// Returns the sinks whose disk buffers take data that could wait in the source.
    pub(super) fn overflow(&self, source: &SourceSlot, now: EngineTime) -> SinkSet {
        if !source.overflows || !source.can_wait {
            return SinkSet::EMPTY;
        }
        let has_room = |slot: &&SinkSlot| {
            let disk = slot.disk.as_ref().filter(|_| slot.buffer.disk.is_some());
            disk.is_some_and(|disk| slot.disk_full_for(disk, now).is_none())
        };
        let reached = self.sinks().map(|(_, slot)| slot);
        let reached = reached.filter(|slot| source.downstream.contains(slot.index));
        reached.filter(has_room).map(|slot| slot.index).collect()
    }

    /// Whether all that is not delivered is in disk buffers.
    pub fn rest_is_on_disk(&self) -> bool {
        let is_safe = |slot: &SinkSlot| {
            let is_durable = slot.disk.as_ref().is_some_and(|disk| disk.is_durable());
            is_durable || slot.lanes.iter().all(|lane| lane.has_ended())
        };
        self.is_drained() && self.sinks().all(|(_, slot)| is_safe(slot))
    }

    /// Returns the disk buffers, with their sinks.
    pub fn disks(&self) -> impl Iterator<Item = (&Node, &Arc<DiskBuffer>)> {
        self.sinks().filter_map(|(node, slot)| Some((node, slot.disk.as_ref()?)))
    }

    /// Closes a sampling interval of the disk buffers.
    pub fn sample_disks(&self, interval: Duration) {
        self.disks().for_each(|(_, disk)| disk.sample(interval));
    }
}
