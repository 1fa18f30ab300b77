//! A safe wrapper around librdkafka: sends batches of records without copies, returns every
//! delivery report, and reads a topic to verify a host.
//!
//! A separate crate because it fences `unsafe`: the pointers that librdkafka gets and returns.
//!
//! A [`Shipment`] holds many records in shared buffers. [`Producer::send`] passes their addresses
//! to librdkafka, which keeps them instead of copies until it reports each record. Every record in
//! flight therefore holds a reference to its shipment. When the last one is released, the
//! [`Receipt`] names the records that failed, and why.

mod hash;
mod in_flight;
mod producer;
mod reader;
mod shipment;

pub use hash::KeyHash;
pub use in_flight::{Failure, Receipt};
pub use producer::{OpenError, Producer, TopicError, check};
pub use rdkafka::types::RDKafkaErrorCode as ErrorCode;
pub use reader::Reader;
pub use shipment::{Headers, IdHeader, Key, Record, RecordId, Run, Shipment};
