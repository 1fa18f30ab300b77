//! Payloads: what an encoder made of a batch for one sink.

use crate::ack::{Hold, Outcome};
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
    holds: Vec<Hold>,
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
        self.parts.is_empty()
    }

    /// Adds debts that this payload settles.
    pub fn owe(&mut self, holds: impl IntoIterator<Item = Hold>) {
        self.holds.extend(holds);
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
