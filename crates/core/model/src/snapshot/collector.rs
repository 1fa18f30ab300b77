//! What the collectors of sources `jvm` did.

use serde::Serialize;

/// All collectors, as of a second ago.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CollectorsSnapshot {
    /// Threads that run them.
    pub threads: u64,
    /// Most threads.
    pub threads_max: u64,
    /// Each of them.
    pub collectors: Vec<CollectorSnapshot>,
}

/// What a collector did since it was compiled.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CollectorSnapshot {
    /// Id of its source.
    pub component: String,
    /// `waiting` for its next call, `queued` for a thread, `running`, `blocked` because the agent
    /// takes no more events, `hangs`: it was interrupted and does not end, or `down`: its process
    /// does not run, or does not take it.
    pub state: &'static str,
    /// Calls that have begun.
    pub calls: u64,
    /// Calls that threw an exception or exceeded their time.
    pub failures: u64,
    /// Intervals without a call, because the one before took too long.
    pub missed: u64,
    /// Events that it passed on.
    pub events: u64,
    /// For how long its call runs, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_seconds: Option<f64>,
    /// The last failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
}
