//! The `sample` transform keeps one event in `one_in`.
//!
//! A hash of the event's id or key decides, so an event that is reread is sampled the same way.

mod config;

pub use config::SampleConfig;

use crate::transforms::rows::keep_rows;
use crate::util::template::Template;
use millstream_model::{Batch, ComponentError, EventId, Map, Outputs, Segment};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// A running `sample` transform.
struct Sample {
    one_in: u64,
    key: Option<Template>,
    /// Buffer for rendered keys.
    text: Vec<u8>,
}

impl Sample {
    fn new(one_in: u64, key: Option<Template>) -> Sample {
        Sample { one_in, key, text: Vec::new() }
    }

    fn keep(&mut self, batch: &Batch, segment: &Segment, row: usize) -> bool {
        let hash = match (&self.key, batch.received_id(row)) {
            (None, Some(id)) => xxh3_64_with_seed(id, u64::from(batch.ordinal(row))),
            (None, None) => {
                let EventId { origin, offset, ordinal } = batch.event_id(segment, row);
                let seed = origin.0.wrapping_add(u64::from(ordinal));
                xxh3_64_with_seed(&offset.to_le_bytes(), seed)
            }
            (Some(key), _) => {
                self.text.clear();
                key.render(batch, segment, row, &mut self.text);
                xxh3_64(&self.text)
            }
        };
        hash % self.one_in == 0
    }
}

impl Map for Sample {
    fn apply(&mut self, mut batch: Batch, out: &mut Outputs) -> Result<(), ComponentError> {
        let dropped = keep_rows(&mut batch, |batch, segment, row| self.keep(batch, segment, row));
        out.counters.dropped("sampled", dropped);
        out.send(0, batch);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
