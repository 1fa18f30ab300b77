//! The border to librdkafka: batches of records in without copies, every delivery report out, and a
//! reader for tests of a host.
//!
//! A separate crate because it fences `unsafe`: what librdkafka is given and calls back.
//!
//! A [`Shipment`] is many records over shared buffers. [`Producer::send`] hands their addresses to
//! the library, which keeps the addresses, not copies, until it reports each record. So a shipment
//! stays alive until its last report: every record in flight holds a reference to it. When the last
//! one is gone, the [`Receipt`] says which records failed, and why.

mod flight;
mod hash;
mod producer;
mod reader;
mod shipment;

pub use flight::{Failure, Receipt};
pub use hash::KeyHash;
pub use producer::{OpenError, Producer, TopicError, check};
pub use rdkafka::types::RDKafkaErrorCode as ErrorCode;
pub use reader::Reader;
pub use shipment::{Headers, Key, Record, RecordId, Run, Shipment};
