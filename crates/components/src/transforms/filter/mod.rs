//! The `filter` transform passes events that satisfy a condition.

mod config;

pub use config::FilterConfig;

use crate::util::condition::Condition;
use millstream_model::{Batch, ComponentError, Map, Outputs};

/// A running `filter` transform.
struct Filter(Condition);

impl Map for Filter {
    fn apply(&mut self, mut batch: Batch, out: &mut Outputs) -> Result<(), ComponentError> {
        let before = batch.events();
        let kept = self.0.holds(&batch, out);
        batch.select(kept);
        out.counters.dropped("filtered", (before - batch.events()) as u64);
        out.send(0, batch);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
