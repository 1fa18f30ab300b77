//! Payloads: an encoder's output for one batch and one sink.

use crate::feed::{FeedEvent, RowSource};
use crate::grant::Permit;
use crate::hold::Hold;
use crate::limits::PAYLOAD_BYTES;
use crate::origin::{Origin, OriginId};
use crate::outcome::Outcome;
use crate::routing::Routing;
use crate::trace::TracedDelivery;
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;

/// Encoded events from one batch for one lane, with the debts that the payload settles.
#[derive(Default)]
pub struct Payload {
    /// The bytes, in order. Unchanged bytes are slices of read blocks.
    pub parts: Vec<Bytes>,
    /// Number of events.
    pub events: u64,
    /// Bytes in all parts.
    pub bytes: u64,
    /// Metadata that a sink's encoder passes to its lane, such as the destination of each part and
    /// the end of each record.
    pub routing: Option<Arc<dyn Routing>>,
    /// The origin, id and time of each event; empty if no source reads rejected events.
    pub sources: Arc<[RowSource]>,
    /// Events that the encoder rejected; the lane passes them on.
    pub refused: Vec<FeedEvent>,
    /// The permit for the memory of `sources` and `refused`, if there are any.
    pub paid: Option<Permit>,
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

    /// Returns the bytes that the payload takes while it waits. Many short payloads take more
    /// memory than their text.
    pub fn queue_bytes(&self) -> u64 {
        self.bytes + PAYLOAD_BYTES
    }

    /// Returns the routing as the sink's type `T`; `None` if there is no routing or it belongs to
    /// another sink.
    pub fn routing_as<T: Routing>(&self) -> Option<&T> {
        self.routing.as_ref()?.as_type()
    }

    /// Returns a payload with the same encoded events, as views of the same bytes. The debts, the
    /// rejected events and the permit stay with the original.
    pub fn copy(&self) -> Payload {
        Payload {
            parts: self.parts.clone(),
            events: self.events,
            bytes: self.bytes,
            routing: self.routing.clone(),
            sources: self.sources.clone(),
            ..Payload::default()
        }
    }

    /// Returns whether the payload has no bytes to deliver.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.refused.is_empty()
    }

    /// Opens another hold for the segment that contains the record at `offset`, if the payload owes
    /// that segment.
    pub fn hold_of(&self, origin: &Origin, offset: u64) -> Option<Hold> {
        self.holds.iter().find(|hold| hold.covers(origin.id, offset))?.split()
    }

    /// Takes out the events that the encoder rejected, with a hold for each event.
    pub fn take_refused(&mut self) -> Vec<FeedEvent> {
        let mut refused = std::mem::take(&mut self.refused);
        for event in &mut refused {
            let id = event.id.as_ref();
            event.hold = id.and_then(|id| self.hold_of(&id.origin, id.offset));
        }
        refused
    }

    /// Adds debts for this payload to settle.
    pub fn owe(&mut self, holds: impl IntoIterator<Item = Hold>) {
        self.holds.extend(holds);
    }

    /// Takes the payload for a merge transform, which must count each payload once. Returns whether
    /// the transform may count the payload: no part of it will be reread, and everything before it
    /// is counted. Otherwise the payload must be returned.
    pub fn take_once(&self) -> bool {
        // Each hold is taken before the next is checked, because several segments may share an
        // origin.
        self.holds.iter().all(|hold| {
            let may_count = !hold.is_stale() && hold.is_next();
            if may_count {
                hold.take();
            }
            may_count
        })
    }

    /// Appends another payload, to be settled together with this one.
    pub fn join(&mut self, mut other: Payload) {
        self.parts.append(&mut other.parts);
        self.events += other.events;
        self.bytes += other.bytes;
        self.holds.append(&mut other.holds);
    }

    /// Takes the debts out of the payload, so that they can be settled after its bytes are dropped.
    pub fn take_holds(&mut self) -> Vec<Hold> {
        std::mem::take(&mut self.holds)
    }

    /// Returns the ranges that the payload delivers, by origin.
    pub fn ranges(&self) -> impl Iterator<Item = (OriginId, Range<u64>)> {
        self.holds.iter().filter_map(Hold::range)
    }

    /// Returns the payload's trace, if any.
    pub fn trace(&self) -> Option<&Arc<TracedDelivery>> {
        self.holds.first()?.trace()
    }

    /// Settles all debts with `outcome`.
    pub fn settle(mut self, outcome: Outcome) {
        self.take_holds().into_iter().for_each(|hold| hold.settle(outcome));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::FeedId;
    use crate::{EngineTime, Ledger, SinkIndex, SinkSet};

    /// Issues a range to one sink; returns a payload with one rejected event from that range.
    fn payload(ledger: &Arc<Ledger>, does_owe: bool) -> Payload {
        let (sink, origin) = (SinkIndex::new(0), Arc::new(Origin::new(OriginId(7), "")));
        ledger.open(&origin, [(sink, 0)]);
        let ack = ledger.issue(origin.id, 0..9, SinkSet::one(sink), 0, EngineTime::ZERO);
        let id = FeedId { origin, offset: 4, ordinal: 0, received: None };
        let source = RowSource { id, time_ns: 0 };
        let mut payload = Payload::new(0);
        payload.refused.push(FeedEvent::refused(&source, b"x", false, "not_a_metric"));
        payload.owe(does_owe.then(|| ack.hold(sink)).flatten());
        ack.finish();
        payload
    }

    fn checkpoint(ledger: &Ledger) -> Option<u64> {
        ledger.checkpoint(OriginId(7), SinkIndex::new(0))
    }

    #[test]
    fn a_segment_is_open_until_what_was_refused_of_it_is_settled() {
        let ledger = Ledger::new();
        let mut payload = payload(&ledger, true);
        let refused = payload.take_refused();
        payload.settle(Outcome::Delivered);
        assert_eq!(checkpoint(&ledger), Some(0));
        let holds = refused.into_iter().filter_map(|event| event.hold);
        holds.for_each(|hold| hold.settle(Outcome::Rejected));
        assert_eq!(checkpoint(&ledger), Some(9));
    }

    struct Ends(u8);

    impl Routing for Ends {
        fn write(&self, out: &mut Vec<u8>) {
            out.push(self.0);
        }
    }

    struct Other;

    impl Routing for Other {
        fn write(&self, _: &mut Vec<u8>) {}
    }

    #[test]
    fn a_copy_has_the_same_bytes_and_routing_and_none_of_the_debt() {
        let ledger = Ledger::new();
        let mut payload = payload(&ledger, true);
        payload.push(Bytes::from_static(b"text"));
        payload.routing = Some(Arc::new(Ends(7)));
        let copy = payload.copy();
        assert_eq!((&copy.parts, copy.bytes, copy.events), (&payload.parts, 4, 0));
        assert_eq!(copy.routing_as::<Ends>().map(|ends| ends.0), Some(7));
        assert!(copy.routing_as::<Other>().is_none() && copy.refused.is_empty());
        copy.settle(Outcome::Delivered);
        assert_eq!(checkpoint(&ledger), Some(0), "the original still owes");
    }

    /// After a panic in the chain, the batch is re-encoded in halves.
    #[test]
    fn a_payload_that_the_chain_discards_abandons_nothing() {
        let ledger = Ledger::new();
        drop(payload(&ledger, false));
        assert_eq!((checkpoint(&ledger), ledger.take_rereads()), (Some(9), Vec::new()));
    }
}
