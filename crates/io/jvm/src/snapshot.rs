//! The state of JVMs, processes and collectors at one moment, for `/metrics` and the API.
//!
//! Plain data without behavior. The components that use JVMs fill it, and the console shows it.

use serde::Serialize;

/// A JVM in a separate process.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct JvmProcessSnapshot {
    /// Name of the JVM.
    pub name: String,
    /// Id of the process while it runs.
    pub pid: Option<u32>,
    /// Number of restarts.
    pub restarts: u64,
    /// Reason why the process does not run.
    pub error: Option<String>,
    /// Memory and threads of the JVM, as of a second ago.
    pub jvm: Option<JvmSnapshot>,
}

/// The JVM inside the process, as of a second ago.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct JvmSnapshot {
    /// Bytes of objects, including objects that the next collection frees.
    pub heap_used_bytes: u64,
    /// Bytes of the heap that are backed by memory.
    pub heap_committed_bytes: u64,
    /// Maximum heap in bytes.
    pub heap_bytes_max: u64,
    /// Bytes of classes and compiled code.
    pub non_heap_used_bytes: u64,
    /// Bytes of classes.
    pub metaspace_used_bytes: u64,
    /// Collections since the start.
    pub collections: u64,
    /// Collections that the agent has asked for because memory was short.
    pub requested_collections: u64,
    /// Requested collections after which the heap kept memory that it did not use.
    pub ignored_collections: u64,
    /// Time of all collections in seconds.
    pub collection_seconds: f64,
    /// Threads, including the agent's threads that call operators.
    pub threads: u64,
    /// Loaded classes.
    pub classes: u64,
}

/// All collectors, as of a second ago.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CollectorsSnapshot {
    /// Threads that run them.
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
    /// takes no more events, `hangs` because it was interrupted and does not end, or `down` because
    /// its process does not run or does not accept it.
    pub state: &'static str,
    /// Calls that have begun.
    pub calls: u64,
    /// Calls that threw an exception or exceeded their time.
    pub failures: u64,
    /// Intervals without a call, because the previous call took too long.
    pub missed: u64,
    /// Events that the collector passed on.
    pub events: u64,
    /// Duration of the running call, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_seconds: Option<f64>,
    /// The last failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
}
