//! Calls, events and failures of the collectors of sources `jvm`.

use serde::Serialize;

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
