//! The part of a sink that delivers: the lanes, and whether their queues have room.

mod queueing;

use super::SourceSlot;
use crate::backlog::Backlog;
use crate::buffer::{Buffer, WhenFull};
use crate::disk_buffer::{DiskBuffer, Target};
use crate::lane::LaneQueue;
use crate::limits::TICKETS_ON_THE_WAY;
use crate::since::Since;
use millstream_model::{BackpressureReason, EngineTime, Feed, Sink, SinkIndex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The values that a new sink slot needs.
pub(crate) struct NewSink {
    pub index: SinkIndex,
    pub sink: Arc<dyn Sink>,
    pub feed: Arc<Feed>,
    pub lanes: Vec<Arc<LaneQueue>>,
    pub share: u64,
    pub buffer: Buffer,
    pub disk: Option<Arc<DiskBuffer>>,
    pub after: Vec<Arc<LaneQueue>>,
}

/// The sink part of a node.
#[derive(Clone)]
pub(crate) struct SinkSlot {
    /// The sink's index in a [`SinkSet`](millstream_model::SinkSet).
    pub index: SinkIndex,
    pub sink: Arc<dyn Sink>,
    /// The feed for the events that the sink creates.
    pub feed: Arc<Feed>,
    pub lanes: Vec<Arc<LaneQueue>>,
    /// Maximum bytes that may queue in the lanes.
    pub share: u64,
    pub buffer: Buffer,
    /// The part of the buffer that is on disk.
    pub disk: Option<Arc<DiskBuffer>>,
    /// Lanes that must end before this sink's lanes begin.
    after: Vec<Arc<LaneQueue>>,
    full_since: Arc<Since>,
    disk_full_since: Arc<Since>,
    /// Bytes that wait for an earlier ticket before they are queued.
    unreleased: Arc<AtomicU64>,
    /// The limit on the queue for sources that can wait.
    backlog: Arc<Backlog>,
    behind_since: Arc<Since>,
    /// Whether the sink has been reported as full in the log.
    is_reported: Arc<AtomicBool>,
    /// Engine time in seconds when drops were last logged, plus one; 0 if drops were never logged.
    shed_logged: Arc<AtomicU64>,
}

impl SinkSlot {
    /// Creates a sink slot with an empty queue.
    pub fn new(new: NewSink) -> SinkSlot {
        let NewSink { index, sink, feed, lanes, share, buffer, disk, after } = new;
        SinkSlot {
            index,
            sink,
            feed,
            lanes,
            share,
            buffer,
            disk,
            after,
            full_since: Arc::default(),
            disk_full_since: Arc::default(),
            unreleased: Arc::default(),
            backlog: Arc::new(Backlog::new()),
            behind_since: Arc::default(),
            is_reported: Arc::default(),
            shed_logged: Arc::default(),
        }
    }

    /// Starts delivering from the disk buffer, if there is one, to this sink's lanes.
    pub fn attach_disk(&self) {
        let Some(disk) = &self.disk else { return };
        disk.attach(Target {
            sink: self.sink.clone(),
            lanes: self.lanes.clone(),
            after: self.after.clone(),
            feed: self.feed.clone(),
            share: self.share,
            buffer: self.buffer,
        });
    }

    /// Syncs the lanes as soon as their queues are empty.
    pub fn flush(&self) {
        for lane in &self.lanes {
            lane.flush();
        }
    }

    /// Records whether the sink has been full for a long time; returns whether that has changed.
    pub fn report_full(&self, is_full: bool) -> bool {
        self.is_reported.swap(is_full, Ordering::Relaxed) != is_full
    }

    /// Counts bytes that wait for an earlier ticket before they are queued.
    pub fn add_unreleased(&self, bytes: u64) {
        self.unreleased.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that no longer wait for an earlier ticket.
    pub fn subtract_unreleased(&self, bytes: u64) {
        self.unreleased.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns whether the payloads that wait for earlier tickets fill the buffer, given the size
    /// of the next payload. Payloads from tickets that are running now are released immediately and
    /// do not count.
    pub fn is_unreleased_full(&self, next_bytes: u64) -> bool {
        let bytes_max = self.share + TICKETS_ON_THE_WAY * next_bytes;
        self.unreleased.load(Ordering::Relaxed) >= bytes_max
    }

    /// Returns the bytes that are queued or being delivered.
    pub fn queued(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.bytes()).sum()
    }

    /// Returns the bytes that are queued, being delivered, or waiting for their ticket's turn.
    fn coming(&self) -> u64 {
        self.queued() + self.unreleased.load(Ordering::Relaxed)
    }

    /// Returns how long the sink has had no capacity; `None` if it has capacity. A sink that drops
    /// events always has capacity.
    pub fn full_for(&self, now: EngineTime) -> Option<Duration> {
        let is_full = self.coming() >= self.share && self.buffer.when_full == WhenFull::Block;
        self.full_since.update(is_full, now)
    }

    /// Returns how long the sink has had no capacity for a source.
    pub fn lacks_room_for(&self, source: &SourceSlot, now: EngineTime) -> Option<Duration> {
        match &self.disk {
            Some(disk) if self.takes_all(source) => self.disk_full_for(disk, now),
            _ if source.traits.can_wait => self.behind_for(now),
            _ => self.full_for(now),
        }
    }

    /// Returns how long the disk buffer has had no capacity.
    pub fn disk_full_for(&self, disk: &DiskBuffer, now: EngineTime) -> Option<Duration> {
        let is_full = disk.is_full(self.unreleased.load(Ordering::Relaxed));
        self.disk_full_since.update(is_full, now)
    }

    /// Returns how long the sink has had no capacity for sources that can wait, because the queue
    /// would delay the data that these sources read next; see [`Backlog`]. If a buffer size is
    /// configured, the sources may fill the whole buffer.
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

    /// Tells the lanes whether data is waiting for them, and the `reason` for the wait.
    pub fn press(&self, reason: BackpressureReason, waits: bool) {
        for lane in &self.lanes {
            lane.press(reason, waits);
        }
    }
}
