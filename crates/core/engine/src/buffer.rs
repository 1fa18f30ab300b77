//! The buffer in front of a sink: how much may wait in it, and what goes when it is full.

use crate::blueprint::{EngineError, SinkPart};
use crate::core::{Node, SinkSlot};
use crate::limits::{GRANT_PERCENT, SHED_AGAIN};
use millstream_model::{Counters, Outcome, Payload};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What becomes of events for a sink whose buffer is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// They wait in the source, which reads no more for this sink.
    #[default]
    Block,
    /// They are dropped and counted.
    DropNewest,
    /// Those that have waited longest make room for them: dropped and counted.
    DropOldest,
}

/// The buffer in front of a sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffer {
    /// Bytes that may wait; the engine's own limit if `None`.
    pub bytes_max: Option<u64>,
    /// What goes when they do.
    pub when_full: WhenFull,
}

impl Buffer {
    /// Says from the start what it may drop.
    pub(crate) fn announce(self, counters: &Counters) {
        if self.when_full != WhenFull::Block {
            counters.register_drop_reasons(&["buffer_full"]);
        }
    }

    /// Bytes that may wait if there are `bytes` for each sink, of which it takes `default_max`
    /// unasked.
    pub(crate) fn share(self, bytes: u64, default_max: u64) -> u64 {
        self.bytes_max.unwrap_or(bytes.min(default_max))
    }
}

/// Refuses buffers that may take more than `bytes_max`, all together.
pub(crate) fn check_buffers(sinks: &[SinkPart], bytes_max: u64) -> Result<(), EngineError> {
    let asked: u64 = sinks.iter().filter_map(|sink| sink.buffer.bytes_max).sum();
    if asked <= bytes_max {
        return Ok(());
    }
    let least = (asked * 2 * 100).div_ceil(GRANT_PERCENT).div_ceil(1 << 20);
    Err(EngineError(format!(
        "limits.memory is too small for what `buffer` of the sinks asks for; raise it to {least}MiB, or lower \
         buffer.max"
    )))
}

impl SinkSlot {
    /// Queues a payload in lane `lane`, or what the buffer's rule says if there is no room: that
    /// which goes is counted and settled. One payload is always taken, however large.
    pub fn put(&self, node: &Node, lane: usize, payload: Payload, now: Duration) {
        let has_room = || matches!(self.queued(), 0) || self.queued() + payload.bytes <= self.share;
        match self.buffer.when_full {
            WhenFull::Block => {}
            WhenFull::DropNewest if !has_room() => return self.shed(node, payload, now),
            WhenFull::DropNewest => {}
            WhenFull::DropOldest => {
                while !has_room() {
                    // What a lane has taken is on its way.
                    let Some(oldest) = self.lanes[lane].take_oldest() else { break };
                    self.shed(node, oldest, now);
                }
            }
        }
        self.lanes[lane].push(payload);
    }

    fn shed(&self, node: &Node, payload: Payload, now: Duration) {
        node.counters.dropped("buffer_full", payload.events);
        payload.settle(Outcome::Rejected);
        let (now, before) = (now.as_secs() + 1, self.shed_said.load(Ordering::Relaxed));
        let is_due = before == 0 || now >= before + SHED_AGAIN.as_secs();
        // Of several workers one says so.
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
