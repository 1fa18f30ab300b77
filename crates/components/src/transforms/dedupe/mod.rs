//! The `dedupe` transform drops events that repeat a recent event.
//!
//! The transform remembers a hash of the event's key, and the event's id. An event that is reread
//! because a sink did not receive it carries the remembered id, so it is not a duplicate.

mod config;

pub use config::DedupeConfig;

use crate::transforms::rows::keep_rows;
use crate::util::template::Template;
use millstream_model::{Batch, ComponentError, EngineTime, EventId, Now, Outputs, Segment, Serial};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_128;

/// The first event with a key, as it is remembered.
#[derive(Clone, Copy, PartialEq, Eq)]
struct First {
    id: EventId,
    /// Time when the event was seen.
    at: EngineTime,
}

/// A running `dedupe` transform.
struct Dedupe {
    key: Option<Template>,
    window: Duration,
    keys_max: usize,
    seen: HashMap<u128, First>,
    /// The keys in `seen`, oldest first.
    order: VecDeque<(u128, EngineTime)>,
    /// Buffer for rendered keys.
    text: Vec<u8>,
}

impl Dedupe {
    fn new(config: DedupeConfig) -> Dedupe {
        Dedupe {
            key: config.key.map(|key| key.0),
            window: config.window.0,
            keys_max: config.keys_max,
            seen: HashMap::new(),
            order: VecDeque::new(),
            text: Vec::new(),
        }
    }

    fn hash(&mut self, batch: &Batch, segment: &Segment, row: usize) -> u128 {
        let Some(key) = &self.key else { return xxh3_128(batch.text(row)) };
        self.text.clear();
        key.render(batch, segment, row, &mut self.text);
        xxh3_128(&self.text)
    }

    /// Remembers an event. Returns true if it is the first event with its key within the window, or
    /// if this event is reread.
    fn insert_if_new(&mut self, hash: u128, event: First) -> bool {
        if let Some(first) = self.seen.get(&hash) {
            return first.id == event.id;
        }
        if self.seen.len() >= self.keys_max {
            self.evict_oldest();
        }
        self.seen.insert(hash, event);
        self.order.push_back((hash, event.at));
        true
    }

    fn evict_oldest(&mut self) {
        if let Some((hash, _)) = self.order.pop_front() {
            self.seen.remove(&hash);
        }
    }

    /// Evicts keys older than the window.
    fn evict_expired(&mut self, now: EngineTime) {
        while self.order.front().is_some_and(|(_, at)| now - *at >= self.window) {
            self.evict_oldest();
        }
    }
}

impl Serial for Dedupe {
    fn apply(
        &mut self,
        now: Now,
        mut batch: Batch,
        out: &mut Outputs,
    ) -> Result<(), ComponentError> {
        self.evict_expired(now.since_start);
        let dropped = keep_rows(&mut batch, |batch, segment, row| {
            let hash = self.hash(batch, segment, row);
            let id = batch.event_id(segment, row);
            self.insert_if_new(hash, First { id, at: now.since_start })
        });
        out.counters.dropped("duplicate", dropped);
        out.send(0, batch);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
