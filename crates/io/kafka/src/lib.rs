//! A safe wrapper around librdkafka: sends batches of records without copies, returns every
//! delivery report, reads partitions as a member of a consumer group, and reads a topic to verify a
//! host.
//!
//! A separate crate because it fences `unsafe`: the pointers that librdkafka takes and returns.
//!
//! A [`Shipment`] contains many records in shared buffers. [`Producer::send`] passes their
//! addresses to librdkafka, which keeps the addresses instead of copies until it reports each
//! record. Each record in flight therefore owns a reference to its shipment. When the last
//! reference is released, the [`Receipt`] lists the records that failed, with the errors.
//!
//! A [`Consumer`] lends records from the library's memory: a [`Fetched`] value owns them until it
//! is dropped.

mod client;
mod consumer;
mod hash;
mod in_flight;
mod producer;
mod reader;
mod shipment;
mod token;
mod traffic;

pub use client::{ClientError, OpenError};
pub use consumer::{
    Consumer, Event, Fetched, FetchedRecord, Place, Timestamp, TopicPartition, TopicState,
};
pub use hash::KeyHash;
pub use in_flight::{Failure, Receipt};
pub use producer::{Producer, check};
pub use rdkafka::types::RDKafkaErrorCode as ErrorCode;
pub use reader::Reader;
pub use shipment::{Headers, IdHeader, Key, Record, RecordId, Run, Shipment};

/// Returns the version of librdkafka, such as `2.12.1`.
pub fn version() -> String {
    let (_, version) = rdkafka::util::get_rdkafka_version();
    version
}
