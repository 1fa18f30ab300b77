//! Settings for the profiler.

use super::fault::Fault;
use super::node::Node;
use millstream_model::Interval;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Minimum configurable retention time for samples. Samples are collected every ten seconds.
const KEEP_MIN: Interval = Interval(Duration::from_mins(1));

/// Maximum configurable retention time for samples.
const KEEP_MAX: Interval = Interval(Duration::from_hours(1));

/// Profiler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProfilerSettings {
    /// Whether the agent samples its threads continuously, 19 times per second of CPU time.
    pub continuous: bool,
    /// How long to keep samples, 1m to 1h. Samples use at most 16MiB.
    pub keep: Interval,
}

impl Default for ProfilerSettings {
    fn default() -> Self {
        ProfilerSettings { continuous: false, keep: Interval(Duration::from_mins(15)) }
    }
}

impl ProfilerSettings {
    /// Returns how long samples are kept; `None` if continuous profiling is off.
    pub fn kept(&self) -> Option<Duration> {
        self.continuous.then_some(self.keep.0)
    }

    /// Returns the error that the schema cannot express, if there is one.
    pub fn fault(&self, node: &Node) -> Option<Fault> {
        let (kind, advice) = match self.keep {
            keep if keep.0 < KEEP_MIN.0 => ("short", format!("use at least {KEEP_MIN}")),
            keep if keep.0 > KEEP_MAX.0 => ("long", format!("use at most {KEEP_MAX}")),
            _ => return None,
        };
        let keep = node.nearest("/profiler/keep");
        Some(Fault::new(&keep.place, format!("`keep`: {} is too {kind}", keep.quoted()), advice))
    }
}
