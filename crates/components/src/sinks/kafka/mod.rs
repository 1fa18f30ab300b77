//! Sink `kafka`: sends events to Kafka, idempotently and in order.
//!
//! Workers encode; the lane passes pointers to the records to the library, and keeps the buffers
//! until every record has its delivery report. Many payloads are in flight at once; they are
//! settled oldest first.
//!
//! Order: an origin's events go to one partition, without gaps. The library stops at the first
//! record that it cannot deliver (`enable.gapless.guarantee`). The lane then takes back the records
//! after it and resends all of them in order, once that can succeed.

mod config;
mod encoder;
mod errors;
mod lane;
mod settings;

pub use config::KafkaConfig;

use encoder::KafkaEncoder;
use lane::KafkaLane;
use millstream_model::limits::BATCH_ROWS_MAX;
use millstream_model::{Encoder, Lane, LaneCx, Sink};
use std::sync::Arc;

/// Memory of a record in addition to its text: its position in the buffer. Bytes.
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
