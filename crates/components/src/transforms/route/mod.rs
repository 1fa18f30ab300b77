//! The `route` transform sends each event to the outputs whose conditions it satisfies, or to the
//! main output if it satisfies none.

mod config;

pub use config::RouteConfig;

use crate::util::condition::Condition;
use millstream_model::{Batch, ComponentError, Map, Outputs};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

/// Outputs that an event goes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Match {
    /// All matching outputs.
    #[default]
    All,
    /// The first matching output, in configuration order.
    First,
}

/// A running `route` transform.
struct Route {
    conditions: Arc<[Condition]>,
    matching: Match,
}

impl Map for Route {
    fn apply(&mut self, batch: Batch, out: &mut Outputs) -> Result<(), ComponentError> {
        let (mut left, mut answered) = (batch.clone(), 0);
        for (index, condition) in self.conditions.iter().enumerate() {
            let candidates = if self.matching == Match::First { &left } else { &batch };
            let (holds, answers) = condition.answers(candidates, out);
            answered += answers;
            let mut chosen = candidates.clone();
            chosen.select(holds.clone());
            left.select(!&holds);
            if chosen.events() > 0 {
                out.send(index + 1, chosen);
            }
        }
        // An event can have several results, so this is only a lower bound for the events without
        // any result.
        let unanswered = (batch.events() as u64).saturating_sub(answered);
        out.counters.noted("no_result", unanswered);
        if left.events() > 0 {
            out.send(0, left);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
