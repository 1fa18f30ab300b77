//! Converts rejected records to rejected events, one per event, as the engine expects.

use crate::codec::Codec;
use crate::codec::metric_record;
use bytes::Bytes;
use millstream_kafka::{Record, RecordId, Shipment};
use millstream_model::Refused;

/// A shipment that was sent.
#[derive(Clone, Copy)]
pub struct SentShipment<'s> {
    /// Payload number.
    pub number: u64,
    /// The shipment.
    pub shipment: &'s Shipment,
    /// Codec of the events. It may differ from the current configuration if the payload was on
    /// disk.
    pub codec: Codec,
}

/// Returns the events of a record that was rejected for `reason`. The metrics of a block are
/// separate events. If the block cannot be decoded, their records are empty.
pub fn of_record(sent: SentShipment<'_>, id: RecordId, reason: &str) -> Vec<Refused> {
    let SentShipment { number: payload, shipment, codec } = sent;
    let run = &shipment.runs[id.run as usize];
    let Record { start, len } = run.records[id.record as usize];
    let bytes = shipment.parts[run.part].slice(start as usize..(start + len) as usize);
    let metrics = if codec == Codec::Msgpack { metrics(&bytes, run.events) } else { None };
    let (records, is_json) = match (codec, metrics) {
        (Codec::Msgpack, None) => (vec![Bytes::new(); run.events as usize], false),
        (_, Some(metrics)) => (metrics, true),
        (codec, None) => (vec![bytes], codec.is_json()),
    };
    let refused =
        |(event, record)| Refused { payload, event, reason: reason.to_owned(), record, is_json };
    (first_event(shipment, id)..).zip(records).map(refused).collect()
}

/// Returns the metrics of a block; `None` unless there are as many as `events`.
fn metrics(block: &[u8], events: u64) -> Option<Vec<Bytes>> {
    let metrics = metric_record::of_block(block)?;
    (metrics.len() as u64 == events).then(|| metrics.into_iter().map(Bytes::from).collect())
}

/// Returns the index of a record's first event in its payload. The records of a shipment are in the
/// order of the events.
fn first_event(shipment: &Shipment, id: RecordId) -> u32 {
    let (run, before) = (&shipment.runs[id.run as usize], &shipment.runs[..id.run as usize]);
    let before: u64 = before.iter().map(|run| run.events * run.records.len() as u64).sum();
    (before + run.events * u64::from(id.record)) as u32
}
