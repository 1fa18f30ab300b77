//! A segment's debt to its source, and how it is settled, sink by sink.

use crate::ledger::Ledger;
use crate::sinkset::SinkSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// How the debt of a byte range to one sink ends. The order is the order of badness: a range that
/// ends in several ways ends in the worst of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Outcome {
    /// Durable on the sink's side, or dropped on purpose by the configuration.
    Delivered = 0,
    /// Refused for good, and counted with a reason.
    Rejected = 1,
    /// Given back undelivered, through no fault of its own: the source reads the range again.
    Returned = 2,
    /// Lost on the way without an answer, perhaps by its own fault: the source reads the range
    /// again and, if that happens over and over, looks for the line that does it.
    Abandoned = 3,
}

/// The acknowledgement of one segment. Clones refer to the same debt.
///
/// For each sink it counts the holds that are still open. It starts with one hold per sink, the
/// ticket's own, which [`Ack::finish`] closes when the chain has run; a payload adds one more with
/// [`Ack::hold`]. When the last hold of a sink closes, the ledger learns the worst outcome. If the
/// acknowledgement drops with holds open (a panic, a lost batch), those sinks are *abandoned*.
#[derive(Clone)]
pub struct Ack(Arc<Debt>);

struct Debt {
    ledger: Arc<Ledger>,
    /// The origin, and the epoch of the ledger in which the range was issued.
    origin: (u64, u32),
    begin: u64,
    end: u64,
    attempt: u8,
    sinks: SinkSet,
    states: Box<[State]>,
}

struct State {
    open: AtomicU32,
    worst: AtomicU8,
}

impl Ack {
    /// Made by [`Ledger::issue`] only, which has noted the range as open.
    pub(crate) fn new(
        ledger: Arc<Ledger>,
        origin: (u64, u32),
        range: (u64, u64),
        attempt: u8,
        sinks: SinkSet,
    ) -> Ack {
        let state = |_| State { open: AtomicU32::new(1), worst: AtomicU8::new(0) };
        let states = sinks.iter().map(state).collect();
        Ack(Arc::new(Debt { ledger, origin, begin: range.0, end: range.1, attempt, sinks, states }))
    }

    /// The sinks this segment is owed to.
    pub fn sinks(&self) -> SinkSet {
        self.0.sinks
    }

    /// The range in its origin, from its first byte to after its last.
    pub fn range(&self) -> (u64, u64) {
        (self.0.begin, self.0.end)
    }

    /// How often this range was abandoned before.
    pub fn attempt(&self) -> u8 {
        self.0.attempt
    }

    /// Opens one more hold for `sink`, or none if the segment is not owed to it.
    pub fn hold(&self, sink: usize) -> Option<Hold> {
        if !self.0.sinks.contains(sink) {
            return None;
        }
        self.0.state(sink).open.fetch_add(1, Ordering::Relaxed);
        Some(Hold { ack: self.clone(), sink, settled: false })
    }

    /// The chain has run: closes the ticket's own hold of every sink.
    pub fn finish(&self) {
        self.0.sinks.iter().for_each(|sink| self.0.close(sink, Outcome::Delivered));
    }

    /// The segment does not go out: the source reads its range again.
    pub fn give_back(&self) {
        self.0.sinks.iter().for_each(|sink| self.0.close(sink, Outcome::Returned));
    }
}

impl Debt {
    fn state(&self, sink: usize) -> &State {
        &self.states[self.sinks.rank(sink)]
    }

    fn close(&self, sink: usize, outcome: Outcome) {
        let state = self.state(sink);
        state.worst.fetch_max(outcome as u8, Ordering::Relaxed);
        if state.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            let worst = match state.worst.load(Ordering::Relaxed) {
                0 => Outcome::Delivered,
                1 => Outcome::Rejected,
                2 => Outcome::Returned,
                _ => Outcome::Abandoned,
            };
            self.ledger.settle(self.origin, sink, (self.begin, self.end), self.attempt, worst);
        }
    }
}

impl Drop for Debt {
    fn drop(&mut self) {
        // A hold keeps the debt alive, so what is open here can only be the ticket's own.
        for sink in self.sinks.iter() {
            if self.state(sink).open.load(Ordering::Acquire) > 0 {
                self.close(sink, Outcome::Abandoned);
            }
        }
    }
}

/// One payload's share of an acknowledgement for one sink. Dropped unsettled, it is abandoned.
pub struct Hold {
    ack: Ack,
    sink: usize,
    settled: bool,
}

impl Hold {
    /// Closes the hold with what became of the payload.
    pub fn settle(mut self, outcome: Outcome) {
        self.settled = true;
        self.ack.0.close(self.sink, outcome);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.settled {
            self.ack.0.close(self.sink, Outcome::Abandoned);
        }
    }
}
