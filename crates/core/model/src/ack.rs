//! Acknowledgements: what a segment owes to its source, settled sink by sink.

use crate::ledger::{Issued, Ledger};
use crate::origin::OriginId;
use crate::sinkset::{SinkIndex, SinkSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// How the debt of a byte range to one sink ends. Variants are ordered by severity: a range with
/// several outcomes ends with the worst of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Outcome {
    /// Durable at the endpoint, or dropped on purpose by the configuration.
    Delivered = 0,
    /// Rejected permanently, and counted with a reason.
    Rejected = 1,
    /// Returned undelivered for a reason outside the range; the source reads the range again.
    Returned = 2,
    /// Lost without an answer, possibly because of its content. The source reads the range again
    /// and, if that keeps happening, bisects it down to the line that causes it.
    Abandoned = 3,
}

/// The acknowledgement of one segment. Clones share the same debt.
///
/// It counts open holds per sink. Each sink starts with one, the ticket's own, which
/// [`Ack::finish`] closes when the chain has run; each payload opens another with [`Ack::hold`].
/// When the last hold of a sink closes, the ledger gets the worst outcome. If the acknowledgement
/// drops while holds are open (a panic, a lost batch), those sinks are *abandoned*.
#[derive(Clone)]
pub struct Ack(Arc<Debt>);

struct Debt {
    ledger: Arc<Ledger>,
    issued: Issued,
    sinks: SinkSet,
    states: Box<[State]>,
}

struct State {
    open: AtomicU32,
    worst: AtomicU8,
}

impl Ack {
    /// Creates the acknowledgement of a range that [`Ledger::issue`] has recorded as open.
    pub(crate) fn new(ledger: Arc<Ledger>, issued: Issued, sinks: SinkSet) -> Ack {
        let state = |_| State { open: AtomicU32::new(1), worst: AtomicU8::new(0) };
        let states = sinks.iter().map(state).collect();
        Ack(Arc::new(Debt { ledger, issued, sinks, states }))
    }

    /// Returns the sinks this segment is owed to.
    pub fn sinks(&self) -> SinkSet {
        self.0.sinks
    }

    /// Returns the range in the origin.
    pub fn range(&self) -> Range<u64> {
        self.0.issued.range.clone()
    }

    /// Returns how often this range was abandoned before.
    pub fn attempt(&self) -> u8 {
        self.0.issued.attempt
    }

    /// Opens another hold for `sink`; `None` if the segment is not owed to it.
    pub fn hold(&self, sink: SinkIndex) -> Option<Hold> {
        if !self.0.sinks.contains(sink) {
            return None;
        }
        self.0.state(sink).open.fetch_add(1, Ordering::Relaxed);
        Some(Hold { ack: self.clone(), sink, settled: false })
    }

    /// Closes the ticket's own hold of every sink, after the chain has run.
    pub fn finish(&self) {
        self.finish_for(self.0.sinks);
    }

    /// Closes the ticket's own hold of the sinks in `done`, after the chain to them has run. Each
    /// sink is finished once.
    pub fn finish_for(&self, done: SinkSet) {
        let sinks = self.0.sinks & done;
        sinks.iter().for_each(|sink| self.0.close(sink, Outcome::Delivered));
    }

    /// Returns the range undelivered: the source reads it again.
    pub fn give_back(&self) {
        self.0.sinks.iter().for_each(|sink| self.0.close(sink, Outcome::Returned));
    }
}

impl Debt {
    fn state(&self, sink: SinkIndex) -> &State {
        &self.states[self.sinks.rank(sink)]
    }

    fn close(&self, sink: SinkIndex, outcome: Outcome) {
        let state = self.state(sink);
        state.worst.fetch_max(outcome as u8, Ordering::Relaxed);
        if state.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            let worst = match state.worst.load(Ordering::Relaxed) {
                0 => Outcome::Delivered,
                1 => Outcome::Rejected,
                2 => Outcome::Returned,
                _ => Outcome::Abandoned,
            };
            self.ledger.settle(&self.issued, sink, worst);
        }
    }
}

impl Drop for Debt {
    fn drop(&mut self) {
        // A hold keeps the debt alive, so only the ticket's own can still be open here.
        for sink in self.sinks.iter() {
            if self.state(sink).open.load(Ordering::Acquire) > 0 {
                self.close(sink, Outcome::Abandoned);
            }
        }
    }
}

/// One payload's share of an acknowledgement, for one sink. Dropping it unsettled abandons the
/// range.
pub struct Hold {
    ack: Ack,
    sink: SinkIndex,
    settled: bool,
}

impl Hold {
    /// Whether the record at `offset` of `origin` is in the segment.
    pub fn covers(&self, origin: OriginId, offset: u64) -> bool {
        self.ack.0.issued.is_of(origin) && self.ack.range().contains(&offset)
    }

    /// Whether the debt is forgotten, or about to be, so that the segment will be read again.
    pub fn is_stale(&self) -> bool {
        self.ack.0.ledger.is_stale(&self.ack.0.issued, self.sink)
    }

    /// Whether a merge transform may count the segment: everything before it is counted.
    pub fn is_next(&self) -> bool {
        self.ack.0.ledger.is_next(&self.ack.0.issued, self.sink)
    }

    /// Notes that a merge transform has counted the segment.
    pub fn take(&self) {
        self.ack.0.ledger.take(&self.ack.0.issued, self.sink);
    }

    /// Opens another hold for the same segment and sink.
    pub fn split(&self) -> Option<Hold> {
        self.ack.hold(self.sink)
    }

    /// Closes the hold with the outcome of its payload.
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
