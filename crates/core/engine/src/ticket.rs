//! A ticket: a batch's place in its source's order, and everything the chain made of it.

use millstream_model::{Ack, Batch, Payload, Permit};

/// Position of a ticket in its source's order, counted from zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TicketNumber(u64);

impl TicketNumber {
    /// Returns this number and moves on to the next one.
    pub fn advance(&mut self) -> TicketNumber {
        let number = *self;
        self.0 += 1;
        number
    }

    /// Returns how many tickets come before this one.
    #[cfg(test)]
    pub fn get(self) -> u64 {
        self.0
    }
}

/// A batch on its way through the chain.
pub(crate) struct Ticket {
    /// Index of the source.
    pub source: usize,
    /// Position in the source's order.
    pub number: TicketNumber,
    /// Acknowledgements of the batch, finished when the ticket is released.
    pub acks: Vec<Ack>,
    /// Memory for the output of the chain.
    pub permit: Permit,
    /// Batches to run next, by node.
    pub inputs: Vec<(usize, Batch)>,
    /// Number of cuts (serial and offload transforms) already passed.
    pub cuts_passed: usize,
    /// Batches that wait at a cut, by node.
    pub at_cuts: Vec<(usize, Batch)>,
    /// Payloads of all sinks, in the order they were encoded.
    pub payloads: Vec<Bound>,
}

/// A payload with its destination.
pub(crate) struct Bound {
    /// Node of the sink.
    pub node: usize,
    /// Lane of the sink.
    pub lane: usize,
    /// The payload.
    pub payload: Payload,
    /// The segments that it delivers.
    pub acks: Vec<Ack>,
}

impl Ticket {
    /// Takes the batches that wait at the cut `node`.
    pub fn take_cut(&mut self, node: usize) -> Vec<Batch> {
        let (here, rest) =
            std::mem::take(&mut self.at_cuts).into_iter().partition(|(at, _)| *at == node);
        self.at_cuts = rest;
        let here: Vec<(usize, Batch)> = here;
        here.into_iter().map(|(_, batch)| batch).collect()
    }
}
