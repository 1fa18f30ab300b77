//! Transform `aggregate`: counts events and adds up their fields, by group and window.
//!
//! It is a merge transform: a worker adds up each batch (`encoder`), the lane adds the batches up
//! in order (`lane`), and changed groups are appended to a snapshot (`snapshot`), which is committed
//! with the checkpoints of the events in it. So an event counts once, whatever happens.

mod config;
mod definition;
mod encoder;
mod lane;
mod result;
mod snapshot;
mod totals;

pub use config::AggregateConfig;
pub use definition::Emit;

use definition::Definition;
use encoder::GroupEncoder;
use lane::AggregateLane;
use millstream_model::{Encoder, Lane, LaneCx, Sink};
use std::sync::Arc;

/// Bytes of a group in a payload in addition to the values of its fields, without numbers.
const GROUP_BYTES: u64 = 12;

/// Bytes of a number of a group.
const NUMBER_BYTES: u64 = 32;

/// The transform.
struct Aggregate {
    definition: Arc<Definition>,
    groups_max: usize,
}

impl Sink for Aggregate {
    fn encoder(&self) -> Box<dyn Encoder> {
        Box::new(GroupEncoder::new(&self.definition))
    }

    fn payload_bytes_max(&self, block_bytes: u64, rows: u64) -> u64 {
        let of_fields = 4 * self.definition.group_by.len() as u64;
        let numbers = NUMBER_BYTES * self.definition.fields().len() as u64;
        // A value of a group is at most a line, and each line has one.
        block_bytes * self.definition.group_by.len().max(1) as u64
            + rows * (GROUP_BYTES + of_fields + numbers)
    }

    fn lane(&self, cx: LaneCx) -> Box<dyn Lane> {
        Box::new(AggregateLane::open(self.definition.clone(), self.groups_max, cx))
    }
}

#[cfg(test)]
mod tests;
