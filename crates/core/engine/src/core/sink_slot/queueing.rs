//! Puts payloads into lane queues or into the disk buffer, and drops payloads for which a full
//! buffer has no room.

use super::SinkSlot;
use crate::buffer::{DiskMode, DiskOptions, WhenFull};
use crate::core::{Node, SourceSlot};
use crate::disk_buffer::Arrived;
use crate::index::LaneIndex;
use crate::limits::SHED_AGAIN;
use crate::ticket::Bound;
use millstream_model::{BackpressureReason, EngineTime, Outcome, Payload};
use std::sync::atomic::Ordering;

impl SinkSlot {
    /// Queues a payload from `source` in its lane or in the disk buffer. If there is no capacity,
    /// `when_full` applies: dropped payloads are counted and settled. A single payload always fits,
    /// however large it is.
    pub fn put(&self, node: &Node, source: &SourceSlot, bound: Bound, now: EngineTime) {
        let Bound { lane, payload, completes, .. } = bound;
        let disk = self.disk.as_ref().filter(|disk| disk.takes(self.spills(source)));
        let Some(disk) = disk else { return self.put_in_memory(node, lane, payload, now) };
        let shed = disk.put(Arrived { source: &source.id, lane, payload, completes });
        self.count_shed(node, shed.events, now);
        for hold in shed.holds {
            hold.settle(Outcome::Rejected);
        }
    }

    /// Returns whether payloads from a source go to the disk buffer when the queue is full. If a
    /// source can reread its data, the data waits in the source, unless the sink never lets the
    /// source wait.
    pub fn spills(&self, source: &SourceSlot) -> bool {
        source.traits.overflows || self.takes_all(source)
    }

    /// Returns whether a source never waits for a full queue. Such a source waits only for a full
    /// disk buffer, if at all.
    pub fn takes_all(&self, source: &SourceSlot) -> bool {
        let is_always = |disk: DiskOptions| disk.mode == DiskMode::Always;
        let drops = self.buffer.when_full != WhenFull::Block;
        !source.traits.can_wait || drops || self.buffer.disk.is_some_and(is_always)
    }

    fn put_in_memory(&self, node: &Node, lane: LaneIndex, payload: Payload, now: EngineTime) {
        let bytes = payload.queue_bytes();
        let has_room = || self.queued() == 0 || self.queued() + bytes <= self.share;
        match self.buffer.when_full {
            WhenFull::Block => {}
            WhenFull::DropNewest if !has_room() => {
                self.press(BackpressureReason::Drops, true);
                return self.shed(node, payload, now);
            }
            WhenFull::DropNewest => {}
            WhenFull::DropOldest => {
                while !has_room() {
                    // If nothing is queued, all payloads are in flight.
                    let Some(oldest) = self.lanes[lane.get()].take_oldest() else { break };
                    self.shed(node, oldest, now);
                }
            }
        }
        self.lanes[lane.get()].push(payload);
    }

    pub(crate) fn shed(&self, node: &Node, payload: Payload, now: EngineTime) {
        let refused = payload.refused.len() as u64;
        let events = payload.events + refused;
        payload.settle(Outcome::Rejected);
        self.count_shed(node, events, now);
    }

    /// Counts events dropped because a buffer is full, and logs the count periodically.
    fn count_shed(&self, node: &Node, events: u64, now: EngineTime) {
        if events == 0 {
            return;
        }
        node.counters.dropped("buffer_full", events);
        let now = now.uptime().as_secs() + 1;
        let before = self.shed_logged.load(Ordering::Relaxed);
        if before != 0 && now < before + SHED_AGAIN.as_secs() {
            return;
        }
        // If several workers drop events at the same time, only one of them logs the drops.
        let swapped =
            self.shed_logged.compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed);
        if swapped.is_ok() {
            log::warn!(
                "sink {}: the buffer is full, and events are dropped (when_full); speed up the \
                 endpoint or raise buffer.max",
                node.id
            );
        }
    }
}
