//! The checks that find the conditions of causes.

pub mod delivery;
mod events;
mod input;
mod limits;

use super::cause::{Cause, Status};
use super::view::View;
use millstream_model::snapshot::ComponentSnapshot;
use serde_json::{Map, Value};

/// A condition that holds now.
#[derive(Clone, Debug)]
pub struct Finding {
    pub cause: Cause,
    pub status: Status,
    /// Id of the component to which the condition applies.
    pub component: String,
    /// How long the condition has already held, in seconds.
    pub age_seconds: f64,
    /// Measured numbers.
    pub numbers: Map<String, Value>,
}

impl Finding {
    /// Creates a finding about a component, without numbers.
    fn new(cause: Cause, status: Status, component: &str) -> Finding {
        let (component, numbers) = (component.to_owned(), Map::new());
        Finding { cause, status, component, age_seconds: 0.0, numbers }
    }

    /// Adds a measured number or text.
    fn with(mut self, name: &str, value: impl Into<Value>) -> Finding {
        self.numbers.insert(name.to_owned(), value.into());
        self
    }

    /// Adds the last reason for which a component rejected events or failed to process them.
    fn with_last_error(self, at: &ComponentSnapshot) -> Finding {
        match &at.counters.last_error {
            Some(error) => self.with("error", error.clone()),
            None => self,
        }
    }

    /// Adds a number, rounded to three decimal places.
    fn with_rounded(self, name: &str, value: f64) -> Finding {
        self.with(name, (value * 1e3).round() / 1e3)
    }

    /// Returns whether an endpoint rejects all events for their content.
    pub fn has_all_refused(&self) -> bool {
        let is_refusal = self.numbers.contains_key("refused");
        self.cause == Cause::EndpointRefuses && self.status == Status::Late && is_refusal
    }

    /// Sets how long the condition has already held.
    fn aged(self, age_seconds: f64) -> Finding {
        Finding { age_seconds, ..self }
    }
}

/// A check, which adds its findings.
type Check = fn(&View<'_>, &mut Vec<Finding>);

const CHECKS: &[Check] = &[
    delivery::failures,
    delivery::refusals,
    delivery::quotas,
    delivery::slow_sinks,
    delivery::disk_buffers,
    delivery::checkpoints,
    limits::operators,
    limits::memory,
    limits::cpu,
    limits::rates,
    limits::transforms,
    input::unreadable,
    input::source_errors,
    limits::workers,
    input::unfinished_lines,
    input::silence,
    input::rebalances,
    input::kernel_drops,
    input::held_files,
    input::log_times,
    input::parsers,
    input::encodings,
    input::lines,
    events::operators,
    events::conditions,
];

/// Returns the conditions that hold for a source, in the order of the causes.
pub fn findings(view: &View<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    CHECKS.iter().for_each(|check| check(view, &mut found));
    found.sort_by(|a, b| (a.cause, &a.component).cmp(&(b.cause, &b.component)));
    found.dedup_by(|a, b| (a.cause, &a.component) == (b.cause, &b.component));
    found
}
