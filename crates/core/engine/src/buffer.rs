//! The buffer before a sink: its size, and what happens when it is full.

use crate::blueprint::SinkPart;
use crate::core::{Node, SinkSlot};
use crate::error::EngineError;
use crate::limits::{GRANT_PERCENT, SHED_AGAIN};
use millstream_model::{Counters, EngineTime, Outcome, Payload};
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
    /// Its size in bytes; the engine's own limit if `None`.
    pub bytes_max: Option<u64>,
    /// What happens when it is full.
    pub when_full: WhenFull,
}

impl Buffer {
    /// Registers the drop reasons, so that they show from the start.
    pub(crate) fn announce(self, counters: &Counters) {
        if self.when_full != WhenFull::Block {
            counters.register_drop_reasons(&["buffer_full"]);
        }
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
    /// Queues a payload in lane `lane`. Without capacity, applies `when_full`: dropped payloads are
    /// counted and settled. A single payload always fits, however large.
    pub fn put(&self, node: &Node, lane: usize, payload: Payload, now: EngineTime) {
        let has_room = || matches!(self.queued(), 0) || self.queued() + payload.bytes <= self.share;
        match self.buffer.when_full {
            WhenFull::Block => {}
            WhenFull::DropNewest if !has_room() => return self.shed(node, payload, now),
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
        node.counters.dropped("buffer_full", payload.events + refused);
        payload.settle(Outcome::Rejected);
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
