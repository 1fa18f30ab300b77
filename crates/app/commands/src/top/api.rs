//! The parts of an agent's responses that the views use. All fields are optional, so that older and
//! newer agents can be shown.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The response from `/api/snapshot`.
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
    /// Components: sources, transforms in the order of the flow, sinks.
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
    /// Resident memory, including child processes.
    pub resident_bytes: u64,
    /// `low`, `normal` or `high`.
    pub pressure: String,
    /// Number of times that the pressure became high.
    pub times_high: u64,
    /// Bytes of data in flight.
    pub granted_bytes: u64,
    /// Current limit of data in flight in bytes.
    pub grant_limit_bytes: u64,
    /// Maximum limit of data in flight in bytes.
    pub grant_bytes_max: u64,
}

/// Statistics of a JVM.
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
    /// Name of the process.
    pub name: String,
    /// Reason why the process does not run.
    pub error: Option<String>,
    /// Statistics of its JVM.
    pub jvm: Option<Jvm>,
}

/// One component.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Component {
    /// Id of the component.
    pub id: String,
    /// Type of the component.
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
    pub held: Option<DeletedFiles>,
    /// For a source: the lag of each sink.
    pub sinks: Vec<SinkLag>,
    /// For a sink: number of waiting bytes.
    pub buffer_bytes: Option<u64>,
    /// For a sink: its disk buffer.
    pub disk_buffer: Option<DiskBuffer>,
    /// Reason why the component is not making progress.
    pub error: Option<String>,
    /// For a sink: the failure since which no payload was delivered.
    pub failure: Option<Failure>,
    /// Paths that a source cannot read, with the reasons.
    pub unreadable: BTreeMap<String, String>,
}

/// The failure of a sink.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Failure {
    /// Type of the last error.
    pub kind: String,
    /// Message of the last error.
    pub message: String,
    /// Seconds since the first failure.
    pub seconds: f64,
    /// Number of failures since then.
    pub attempts: u64,
}

/// Deleted files that a source holds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DeletedFiles {
    /// Number of files.
    pub files: u64,
    /// Disk space of the files.
    pub bytes: u64,
    /// Limit of this disk space.
    pub bytes_max: u64,
}

/// The lag of a sink for a source.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SinkLag {
    /// Id of the sink.
    pub sink: String,
    /// Bytes or records that are not settled.
    pub lag: u64,
    /// Lag in seconds of log time.
    pub lag_seconds: Option<f64>,
}

/// The disk buffer of a sink.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DiskBuffer {
    /// Size of the files in bytes.
    pub bytes: u64,
    /// Maximum bytes.
    pub bytes_max: u64,
    /// Number of events in the buffer.
    pub events: u64,
    /// Seconds until the buffer is full.
    pub full_in_seconds: Option<f64>,
    /// Reason why the buffer cannot be written or read.
    pub error: Option<String>,
}

/// The response from `/api/files`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Files {
    /// Number of all files, including files that are not listed.
    pub total: usize,
    /// The files with the most lag.
    pub files: Vec<File>,
    /// Paths that cannot be read.
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
    /// Reason.
    pub reason: String,
}

/// One file of a source, or a partition.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct File {
    /// Id of the source.
    pub source: String,
    /// Id of the file.
    pub file_id: String,
    /// Last known path.
    pub path: String,
    /// `active`, `waiting`, `finished`, `gone` or `deleted`.
    pub status: String,
    /// How a deleted file is held.
    pub held_by: Option<String>,
    /// Bytes that are not settled.
    pub lag_bytes: u64,
    /// Records that are not settled, of a partition.
    pub lag_records: Option<u64>,
    /// Seconds since the newest log time of the file.
    pub log_delay_seconds: Option<f64>,
    /// Bytes read per second.
    pub rate_bytes_per_second: Option<f64>,
}

/// A transform with tasks, from `/api/rules`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Transform {
    /// Id of the transform.
    pub transform: String,
    /// Tasks of the transform.
    pub tasks: Vec<Task>,
}

/// A task, or the script of an operator.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Task {
    /// Name of the task.
    pub task: String,
    /// Number of events that the task examined.
    pub examined: u64,
    /// Number of events that matched.
    pub matched: u64,
    /// Share of the total task time in the transform.
    pub time_share: Option<f64>,
    /// Number of events for which the task failed.
    pub failed: Option<u64>,
    /// Groups of open windows.
    pub groups: u64,
    /// Memory of the groups in bytes.
    pub memory_bytes: u64,
    /// Longest result delay in seconds.
    pub emit_delay_seconds_max: Option<f64>,
}

/// The response from `/api/diagnosis`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Diagnosis {
    /// One entry per source.
    pub sources: Vec<Finding>,
}

/// The diagnosis of a source.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Finding {
    /// Id of the source.
    pub source: String,
    /// `healthy`, `idle`, `starting`, `degraded` or `late`.
    pub status: String,
    /// Id of the cause.
    pub cause: Option<String>,
    /// Id of the component with the cause.
    pub component: Option<String>,
    /// Time since which the cause has held.
    pub since: Option<String>,
    /// Advice for the operator.
    pub advice: Option<String>,
    /// Additional causes.
    pub also: Vec<Finding>,
}

/// The response from `/api/bottleneck`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Bottleneck {
    /// Id of the component, if one limits the rate.
    pub component: Option<String>,
    /// Reason for the bottleneck.
    pub reason: Option<String>,
    /// Confidence from 0 to 1.
    pub confidence: Option<f64>,
    /// Advice for the operator.
    pub advice: Option<String>,
}

/// A response, and its unchanged JSON, which the details show.
#[derive(Clone, Debug, Default)]
pub struct Answer<T> {
    /// Parsed value for the views.
    pub value: T,
    /// The whole response.
    pub json: Value,
}

impl<T: serde::de::DeserializeOwned> Answer<T> {
    /// Parses a body.
    pub fn parse(body: &[u8]) -> Result<Answer<T>, String> {
        let failed = |error| format!("the response is invalid: {error}");
        let json: Value = serde_json::from_slice(body).map_err(failed)?;
        let value = T::deserialize(&json).map_err(failed)?;
        Ok(Answer { value, json })
    }
}

/// A part that older agents do not provide.
#[derive(Clone, Debug, Default)]
pub enum Part<T> {
    /// Not requested yet.
    #[default]
    Unknown,
    /// The agent does not provide the route.
    Missing,
    /// The response.
    Known(T),
}

impl<T> Part<T> {
    /// Returns the response, if there is one.
    pub fn known(&self) -> Option<&T> {
        match self {
            Part::Known(value) => Some(value),
            Part::Unknown | Part::Missing => None,
        }
    }
}
