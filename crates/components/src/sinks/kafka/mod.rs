//! The `kafka` sink sends events to Kafka, idempotently and in order.
//!
//! Workers encode. The lane passes pointers to the records to the library, and keeps the buffers
//! until every record has its delivery report. Many payloads are in flight at once; they are
//! settled oldest first.
//!
//! Order: the events of an origin go to one partition, without gaps. The library stops at the first
//! record that it cannot deliver (`enable.gapless.guarantee`). The lane then withdraws the later
//! records, and resends all of them in order once this can succeed.

mod config;
mod encoder;
mod errors;
mod lane;
mod refusals;
mod routing;
mod settings;

pub use config::KafkaConfig;

use crate::codec::Codec;
use crate::component::{Component, SinkComponent};
use crate::util::kafka::{check_brokers, check_security, files, is_of_connection};
use encoder::{EncodedShipment, KafkaEncoder};
use lane::KafkaLane;
use millstream_kafka::Producer;
use millstream_model::limits::BATCH_ROWS_MAX;
use millstream_model::{
    BuildError, Encoder, Lane, LaneCx, OptionError, Payload, Routing, RoutingError, Sink,
};
use settings::Batching;
use std::path::PathBuf;
use std::sync::Arc;

/// Memory of a record in addition to its text, in bytes: its position in the buffer.
const RECORD_BYTES: u64 = 8;

impl Component for KafkaConfig {
    fn check(&self) -> Vec<OptionError> {
        let mut errors = self.encoding.check();
        errors.extend(check_brokers(&self.brokers));
        let by_key = self.partitioner.is_some_and(|partitioner| partitioner.key_hash().is_some());
        if by_key && self.key.is_none() {
            errors.push(OptionError::new("/partitioner", "needs a `key`; add one, or use origin"));
        }
        if let Some(name) = self.headers.keys().find(|name| name.is_empty() || name.contains('\0'))
        {
            errors.push(OptionError::new(
                "/headers",
                format!(
                    "{name:?} is not a header name; use a non-empty name without NUL characters"
                ),
            ));
        }
        errors.extend(check_id_header(self));
        errors.extend(check_security(self.tls.as_ref(), self.sasl.as_ref()));
        errors.extend(settings::check_options(&self.options));
        errors
    }

    fn outputs(&self) -> Vec<String> {
        vec!["rejected".to_owned()]
    }

    fn files(&self) -> Vec<(String, PathBuf)> {
        files(self.tls.as_ref(), self.sasl.as_ref())
    }

    fn wants_metrics(&self) -> bool {
        self.encoding.codec == Codec::Msgpack
    }
}

impl SinkComponent for KafkaConfig {
    fn build(&self) -> Result<Arc<dyn Sink>, BuildError> {
        // This rejects contradictory settings now. Without addresses, the client connects to
        // nothing; certificate files need to exist only when it connects.
        let mut settings = settings::of(self, &Batching::default());
        settings.retain(|(key, _)| !is_of_connection(key));
        Producer::open(&settings, None, |_| {}).map_err(|error| BuildError::Producer(error.0))?;
        Ok(Arc::new(KafkaSink { config: Arc::new(self.clone()) }))
    }
}

/// Returns the error in the name of the header for ids, if there is one.
fn check_id_header(config: &KafkaConfig) -> Option<OptionError> {
    let name = config.id_header.as_deref().filter(|name| !name.is_empty())?;
    let text = match config.encoding.codec {
        Codec::Msgpack => "cannot be used with blocks of many events; remove it",
        _ if name.contains('\0') => {
            "is not a header name; use a non-empty name without NUL characters"
        }
        _ if config.headers.contains_key(name) => "is also listed in `headers`; remove it there",
        _ => return None,
    };
    Some(OptionError::new("/id_header", text))
}

/// A `kafka` sink. It creates encoders, and lanes that each have a client.
struct KafkaSink {
    config: Arc<KafkaConfig>,
}

impl Sink for KafkaSink {
    fn encoder(&self) -> Box<dyn Encoder> {
        Box::new(KafkaEncoder::new(self.config.clone()))
    }

    fn payload_format(&self) -> String {
        "kafka/1".to_owned()
    }

    fn read_routing(
        &self,
        bytes: &[u8],
        payload: &Payload,
    ) -> Result<Option<Arc<dyn Routing>>, RoutingError> {
        Ok(Some(Arc::new(EncodedShipment::read(bytes, payload)?)))
    }

    fn payload_bytes_max(&self, block_bytes: u64, rows: u64) -> u64 {
        let records = rows.min(BATCH_ROWS_MAX as u64) * RECORD_BYTES;
        self.config.encoding.payload_bytes_max(block_bytes, rows) + records
    }

    fn lanes(&self) -> usize {
        self.config.connections
    }

    fn lane(&self, cx: LaneCx) -> Box<dyn Lane> {
        Box::new(KafkaLane::new(self.config.clone(), cx))
    }
}
