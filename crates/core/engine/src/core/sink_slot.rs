//! The part of a node that delivers: its lanes, and whether their queue has room.

mod queueing;

use super::SourceSlot;
use crate::backlog::Backlog;
use crate::buffer::{Buffer, WhenFull};
use crate::disk_buffer::DiskBuffer;
use crate::lane::LaneQueue;
use crate::since::Since;
use millstream_model::{BackpressureReason, EngineTime, Feed, Sink, SinkIndex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The sink part of a node.
#[derive(Clone)]
pub(crate) struct SinkSlot {
    /// Index in sink sets.
    pub index: SinkIndex,
    pub sink: Arc<dyn Sink>,
    /// The events that it makes.
    pub feed: Arc<Feed>,
    pub lanes: Vec<Arc<LaneQueue>>,
    /// Most bytes that may queue in its lanes.
    pub share: u64,
    pub buffer: Buffer,
    /// The part of its buffer that is on disk.
    pub disk: Option<Arc<DiskBuffer>>,
    /// Lanes that must end before its own begin.
    pub after: Vec<Arc<LaneQueue>>,
    pub(super) full_since: Arc<Since>,
    pub(super) disk_full_since: Arc<Since>,
    /// Bytes that wait for an earlier ticket before they are queued.
    pub(super) unreleased: Arc<AtomicU64>,
    /// The bound for sources that can wait.
    pub(super) backlog: Arc<Backlog>,
    pub(super) behind_since: Arc<Since>,
    /// Whether the log says that it is full.
    pub(super) reported: Arc<AtomicBool>,
    /// Engine time in seconds when drops were last logged, plus one; 0 if never.
    pub(crate) shed_said: Arc<AtomicU64>,
}

impl SinkSlot {
    /// Creates a slot with an empty queue of up to `share` bytes.
    pub fn new(
        index: SinkIndex,
        (sink, feed): (Arc<dyn Sink>, Arc<Feed>),
        lanes: Vec<Arc<LaneQueue>>,
        (share, buffer): (u64, Buffer),
    ) -> SinkSlot {
        let (full_since, behind_since, unreleased, reported, shed_said) = Default::default();
        let (disk, after, disk_full_since) = Default::default();
        let backlog = Arc::new(Backlog::new());
        SinkSlot {
            index,
            sink,
            feed,
            lanes,
            share,
            buffer,
            disk,
            after,
            full_since,
            disk_full_since,
            unreleased,
            backlog,
            behind_since,
            reported,
            shed_said,
        }
    }

    /// Returns the bytes queued or being delivered.
    pub fn queued(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.bytes()).sum()
    }

    /// Returns the bytes queued, or waiting for their ticket's turn to be.
    fn coming(&self) -> u64 {
        self.queued() + self.unreleased.load(Ordering::Relaxed)
    }

    /// Returns how long the sink has had no capacity; `None` if it has some. A sink that drops
    /// always has.
    pub fn full_for(&self, now: EngineTime) -> Option<Duration> {
        let is_full = self.coming() >= self.share && self.buffer.when_full == WhenFull::Block;
        self.full_since.update(is_full, now)
    }

    /// Returns how long the sink has had no capacity for a source.
    pub(super) fn lacks_room_for(&self, source: &SourceSlot, now: EngineTime) -> Option<Duration> {
        match &self.disk {
            Some(disk) if self.takes_all(source) => self.disk_full_for(disk, now),
            _ if source.can_wait => self.behind_for(now),
            _ => self.full_for(now),
        }
    }

    /// Returns how long the disk buffer has had no capacity.
    pub(super) fn disk_full_for(&self, disk: &DiskBuffer, now: EngineTime) -> Option<Duration> {
        let is_full = disk.is_full(self.unreleased.load(Ordering::Relaxed));
        self.disk_full_since.update(is_full, now)
    }

    /// Returns how long the sink has had no capacity for sources that can wait: its queue would
    /// delay what they read next, see [`Backlog`]. A buffer that was configured is used in full.
    pub fn behind_for(&self, now: EngineTime) -> Option<Duration> {
        let full = self.full_for(now);
        if self.buffer.bytes_max.is_some() || self.buffer.when_full != WhenFull::Block {
            return full;
        }
        let waits = self.disk.as_ref().is_some_and(|disk| disk.is_behind());
        let left = self.lanes.iter().map(|lane| lane.left()).sum();
        let round_trip =
            self.lanes.iter().filter_map(|lane| lane.round_trip()).min().unwrap_or_default();
        let is_behind =
            self.backlog.is_long(self.coming(), left, round_trip, now) || full.is_some() || waits;
        self.behind_since.update(is_behind, now)
    }

    /// Lets its lanes know whether what feeds them waits for a reason.
    pub fn press(&self, reason: BackpressureReason, waits: bool) {
        self.lanes.iter().for_each(|lane| lane.press(reason, waits));
    }
}
