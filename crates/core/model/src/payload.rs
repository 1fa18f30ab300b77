//! Payloads: what an encoder made of a batch for one sink.

use crate::ack::{Hold, Outcome};
use crate::feed::{FeedEvent, FeedId};
use crate::origin::Origin;
use bytes::Bytes;
use std::any::Any;

/// Encoded events of one batch for one lane, with the debt that they settle.
#[derive(Default)]
pub struct Payload {
    /// The bytes, in order: slices of read blocks where nothing changed.
    pub parts: Vec<Bytes>,
    /// Number of events.
    pub events: u64,
    /// Bytes in all parts.
    pub bytes: u64,
    /// Metadata from a sink's encoder to its own lane: where each part goes, where records end.
    pub routing: Option<Box<dyn Any + Send + Sync>>,
    /// The row that each event was; empty if nothing reads what is refused.
    pub sources: Vec<RowSource>,
    /// Events that the encoder refused; the lane passes them on.
    pub refused: Vec<FeedEvent>,
    holds: Vec<Hold>,
}

/// Where an encoded event comes from.
#[derive(Clone)]
pub struct RowSource {
    /// The id of the event.
    pub id: FeedId,
    /// Its time, in nanoseconds since 1970.
    pub time_ns: i64,
}

impl Payload {
    /// Creates an empty payload for `events` events.
    pub fn new(events: u64) -> Payload {
        Payload { events, ..Payload::default() }
    }

    /// Appends bytes.
    pub fn push(&mut self, part: Bytes) {
        self.bytes += part.len() as u64;
        self.parts.push(part);
    }

    /// Whether there is nothing to deliver.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.refused.is_empty()
    }

    /// Returns another debt for the segment of a record.
    pub fn hold_of(&self, origin: &Origin, offset: u64) -> Option<Hold> {
        self.holds.iter().find(|hold| hold.covers(origin.id, offset))?.split()
    }

    /// Adds debts that this payload settles.
    pub fn owe(&mut self, holds: impl IntoIterator<Item = Hold>) {
        self.holds.extend(holds);
    }

    /// Takes the payload for a merge transform, which counts it once; returns whether it may: none
    /// of it will be read again, and everything before it is counted. If not, the payload must be
    /// returned.
    pub fn take_once(&self) -> bool {
        // One by one: several segments may be of one origin.
        self.holds.iter().all(|hold| {
            let may_count = !hold.is_stale() && hold.is_next();
            if may_count {
                hold.take();
            }
            may_count
        })
    }

    /// Appends a payload that settles together with this one.
    pub fn join(&mut self, mut other: Payload) {
        self.parts.append(&mut other.parts);
        self.events += other.events;
        self.bytes += other.bytes;
        self.holds.append(&mut other.holds);
    }

    /// Takes the debts out, to be settled later; the bytes may drop.
    pub fn take_holds(&mut self) -> Vec<Hold> {
        std::mem::take(&mut self.holds)
    }

    /// Settles all debts with `outcome`.
    pub fn settle(mut self, outcome: Outcome) {
        self.take_holds().into_iter().for_each(|hold| hold.settle(outcome));
    }
}
