//! Options that sinks which send requests share.

use millstream_model::{Interval, Size};
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;

/// Most bytes of a batch: four times what the engine lets wait for a sink, see `STILL` in the lane.
const BATCH_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// How events are collected to requests: the first limit that is reached ends a batch.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BatchOptions {
    /// Bytes of a request before compression, at most.
    pub bytes: Size,
    /// Events of a request, at most.
    #[schemars(range(min = 1))]
    pub events: u64,
    /// How long the first event of a batch waits for others.
    pub timeout: Interval,
}

impl Default for BatchOptions {
    fn default() -> BatchOptions {
        let (bytes, timeout) = (Size(1024 * 1024), Interval(Duration::from_secs(1)));
        BatchOptions { bytes, events: 10_000, timeout }
    }
}

impl BatchOptions {
    /// Faults of the options, for a component that calls them `batch`.
    pub fn check(&self) -> Vec<(String, String)> {
        let mut faults = Vec::new();
        if self.bytes.0 > BATCH_BYTES_MAX {
            faults.push(("/batch/bytes".into(), "is more than a batch may have; write at most 16MiB".into()));
        }
        if self.events == 0 {
            faults.push(("/batch/events".into(), "leaves no event in a request; write at least 1".into()));
        }
        faults
    }
}

/// How requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RequestOptions {
    /// How long a request may take, from the connection to the end of the answer.
    pub timeout: Interval,
    /// How long it may take to connect, TLS included.
    pub connect_timeout: Interval,
    /// Requests at once, each over a connection of its own. An origin always uses the same one, so its
    /// events stay in order.
    #[schemars(range(min = 1, max = 64))]
    pub concurrency: usize,
    /// Requests per second at most, over each of the connections, repeated ones included; no limit by
    /// default.
    #[schemars(range(min = 0.001))]
    pub rate_max: Option<f64>,
}

impl Default for RequestOptions {
    fn default() -> RequestOptions {
        RequestOptions {
            timeout: Interval(Duration::from_secs(30)),
            connect_timeout: Interval(Duration::from_secs(10)),
            concurrency: 1,
            rate_max: None,
        }
    }
}

impl RequestOptions {
    /// Faults of the options, for a component that calls them `request`.
    pub fn check(&self) -> Vec<(String, String)> {
        let mut faults = Vec::new();
        if !(1..=64).contains(&self.concurrency) {
            faults.push(("/request/concurrency".into(), "is out of range; write 1 to 64".into()));
        }
        if self.rate_max.is_some_and(|rate| !rate.is_finite() || rate < 0.001) {
            faults.push((
                "/request/rate_max".into(),
                "is no rate; write requests per second, such as 5".into(),
            ));
        }
        faults
    }
}
