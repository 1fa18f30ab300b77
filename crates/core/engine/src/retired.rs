//! Sinks that a reload has removed, and that still deliver the payloads in their lanes.

use crate::blueprint::SinkPart;
use crate::core::{Core, Node, SinkSlot, SourceSlot};
use crate::dead_lanes::until_dead;
use crate::disk_buffer::DiskBuffer;
use crate::lane::LaneQueue;
use millstream_model::Sink;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A removed sink whose lanes may still contain payloads.
pub(crate) struct Retired {
    id: Arc<str>,
    type_name: &'static str,
    sink: Arc<dyn Sink>,
    lanes: Vec<Arc<LaneQueue>>,
    /// The disk buffer, unless another sink has taken it over.
    disk: Mutex<Option<Arc<DiskBuffer>>>,
    /// Whether all payloads in the lanes will be reread for the successor.
    is_reread: AtomicBool,
}

impl Retired {
    /// Takes a sink from a topology that is being replaced.
    pub fn of(node: &Node, slot: &SinkSlot) -> Retired {
        Retired {
            id: node.id.clone(),
            type_name: node.type_name,
            sink: slot.sink.clone(),
            lanes: slot.lanes.clone(),
            disk: Mutex::new(slot.disk.clone()),
            is_reread: AtomicBool::new(false),
        }
    }

    /// Returns the id of the sink.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the lanes.
    pub fn lanes(&self) -> &[Arc<LaneQueue>] {
        &self.lanes
    }

    /// Returns the disk buffer, unless another sink has taken it over.
    pub fn disk(&self) -> Option<Arc<DiskBuffer>> {
        self.disk.lock().clone()
    }

    /// Records whether all payloads in the lanes will be reread for a successor.
    pub fn note_successor(&self, old: &Core, next: &Core) {
        let successor = next.nodes().sinks().find(|(node, _)| *node.id == *self.id);
        let Some(index) = successor.map(|(_, slot)| slot.index) else { return };
        let is_read_again = |source: &SourceSlot| {
            let mut after = next.sources().iter().filter(|after| after.id == source.id);
            source.ledger.progress(index).unsettled == 0
                || source.traits.reads_again && after.any(|after| after.reaches(index))
        };
        let is_reread = old.resources().removed.unsettled().is_empty()
            && old.sources().iter().all(is_read_again);
        self.is_reread.store(is_reread, Ordering::Relaxed);
    }

    /// Returns whether all lanes have ended.
    pub fn has_ended(&self) -> bool {
        self.lanes.iter().all(|lane| lane.has_ended())
    }

    /// Returns whether a sink may write to the same place, or save its lanes' state under the same
    /// keys. Sinks of different types write to different places.
    pub fn may_meet(&self, part: &SinkPart) -> bool {
        *self.id == *part.id || self.type_name == part.type_name
    }

    /// Ends the lanes without delivering their payloads.
    pub fn let_go(&self) {
        for lane in &self.lanes {
            lane.let_go();
        }
    }

    /// Delivers the payloads in the lanes for up to `drain`, then closes the sink.
    pub async fn drain(self: Arc<Self>, drain: Duration) {
        for lane in &self.lanes {
            lane.close();
        }
        let ended = async {
            for lane in &self.lanes {
                lane.ended().await;
            }
        };
        tokio::pin!(ended);
        let is_reread = self.is_reread.load(Ordering::Relaxed);
        let id = &self.id;
        let bytes = || self.lanes.iter().map(|lane| lane.bytes()).sum::<u64>();
        let has_ended = tokio::select! {
            () = &mut ended => true,
            () = until_dead(&self.lanes, drain), if is_reread => {
                log::info!(
                    "sink {id}: {} bytes could not be delivered before the reload and are reread",
                    bytes()
                );
                false
            }
            () = tokio::time::sleep(drain) => {
                let bytes = bytes();
                let what = if is_reread { "; they are reread" } else { "" };
                log::warn!(
                    "sink {id}: {bytes} bytes were not delivered within {drain:?} of its removal{what}"
                );
                false
            }
        };
        if !has_ended {
            self.let_go();
            ended.await;
        }
        self.sink.close();
        let disk = self.disk.lock().take();
        if let Some(disk) = disk {
            disk.close();
        }
    }

    /// Hands the disk buffer to a sink in `next` that uses it, if there is one; otherwise stops
    /// reading from it.
    pub fn leave_disk(&self, next: &Core) {
        let mut left = self.disk.lock();
        let Some(disk) = &*left else { return };
        if next.nodes().disks().any(|(_, other)| Arc::ptr_eq(other, disk)) {
            *left = None;
        } else {
            disk.detach();
        }
    }
}
