//! Distributions of durations, in fixed buckets like a Prometheus histogram.

use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper bounds of the buckets in milliseconds; one more bucket counts longer durations.
const BOUNDS_MS: [u64; 11] = [10, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000];

/// Counts durations by bucket. Threads update the counts without waiting.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BOUNDS_MS.len() + 1],
    sum_ns: AtomicU64,
}

/// Values of a [`Histogram`] at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HistogramSnapshot {
    /// For each bound, the number of durations up to that bound; the last item is the total number
    /// of durations.
    pub cumulative: Vec<u64>,
    /// Sum of all durations in seconds.
    pub sum_seconds: f64,
}

impl Histogram {
    /// Adds a duration.
    pub fn add(&self, duration: Duration) {
        let bucket = BOUNDS_MS.partition_point(|bound| Duration::from_millis(*bound) < duration);
        self.buckets[bucket].fetch_add(1, Relaxed);
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.sum_ns.fetch_add(ns, Relaxed);
    }

    /// Returns the values of all buckets.
    pub fn snapshot(&self) -> HistogramSnapshot {
        let mut cumulative: Vec<u64> = Vec::with_capacity(self.buckets.len());
        for bucket in &self.buckets {
            let below = cumulative.last().copied().unwrap_or(0);
            cumulative.push(below + bucket.load(Relaxed));
        }
        let sum_seconds = self.sum_ns.load(Relaxed) as f64 / 1e9;
        HistogramSnapshot { cumulative, sum_seconds }
    }
}

impl HistogramSnapshot {
    /// Returns the upper bound of each bucket in seconds, and the number of durations up to that
    /// bound. The last bound is infinite.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = BOUNDS_MS.iter().map(|ms| *ms as f64 / 1e3).chain([f64::INFINITY]);
        bounds.zip(self.cumulative.iter().copied())
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.cumulative.last().copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_count_in_every_bucket_that_they_do_not_exceed() {
        let histogram = Histogram::default();
        for ms in [0, 10, 11, 60_000, 60_001] {
            histogram.add(Duration::from_millis(ms));
        }
        let read = histogram.snapshot();
        assert_eq!(read.cumulative, [2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4, 5]);
        assert_eq!((read.count(), read.sum_seconds), (5, 120.022));
        let bounds: Vec<f64> = read.buckets().map(|(bound, _)| bound).collect();
        assert_eq!(bounds[..4], [0.01, 0.05, 0.1, 0.25]);
        assert_eq!(bounds[10..], [60.0, f64::INFINITY]);
    }
}
