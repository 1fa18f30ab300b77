//! The buffer before a sink: its size, and what happens when it is full.

use crate::blueprint::SinkPart;
use crate::core::{Node, SinkSlot, SourceSlot};
use crate::disk_buffer::Arrived;
use crate::error::EngineError;
use crate::limits::{GRANT_PERCENT, SHED_AGAIN};
use crate::ticket::Bound;
use millstream_model::{BackpressureReason, Counters, EngineTime, Outcome, Payload};
use std::sync::atomic::Ordering;

/// What happens to events for a sink whose buffer is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// They stay in the source, which reads no more for this sink.
    #[default]
    Block,
    /// The new ones are dropped and counted.
    DropNewest,
    /// The oldest are dropped and counted.
    DropOldest,
}

/// The buffer before a sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffer {
    /// Its size in memory in bytes; the engine's own limit if `None`.
    pub bytes_max: Option<u64>,
    /// What happens when it is full.
    pub when_full: WhenFull,
    /// Its part on disk, if it has one.
    pub disk: Option<DiskOptions>,
}

/// The part of a buffer that is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskOptions {
    /// Its size in bytes.
    pub bytes_max: u64,
    /// What is written to it.
    pub mode: DiskMode,
    /// Most bytes per second that are read back from it.
    pub replay_rate: Option<u64>,
}

/// What is written to a disk buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskMode {
    /// What the memory queue cannot take, from sources that cannot read it again.
    #[default]
    Overflow,
    /// Everything, before it is sent.
    Always,
}

/// Most bytes of a segment, and the least that a buffer has of them.
const SEGMENT_BYTES_MAX: u64 = 64 << 20;
const SEGMENTS_MIN: u64 = 8;

impl Buffer {
    /// Registers the drop reasons, so that they show from the start.
    pub(crate) fn announce(self, counters: &Counters) {
        if self.when_full != WhenFull::Block {
            counters.register_drop_reasons(&["buffer_full"]);
        }
    }

    /// Returns the size of the segments on disk: dropping the oldest must not drop most of all.
    pub(crate) fn segment_bytes(self) -> u64 {
        let bytes_max = self.disk.map_or(SEGMENT_BYTES_MAX, |disk| disk.bytes_max);
        (bytes_max / SEGMENTS_MIN).clamp(1 << 20, SEGMENT_BYTES_MAX)
    }

    /// Returns the bytes that may queue, given `bytes` available for each sink and `default_max`
    /// for a sink that does not ask for more.
    pub(crate) fn share(self, bytes: u64, default_max: u64) -> u64 {
        self.bytes_max.unwrap_or(bytes.min(default_max))
    }
}

/// Refuses buffers that together need more than `bytes_max`.
pub(crate) fn check_buffers(sinks: &[SinkPart], bytes_max: u64) -> Result<(), EngineError> {
    let asked: u64 = sinks.iter().filter_map(|sink| sink.buffer.bytes_max).sum();
    if asked <= bytes_max {
        return Ok(());
    }
    let least_mib = (asked * 2 * 100).div_ceil(GRANT_PERCENT).div_ceil(1 << 20);
    Err(EngineError::BufferMemory { least_mib })
}

impl SinkSlot {
    /// Queues a payload of `source` in its lane, or in the disk buffer. Without capacity, applies
    /// `when_full`: dropped payloads are counted and settled. A single payload always fits, however
    /// large.
    pub fn put(&self, node: &Node, source: &SourceSlot, bound: Bound, now: EngineTime) {
        let Bound { lane, payload, completes, .. } = bound;
        let disk = self.disk.as_ref().filter(|disk| disk.takes(self.spills(source)));
        let Some(disk) = disk else { return self.put_in_memory(node, lane, payload, now) };
        let shed = disk.put(Arrived { source: &source.id, lane, payload, completes });
        self.count_shed(node, shed.events, now);
        shed.holds.into_iter().for_each(|hold| hold.settle(Outcome::Rejected));
    }

    /// Whether payloads of a source go to the disk buffer when the queue is full. Those of a source
    /// that can read again wait there, unless the sink never lets it wait.
    pub fn spills(&self, source: &SourceSlot) -> bool {
        source.overflows || self.takes_all(source)
    }

    /// Whether a source never waits because the queue is full, but only for the disk buffer.
    pub fn takes_all(&self, source: &SourceSlot) -> bool {
        let is_always = |disk: DiskOptions| disk.mode == DiskMode::Always;
        let drops = self.buffer.when_full != WhenFull::Block;
        !source.can_wait || drops || self.buffer.disk.is_some_and(is_always)
    }

    fn put_in_memory(&self, node: &Node, lane: usize, payload: Payload, now: EngineTime) {
        let bytes = payload.queue_bytes();
        let has_room = || matches!(self.queued(), 0) || self.queued() + bytes <= self.share;
        match self.buffer.when_full {
            WhenFull::Block => {}
            WhenFull::DropNewest if !has_room() => {
                self.press(BackpressureReason::Drops, true);
                return self.shed(node, payload, now);
            }
            WhenFull::DropNewest => {}
            WhenFull::DropOldest => {
                while !has_room() {
                    // What a lane has taken is in flight.
                    let Some(oldest) = self.lanes[lane].take_oldest() else { break };
                    self.shed(node, oldest, now);
                }
            }
        }
        self.lanes[lane].push(payload);
    }

    pub(crate) fn shed(&self, node: &Node, payload: Payload, now: EngineTime) {
        let refused = payload.refused.len() as u64;
        let events = payload.events + refused;
        payload.settle(Outcome::Rejected);
        self.count_shed(node, events, now);
    }

    /// Counts events that a full buffer drops, and logs it from time to time.
    fn count_shed(&self, node: &Node, events: u64, now: EngineTime) {
        if events == 0 {
            return;
        }
        node.counters.dropped("buffer_full", events);
        let (now, before) = (now.uptime().as_secs() + 1, self.shed_said.load(Ordering::Relaxed));
        let is_due = before == 0 || now >= before + SHED_AGAIN.as_secs();
        // Only one of several workers logs it.
        if is_due
            && self
                .shed_said
                .compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            log::warn!("sink {}: its buffer is full; events are dropped (when_full)", node.id);
        }
    }
}
