//! Sink `kafka`: sends events to Kafka, idempotently and in order.
//!
//! Workers encode; the lane hands the addresses of the records to the library and keeps the buffers
//! until every record has its delivery report. Many payloads are on their way at once; they are
//! settled oldest first.
//!
//! Order: an origin's events go to one partition, and a gap is never let be. The library stops at
//! the first record it cannot deliver (`enable.gapless.guarantee`); the lane then takes back what
//! was behind it and sends both again, in order, once that can help.

mod config;
mod encoder;
mod faults;
mod lane;
mod settings;

pub use config::KafkaConfig;

use encoder::KafkaEncoder;
use lane::KafkaLane;
use millstream_model::limits::BATCH_ROWS_MAX;
use millstream_model::{Encoder, Lane, LaneCx, Sink};
use std::sync::Arc;

/// Bytes a record costs beside its text: where it lies in its buffer.
const RECORD_BYTES: u64 = 8;

/// The sink.
struct KafkaSink {
    config: Arc<KafkaConfig>,
}

impl Sink for KafkaSink {
    fn encoder(&self) -> Box<dyn Encoder> {
        Box::new(KafkaEncoder::new(self.config.clone()))
    }

    fn payload_bytes_max(&self, block_bytes: u64, rows: u64) -> u64 {
        let records = rows.min(BATCH_ROWS_MAX as u64) * RECORD_BYTES;
        self.config.encoding.payload_bytes_max(block_bytes, rows) + records
    }

    fn lanes(&self) -> usize {
        self.config.connections
    }

    fn lane(&self, cx: LaneCx) -> Box<dyn Lane> {
        Box::new(KafkaLane::new(self.config.clone(), cx.counters))
    }
}
