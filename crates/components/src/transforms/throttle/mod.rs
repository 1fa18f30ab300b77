//! The `throttle` transform passes a limited number of events per window.
//!
//! Each key has a *theoretical arrival time* (generic cell rate algorithm, ITU-T I.371): an event
//! advances this time by one share of the window, and passes if the time is at most one window
//! ahead of now.

mod config;

pub use config::{OnExcess, ThrottleConfig};

use crate::transforms::rows::keep_rows;
use crate::util::template::Template;
use millstream_model::{Batch, ComponentError, Now, Outputs, Segment, Serial};
use std::collections::HashMap;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// Key under which all events count if no key is configured, and events whose key is beyond
/// `keys_max`.
const OVERFLOW: u64 = 0;

/// A running `throttle` transform.
struct Throttle {
    /// One event's share of the window, in nanoseconds.
    share_ns: u64,
    window_ns: u64,
    key: Option<Template>,
    on_excess: OnExcess,
    keys_max: usize,
    /// Theoretical arrival time by hash of the key, in nanoseconds of engine time.
    filled_ns: HashMap<u64, u64>,
    /// Buffer for rendered keys.
    text: Vec<u8>,
}

impl Throttle {
    fn new(config: ThrottleConfig) -> Throttle {
        let window_ns = config.window.0.as_nanos().min(u64::MAX as u128 / 4) as u64;
        Throttle {
            share_ns: (window_ns / config.events.max(1)).max(1),
            window_ns,
            key: config.key.map(|key| key.0),
            on_excess: config.on_excess,
            keys_max: config.keys_max,
            filled_ns: HashMap::new(),
            text: Vec::new(),
        }
    }

    /// Records an event. Returns whether it may pass.
    fn allow(&mut self, hash: u64, now_ns: u64) -> bool {
        let hash = self.tracked_key(hash, now_ns);
        let filled = self.filled_ns.entry(hash).or_insert(0);
        let next = (*filled).max(now_ns) + self.share_ns;
        let passes = next <= now_ns + self.window_ns;
        if passes || self.on_excess == OnExcess::Slow {
            *filled = next;
        }
        passes
    }

    /// Returns the key under which an event is counted: the key of the event if capacity allows,
    /// otherwise [`OVERFLOW`].
    fn tracked_key(&mut self, hash: u64, now_ns: u64) -> u64 {
        if self.filled_ns.len() >= self.keys_max && !self.filled_ns.contains_key(&hash) {
            self.filled_ns.retain(|_, filled| *filled > now_ns);
        }
        let is_full = self.filled_ns.len() >= self.keys_max && !self.filled_ns.contains_key(&hash);
        if is_full { OVERFLOW } else { hash }
    }

    fn hash(&mut self, batch: &Batch, segment: &Segment, row: usize) -> u64 {
        let Some(key) = &self.key else { return OVERFLOW };
        self.text.clear();
        key.render(batch, segment, row, &mut self.text);
        xxh3_64(&self.text)
    }

    /// Returns how long the source must pause so that the passed events stay within the rate.
    fn pause(&self, now_ns: u64) -> Option<Duration> {
        let filled = *self.filled_ns.get(&OVERFLOW)?;
        let ahead = filled.saturating_sub(now_ns + self.window_ns);
        (self.on_excess == OnExcess::Slow && ahead > 0).then(|| Duration::from_nanos(ahead))
    }
}

impl Serial for Throttle {
    fn apply(
        &mut self,
        now: Now,
        mut batch: Batch,
        out: &mut Outputs,
    ) -> Result<(), ComponentError> {
        let now_ns = now.since_start.uptime().as_nanos() as u64;
        let is_slow = self.on_excess == OnExcess::Slow;
        let dropped = keep_rows(&mut batch, |batch, segment, row| {
            let hash = self.hash(batch, segment, row);
            self.allow(hash, now_ns) || is_slow
        });
        out.counters.dropped("throttled", dropped);
        out.pause = self.pause(now_ns);
        out.send(0, batch);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
