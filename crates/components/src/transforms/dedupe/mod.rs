//! Transform `dedupe`: an event that came a short while ago is dropped.
//!
//! What is remembered of an event is a hash of its key and its id. An event that is read once more,
//! since a sink did not get it, has the id that is remembered, and is no repetition of itself.

mod config;

pub use config::DedupeConfig;

use crate::rows::keep_rows;
use crate::template::Template;
use millstream_model::{Batch, ComponentError, Now, Outputs, Segment, Serial};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_128;

/// Of the first event with a key.
#[derive(Clone, Copy, PartialEq, Eq)]
struct First {
    origin: u64,
    offset: u64,
    /// When it was seen, in engine time.
    at: Duration,
}

/// The transform.
struct Dedupe {
    key: Option<Template>,
    window: Duration,
    keys_max: usize,
    seen: HashMap<u128, First>,
    /// What is in `seen`, the oldest first.
    order: VecDeque<(u128, Duration)>,
    /// For the text of a key.
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

    /// Whether the event is the first with its key, as far as it is remembered.
    fn remember_if_new(&mut self, hash: u128, event: First) -> bool {
        if let Some(first) = self.seen.get(&hash) {
            return (first.origin, first.offset) == (event.origin, event.offset);
        }
        if self.seen.len() >= self.keys_max {
            self.forget_oldest();
        }
        self.seen.insert(hash, event);
        self.order.push_back((hash, event.at));
        true
    }

    fn forget_oldest(&mut self) {
        if let Some((hash, _)) = self.order.pop_front() {
            self.seen.remove(&hash);
        }
    }

    /// Forgets what is older than the window.
    fn forget(&mut self, now: Duration) {
        while self.order.front().is_some_and(|(_, at)| now.saturating_sub(*at) >= self.window) {
            self.forget_oldest();
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
        self.forget(now.since_start);
        let dropped = keep_rows(&mut batch, |batch, segment, row| {
            let hash = self.hash(batch, segment, row);
            let (origin, offset) = (segment.origin.id, batch.offset(segment, row));
            self.remember_if_new(hash, First { origin, offset, at: now.since_start })
        });
        out.counters.dropped("duplicate", dropped);
        out.send(0, batch);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
