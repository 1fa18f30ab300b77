//! What an encoder makes of a batch for one sink, on its way to delivery.

use crate::ack::{Hold, Outcome};
use bytes::Bytes;
use std::any::Any;

/// Encoded events of one batch for one lane, with the debt they settle.
#[derive(Default)]
pub struct Payload {
    /// The bytes, in order. Slices of read blocks where nothing had to change.
    pub parts: Vec<Bytes>,
    /// Events in it.
    pub events: u64,
    /// Bytes in all parts.
    pub bytes: u64,
    /// What a sink's encoder tells its own lane about the parts: where each goes, where records
    /// end.
    pub routing: Option<Box<dyn Any + Send + Sync>>,
    holds: Vec<Hold>,
}

impl Payload {
    /// An empty payload for `events` events.
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

    /// Adds debts that end with this payload.
    pub fn owe(&mut self, holds: impl IntoIterator<Item = Hold>) {
        self.holds.extend(holds);
    }

    /// Takes the debts out, to be settled later; the bytes can go.
    pub fn take_holds(&mut self) -> Vec<Hold> {
        std::mem::take(&mut self.holds)
    }

    /// Settles all debts with `outcome`.
    pub fn settle(mut self, outcome: Outcome) {
        self.take_holds().into_iter().for_each(|hold| hold.settle(outcome));
    }
}
