//! The state of the engine at one moment: the data behind `/metrics`, the API and the log.
//!
//! The snapshot is plain data. The engine fills it; the console and the program show it. The parts
//! of the agent outside the engine have sections in the console's `AgentSnapshot`.

mod file;
mod task;

pub use file::{FileSnapshot, lag_seconds, log_delay_seconds};
pub use task::TaskSnapshot;

use crate::{CountersSnapshot, OriginTotals};
use serde::Serialize;
use std::collections::BTreeMap;

/// Key under which a source's wait for the memory grant is counted. Component ids never begin with
/// a dot.
pub const WAITS_FOR_MEMORY: &str = ".memory";

/// The state of the whole engine.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Snapshot {
    /// Seconds since the start.
    pub uptime_seconds: f64,
    /// Threads that poll sources and run chains.
    pub worker_threads: u64,
    /// Maximum number of cores that the process uses, if limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_limit: Option<f64>,
    /// The memory of the process.
    pub memory: MemorySnapshot,
    /// Every component: sources, transforms in data-flow order, sinks.
    pub components: Vec<ComponentSnapshot>,
    /// The checkpoint store.
    pub checkpoints: CheckpointSnapshot,
}

/// The memory that the process uses, and its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct MemorySnapshot {
    /// `limits.memory` in bytes.
    pub limit_bytes: u64,
    /// Resident memory of the agent and its child processes, as of the last measurement; 0 before
    /// the first one.
    pub resident_bytes: u64,
    /// `low`, `normal` or `high`.
    pub pressure: &'static str,
    /// Number of times that the pressure became high.
    pub times_high: u64,
    /// Time with high pressure, in seconds.
    pub high_seconds: f64,
    /// Bytes of the memory grant in use.
    pub granted_bytes: u64,
    /// Bytes of the memory grant that may currently be used.
    pub grant_limit_bytes: u64,
    /// Total bytes of the memory grant.
    pub grant_bytes_max: u64,
}

/// State of the checkpoint store: whether checkpoints and ids can be saved.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CheckpointSnapshot {
    /// Data that cannot be read or written, and the reason; `None` if the last attempt of each
    /// operation succeeded.
    pub error: Option<String>,
    /// Seconds since the last successful commit; a commit with nothing to write counts.
    pub committed_seconds: f64,
    /// Age of the oldest change that is not committed, in seconds; 0 if all changes are committed.
    pub age_seconds: f64,
    /// Failures since the start, by operation.
    pub errors: BTreeMap<&'static str, u64>,
}

/// One component.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ComponentSnapshot {
    /// Component id.
    pub id: String,
    /// Component type.
    #[serde(rename = "type")]
    pub type_name: &'static str,
    /// `source`, `transform` or `sink`.
    pub kind: &'static str,
    /// Counters of the component.
    #[serde(flatten)]
    pub counters: CountersSnapshot,
    /// Progress of each sink; only for a source.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sinks: Vec<SinkProgress>,
    /// Ids of the components that read from this component.
    pub readers: Vec<String>,
    /// Seconds that a source waited for a component's capacity or continued without that component,
    /// by component id; [`WAITS_FOR_MEMORY`] for the memory grant.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity_wait_seconds: BTreeMap<String, f64>,
    /// Limit that currently prevents a source from reading.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_back: Option<HeldBackSnapshot>,
    /// Number of batches that are waiting for a serial or offload transform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_batches: Option<u64>,
    /// Seconds that a transform or sink has been without capacity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_seconds: Option<f64>,
    /// Number of calls of an offload transform that exceeded their deadline and have not returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hanging_calls: Option<u64>,
    /// Failure that prevents a sink from delivering; `None` once a payload is delivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureSnapshot>,
    /// Bytes that are queued for a sink, or being delivered by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer_bytes: Option<u64>,
    /// Contents of a sink's disk buffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_buffer: Option<DiskBufferSnapshot>,
    /// Reason why a sink is not making progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Reasons why a source cannot read something, by path or pattern.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unreadable: BTreeMap<String, String>,
    /// Type of the error, as in `errors`, that prevents a source from reading from a server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable_error: Option<&'static str>,
    /// Totals across all of a source's origins since the start, including closed origins.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub totals: Option<OriginTotals>,
    /// Maximum time since the newest log time among a source's active origins, in seconds; `None`
    /// if no log time is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_delay_seconds: Option<f64>,
    /// A source's open files. There may be thousands of files, so they are requested separately.
    #[serde(skip)]
    pub files: Vec<FileSnapshot>,
    /// A transform's tasks. There may be thousands of tasks, so they are requested separately.
    #[serde(skip)]
    pub tasks: Vec<TaskSnapshot>,
}

/// A source's current wait because of a limit.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HeldBackSnapshot {
    /// Cause of the wait, as a key of `wait_seconds`. The wait is added to that total when it ends.
    pub limit: &'static str,
    /// Seconds since the wait began.
    pub seconds: f64,
}

/// The series of failures that prevents a sink from delivering.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FailureSnapshot {
    /// Type of the last error, as in `errors`.
    pub kind: &'static str,
    /// The status of an HTTP response, or a negated system error number; 0 for other errors.
    pub code: i64,
    /// Human-readable description of the failure.
    pub message: String,
    /// Seconds since the first failure.
    pub seconds: f64,
    /// Seconds from the first failure to the last one.
    pub span_seconds: f64,
    /// Failures since the first one.
    pub attempts: u32,
}

/// The disk buffer of a sink.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DiskBufferSnapshot {
    /// Total size of the buffer's files in bytes.
    pub bytes: u64,
    /// Maximum bytes that the files may take.
    pub bytes_max: u64,
    /// Entries on disk that have not been delivered yet.
    pub entries: u64,
    /// Events in these entries.
    pub events: u64,
    /// Age of the oldest entry in seconds; 0 if there are no entries.
    pub oldest_seconds: f64,
    /// Seconds until the buffer is full if it keeps growing at the rate of the last minute; `None`
    /// while it is not growing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_in_seconds: Option<f64>,
    /// Number of entries that could not be read since the buffer was opened.
    pub damaged_entries: u64,
    /// Reason why the buffer cannot write or read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How far a sink is behind the end of a source's data.
#[derive(Clone, Debug, Serialize)]
pub struct SinkProgress {
    /// The sink's id.
    pub sink: String,
    /// Bytes (or records) that exist and are not settled, whether read or not.
    pub lag: u64,
    /// Bytes (or records) that were read and are not settled.
    pub unsettled: u64,
    /// Age of the oldest unsettled range in seconds.
    pub oldest_seconds: f64,
    /// The sink's delay in log time, in seconds: see [`lag_seconds`].
    pub lag_seconds: f64,
}

/// Reasons for which a configuration drops events on purpose.
const ON_PURPOSE: [&str; 7] =
    ["duplicate", "filtered", "header", "sampled", "throttled", "tombstone", "unread"];

impl ComponentSnapshot {
    /// Returns the events that were dropped unintentionally, by reason.
    fn lost_events(&self) -> Vec<(&'static str, u64)> {
        let chosen = |reason| self.counters.dropped_on_error.get(reason).copied().unwrap_or(0);
        let dropped = self.counters.dropped_events.iter();
        let dropped = dropped.filter(|(reason, _)| !ON_PURPOSE.contains(reason));
        let lost =
            dropped.map(|(reason, events)| (*reason, events.saturating_sub(chosen(*reason))));
        lost.filter(|(_, events)| *events > 0).collect()
    }
}

impl Snapshot {
    /// Returns the number of events dropped unintentionally by all components.
    pub fn dropped_events(&self) -> u64 {
        self.components
            .iter()
            .flat_map(ComponentSnapshot::lost_events)
            .map(|(_, events)| events)
            .sum()
    }

    /// Returns the number of bytes dropped by all components, where known.
    pub fn dropped_bytes(&self) -> u64 {
        self.components.iter().flat_map(|c| c.counters.dropped_bytes.values()).sum()
    }

    /// Returns the number of events in the disk buffers of all sinks.
    pub fn buffered_events(&self) -> u64 {
        let buffers = self.components.iter().filter_map(|c| c.disk_buffer.as_ref());
        buffers.map(|buffer| buffer.events).sum()
    }

    /// Returns the number of events that sinks have delivered. An event that goes to several sinks
    /// counts once for each of them.
    pub fn delivered_events(&self) -> u64 {
        self.components.iter().filter(|c| c.kind == "sink").map(|c| c.counters.sent_events).sum()
    }

    /// Returns the list of unintended drops, such as `1 long_line (source in), 5 panic (sink out)`.
    pub fn dropped_list(&self) -> String {
        self.list(ComponentSnapshot::lost_events)
    }

    /// Returns the number of events that `on_error: drop` dropped.
    pub fn dropped_on_error(&self) -> u64 {
        self.components.iter().flat_map(|c| c.counters.dropped_on_error.values()).sum()
    }

    /// Returns the list of events that `on_error: drop` dropped, such as
    /// `3 bad_json (transform parsed)`.
    pub fn dropped_on_error_list(&self) -> String {
        self.list(|c| c.counters.dropped_on_error.clone().into_iter().collect())
    }

    fn list(&self, dropped: impl Fn(&ComponentSnapshot) -> Vec<(&'static str, u64)>) -> String {
        let texts = |c: &ComponentSnapshot| {
            let (kind, id) = (c.kind, c.id.clone());
            let text = move |(reason, events)| format!("{events} {reason} ({kind} {id})");
            dropped(c).into_iter().map(text).collect::<Vec<_>>()
        };
        self.components.iter().flat_map(texts).collect::<Vec<_>>().join(", ")
    }

    /// Returns the list of sinks that still have data to deliver or are failing, with the reasons
    /// why they are making no progress.
    pub fn undelivered_list(&self) -> String {
        let undelivered = |c: &ComponentSnapshot| {
            let why = c.error.as_ref().map_or(String::new(), |error| format!(": {error}"));
            (c.error.is_some() || c.buffer_bytes.is_some_and(|bytes| bytes > 0))
                .then(|| format!("{}{why}", c.id))
        };
        let sinks = self.components.iter().filter(|c| c.kind == "sink");
        sinks.filter_map(undelivered).collect::<Vec<_>>().join(", ")
    }

    /// Returns the number of read errors across all sources.
    pub fn unread(&self) -> u64 {
        let sources = self.components.iter().filter(|c| c.kind == "source");
        let errors = sources.flat_map(|c| &c.counters.errors);
        errors
            .filter(|(kind, _)| matches!(**kind, "read" | "unreadable" | "damaged" | "checkpoint"))
            .map(|(_, count)| count)
            .sum()
    }
}
