//! What an agent answers, as far as the views use it. Everything is optional, so that an older or
//! a newer agent is shown, too.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The answer of `/api/snapshot`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Release of the agent.
    pub version: Option<String>,
    /// CPU time of the agent in seconds.
    pub cpu_seconds: Option<f64>,
    /// Seconds since the start of the agent.
    pub uptime_seconds: f64,
    /// Memory of the process.
    pub memory: Memory,
    /// Sources, transforms in the order of the flow, sinks.
    pub components: Vec<Component>,
    /// The JVM inside the process.
    pub jvm: Option<Jvm>,
    /// The JVMs in separate processes.
    pub jvm_processes: Vec<JvmProcess>,
}

/// Memory of the agent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// `limits.memory`.
    pub limit_bytes: u64,
    /// Resident memory, child processes included.
    pub resident_bytes: u64,
    /// `low`, `normal` or `high`.
    pub pressure: String,
    /// How many times the pressure became high.
    pub times_high: u64,
    /// Bytes of data in flight.
    pub granted_bytes: u64,
    /// Bytes of data in flight that are allowed now.
    pub grant_limit_bytes: u64,
    /// Bytes of data in flight that are allowed at most.
    pub grant_bytes_max: u64,
}

/// What a JVM uses.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Jvm {
    /// Bytes of objects.
    pub heap_used_bytes: u64,
    /// Bytes backed by memory.
    pub heap_committed_bytes: u64,
    /// Largest heap in bytes.
    pub heap_bytes_max: u64,
    /// Collections since the start.
    pub collections: u64,
}

/// A JVM in a separate process.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct JvmProcess {
    /// Its name.
    pub name: String,
    /// Why it does not run.
    pub error: Option<String>,
    /// What it uses.
    pub jvm: Option<Jvm>,
}

/// One component.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Component {
    /// Its id.
    pub id: String,
    /// Its type.
    #[serde(rename = "type")]
    pub type_name: String,
    /// `source`, `transform` or `sink`.
    pub kind: String,
    /// Events received.
    pub received_events: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Events sent.
    pub sent_events: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Busy share of the last sampling interval.
    pub utilization_ratio: Option<f64>,
    /// Series of a metric source.
    pub series: Option<u64>,
    /// Events dropped, by reason.
    pub dropped_events: BTreeMap<String, u64>,
    /// Errors, by type.
    pub errors: BTreeMap<String, u64>,
    /// Deleted files that a source holds.
    pub held: Option<Held>,
    /// Of a source: how far behind each sink is.
    pub sinks: Vec<SinkLag>,
    /// Of a sink: bytes that wait.
    pub buffer_bytes: Option<u64>,
    /// Of a sink: its disk buffer.
    pub disk_buffer: Option<DiskBuffer>,
    /// Why it makes no progress.
    pub error: Option<String>,
    /// Of a sink: the failure since which nothing was delivered.
    pub failure: Option<Failure>,
    /// What a source cannot read, and why.
    pub unreadable: BTreeMap<String, String>,
}

/// Why a sink cannot deliver.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Failure {
    /// Type of the last error.
    pub kind: String,
    /// What happened.
    pub message: String,
    /// Seconds since the first failure.
    pub seconds: f64,
    /// Failures since then.
    pub attempts: u64,
}

/// Deleted files that a source holds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Held {
    /// Number of files.
    pub files: u64,
    /// Their size on disk.
    pub bytes: u64,
    /// Limit of that size.
    pub bytes_max: u64,
}

/// How far behind a sink is with a source.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SinkLag {
    /// Id of the sink.
    pub sink: String,
    /// Bytes, or records, that are not settled.
    pub lag: u64,
    /// The same in seconds of log time.
    pub lag_seconds: Option<f64>,
}

/// The disk buffer of a sink.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DiskBuffer {
    /// Bytes of its files.
    pub bytes: u64,
    /// Maximum bytes.
    pub bytes_max: u64,
    /// Events in it.
    pub events: u64,
    /// Seconds until it is full.
    pub full_in_seconds: Option<f64>,
    /// Why it cannot write or read.
    pub error: Option<String>,
}

/// The answer of `/api/files`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Files {
    /// Number of files, listed or not.
    pub total: usize,
    /// The files with the most lag.
    pub files: Vec<File>,
    /// What cannot be read.
    pub unreadable: Vec<Unreadable>,
}

/// A path or pattern that a source cannot read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Unreadable {
    /// Id of the source.
    pub source: String,
    /// The path or pattern.
    pub path: String,
    /// Why.
    pub reason: String,
}

/// One file of a source, or a partition.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct File {
    /// Id of its source.
    pub source: String,
    /// Its id.
    pub file_id: String,
    /// Where it was last seen.
    pub path: String,
    /// `active`, `waiting`, `finished`, `gone` or `deleted`.
    pub status: String,
    /// How a deleted file is held.
    pub held_by: Option<String>,
    /// Bytes that are not settled.
    pub lag_bytes: u64,
    /// Records that are not settled, of a partition.
    pub lag_records: Option<u64>,
    /// Seconds since its newest log time.
    pub log_delay_seconds: Option<f64>,
    /// Bytes read per second.
    pub rate_bytes_per_second: Option<f64>,
}

/// A transform with tasks, of `/api/rules`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Transform {
    /// Its id.
    pub transform: String,
    /// Its tasks.
    pub tasks: Vec<Task>,
}

/// A task, or the script of an operator.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Task {
    /// Its name.
    pub task: String,
    /// Events that it looked at.
    pub examined: u64,
    /// Events that matched.
    pub matched: u64,
    /// Share of the time of the transform's tasks.
    pub time_share: Option<f64>,
    /// Events for which it failed.
    pub failed: Option<u64>,
    /// Groups of open windows.
    pub groups: u64,
    /// Memory of these in bytes.
    pub memory_bytes: u64,
    /// Longest delay of results in seconds.
    pub emit_delay_seconds_max: Option<f64>,
}

/// The answer of `/api/diagnosis`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Diagnosis {
    /// One entry per source.
    pub sources: Vec<Finding>,
}

/// What is known about a source.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Finding {
    /// Id of the source.
    pub source: String,
    /// `healthy`, `idle`, `starting`, `degraded` or `late`.
    pub status: String,
    /// Id of the cause.
    pub cause: Option<String>,
    /// Id of the component that has it.
    pub component: Option<String>,
    /// Since when.
    pub since: Option<String>,
    /// What to do.
    pub advice: Option<String>,
    /// Further causes.
    pub also: Vec<Finding>,
}

/// The answer of `/api/bottleneck`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Bottleneck {
    /// Id of the component, if one limits the rate.
    pub component: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// How sure that is, from 0 to 1.
    pub confidence: Option<f64>,
    /// What to do.
    pub advice: Option<String>,
}

/// An answer, and its JSON as it came, which the details show.
#[derive(Clone, Debug, Default)]
pub struct Answer<T> {
    /// What the views use of it.
    pub value: T,
    /// All of it.
    pub json: Value,
}

impl<T: serde::de::DeserializeOwned> Answer<T> {
    /// Parses a body.
    pub fn parse(body: &[u8]) -> Result<Answer<T>, String> {
        let failed = |error| format!("the answer is not understood: {error}");
        let json: Value = serde_json::from_slice(body).map_err(failed)?;
        let value = T::deserialize(&json).map_err(failed)?;
        Ok(Answer { value, json })
    }
}

/// A part that older agents do not have.
#[derive(Clone, Debug, Default)]
pub enum Part<T> {
    /// Not asked for yet.
    #[default]
    Unknown,
    /// The agent has no such route.
    Missing,
    /// What it answered.
    Known(T),
}

impl<T> Part<T> {
    /// Returns what is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Part::Known(value) => Some(value),
            Part::Unknown | Part::Missing => None,
        }
    }
}
