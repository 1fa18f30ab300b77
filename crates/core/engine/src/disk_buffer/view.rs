//! The state of a disk buffer's files as its thread last saw it.

use millstream_model::snapshot::DiskBufferSnapshot;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Time constant of the growth, in seconds. The rate over about a minute predicts when the disk is
/// full.
const GROWTH_SECONDS: f64 = 60.0;

#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub folder: PathBuf,
    /// Total size of the files in bytes.
    pub bytes: u64,
    /// Number of entries that no lane has received.
    pub unread_entries: u64,
    /// Number of events in the unread entries.
    pub unread_events: u64,
    /// A number that is greater than that of any durable entry.
    pub end: u64,
    /// Arrival time of the oldest unread entry, in milliseconds since 1970.
    pub oldest_ms: Option<i64>,
    /// The payload formats of the entries.
    pub formats: Vec<Arc<str>>,
    /// Reason why nothing can be written or read.
    pub error: Option<String>,
    /// Number of entries that could not be read since the buffer was opened.
    pub damaged_entries: u64,
    /// How fast the files grow.
    pub growth: Growth,
}

/// The growth of the files.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Growth {
    /// Bytes per second, as a moving average.
    rate: f64,
    /// Size of the files at the last sample.
    sampled_bytes: u64,
}

impl View {
    /// Closes a sampling interval.
    pub fn sample(&mut self, interval: Duration) {
        let seconds = interval.as_secs_f64().max(1e-6);
        let growth = &mut self.growth;
        let grown = self.bytes as f64 - growth.sampled_bytes as f64;
        growth.sampled_bytes = self.bytes;
        let weight = 1.0 - (-seconds / GROWTH_SECONDS).exp();
        growth.rate += weight * (grown / seconds - growth.rate);
    }

    /// Replaces the view of the files with a newer one, but keeps the growth.
    pub fn renew(&mut self, seen: View) {
        *self = View { growth: self.growth, ..seen };
    }

    pub fn snapshot(&self, bytes_max: u64, unix_ns: i64) -> DiskBufferSnapshot {
        let room = bytes_max.saturating_sub(self.bytes) as f64;
        DiskBufferSnapshot {
            bytes: self.bytes,
            bytes_max,
            entries: self.unread_entries,
            events: self.unread_events,
            oldest_seconds: self.oldest_ms.map_or(0.0, |since_ms| age_seconds(since_ms, unix_ns)),
            full_in_seconds: (self.growth.rate >= 1.0).then(|| room / self.growth.rate),
            damaged_entries: self.damaged_entries,
            error: self.error.clone(),
        }
    }
}

/// Returns the seconds between `since_ms`, in milliseconds since 1970, and `unix_ns`, in
/// nanoseconds since 1970.
pub(super) fn age_seconds(since_ms: i64, unix_ns: i64) -> f64 {
    (unix_ns / 1_000_000 - since_ms).max(0) as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_until_full_follows_the_growth() {
        let mut view = View::default();
        assert_eq!(view.snapshot(1000, 0).full_in_seconds, None);
        for second in 1..=600 {
            view.bytes = second * 1000;
            view.sample(Duration::from_secs(1));
        }
        let seconds = view.snapshot(700_000, 0).full_in_seconds.unwrap();
        assert!((99.0..101.0).contains(&seconds), "{seconds}");
        for _ in 0..600 {
            view.sample(Duration::from_secs(1));
        }
        assert_eq!(view.snapshot(700_000, 0).full_in_seconds, None);
    }
}
