//! The state of JVMs, processes and collectors at one moment, for `/metrics` and the API.
//!
//! The snapshots are plain data. The components that use JVMs fill them, and the console shows
//! them.

use serde::Serialize;

/// A JVM in a separate process.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct JvmProcessSnapshot {
    /// Name of the JVM.
    pub name: String,
    /// Process id, while the process is running.
    pub pid: Option<u32>,
    /// Number of restarts.
    pub restarts: u64,
    /// Reason why the process is not running.
    pub error: Option<String>,
    /// Memory and threads of the JVM, up to a second old.
    pub jvm: Option<JvmSnapshot>,
}

/// A JVM's memory and threads, up to a second old.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct JvmSnapshot {
    /// Bytes of objects, including objects that the next collection will free.
    pub heap_used_bytes: u64,
    /// Bytes of the heap that are backed by memory.
    pub heap_committed_bytes: u64,
    /// Maximum heap size in bytes.
    pub heap_bytes_max: u64,
    /// Bytes of the memory for classes and compiled code.
    pub non_heap_used_bytes: u64,
    /// Bytes of the memory for classes.
    pub metaspace_used_bytes: u64,
    /// Number of garbage collections since the start.
    pub collections: u64,
    /// Number of collections that the agent has requested because memory was short.
    pub requested_collections: u64,
    /// Number of requested collections after which the heap still kept memory that it did not use.
    pub ignored_collections: u64,
    /// Total time of all collections in seconds.
    pub collection_seconds: f64,
    /// Number of threads, including the agent's threads that have called operators.
    pub threads: u64,
    /// Number of loaded classes.
    pub classes: u64,
}

/// All collectors, up to a second old.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CollectorsSnapshot {
    /// Number of threads that run collectors.
    pub threads: u64,
    /// Maximum number of threads.
    pub threads_max: u64,
    /// State of each collector.
    pub collectors: Vec<CollectorSnapshot>,
}

/// Calls, events and failures of a collector since it was compiled.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CollectorSnapshot {
    /// Id of the collector's source.
    pub component: String,
    /// `waiting` for its next call, `queued` for a thread, `running`, `blocked` because the agent
    /// is not accepting events, `hangs` because it was interrupted and does not return, or `down`
    /// because its process is not running or does not accept it.
    pub state: &'static str,
    /// Number of calls that have started.
    pub calls: u64,
    /// Number of calls that threw an exception or exceeded their time limit.
    pub failures: u64,
    /// Number of intervals without a call, because the previous call took too long.
    pub missed: u64,
    /// Number of events that the collector passed on.
    pub events: u64,
    /// Duration of the running call, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_seconds: Option<f64>,
    /// Message of the last failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
}
