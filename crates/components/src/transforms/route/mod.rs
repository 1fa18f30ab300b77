//! Transform `route`: each event goes to the outputs whose conditions hold, and to the main output
//! if none does.

mod config;

pub use config::RouteConfig;

use crate::condition::Condition;
use millstream_model::{Batch, ComponentError, Map, Outputs};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

/// Whether an event goes to every output whose condition holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Match {
    /// To every one.
    #[default]
    All,
    /// To the first in the order they are written.
    First,
}

/// The transform.
struct Route {
    conditions: Arc<[Condition]>,
    matching: Match,
}

impl Map for Route {
    fn apply(&mut self, batch: Batch, out: &mut Outputs) -> Result<(), ComponentError> {
        let mut left = batch.clone();
        for (index, condition) in self.conditions.iter().enumerate() {
            let asked = if self.matching == Match::First { &left } else { &batch };
            let holds = condition.holds(asked, out);
            let mut chosen = asked.clone();
            chosen.select(holds.clone());
            left.select(!&holds);
            if chosen.events() > 0 {
                out.send(index + 1, chosen);
            }
        }
        if left.events() > 0 {
            out.send(0, left);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
