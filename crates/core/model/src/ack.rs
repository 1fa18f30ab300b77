//! Acknowledgements: what the agent still owes a source for each segment, tracked per sink.

use crate::ledger::{Issued, Ledger};
use crate::origin::OriginId;
use crate::outcome::Outcome;
use crate::sinkset::{SinkIndex, SinkSet};
use crate::time::EngineTime;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// The acknowledgement for one segment. Clones share the same debt.
///
/// The acknowledgement counts open holds per sink. Each sink starts with one hold for the ticket,
/// which [`Ack::finish`] closes after the chain has run; [`Ack::hold`] opens another hold for each
/// payload. When a sink's last hold closes, the ledger receives the worst outcome. If the
/// acknowledgement is dropped while holds are open (a panic, a lost batch), the range is
/// *abandoned* for those sinks.
#[derive(Clone)]
pub struct Ack(Arc<Debt>);

struct Debt {
    ledger: Arc<Ledger>,
    issued: Issued,
    sinks: SinkSet,
    states: Box<[State]>,
}

/// The number of open holds on a debt, and the worst outcome among the closed holds.
pub(crate) struct State {
    open: AtomicU32,
    worst: AtomicU8,
}

impl State {
    /// Creates a state with one open hold.
    pub fn open() -> State {
        State { open: AtomicU32::new(1), worst: AtomicU8::new(0) }
    }

    /// Opens another hold.
    pub fn hold(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// Closes a hold; returns the worst outcome if this was the last open hold.
    pub fn close(&self, outcome: Outcome) -> Option<Outcome> {
        self.worst.fetch_max(outcome as u8, Ordering::Relaxed);
        let is_last = self.open.fetch_sub(1, Ordering::AcqRel) == 1;
        is_last.then(|| match self.worst.load(Ordering::Relaxed) {
            0 => Outcome::Delivered,
            1 => Outcome::Rejected,
            2 => Outcome::Returned,
            _ => Outcome::Abandoned,
        })
    }
}

impl Ledger {
    /// Records that `range` of `origin` was sent to `sinks`, and returns the acknowledgement for
    /// the range.
    ///
    /// Ranges with the same origin and sink do not overlap, except that a reread replaces the
    /// abandoned range. The origin must be open.
    pub fn issue(
        self: &Arc<Self>,
        origin: OriginId,
        range: Range<u64>,
        sinks: SinkSet,
        attempt: u8,
        now: EngineTime,
    ) -> Ack {
        let issued = self.record(origin, range, sinks, attempt, now);
        let states = sinks.iter().map(|_| State::open()).collect();
        Ack(Arc::new(Debt { ledger: self.clone(), issued, sinks, states }))
    }
}

impl Ack {
    /// Returns the sinks that must settle this segment.
    pub fn sinks(&self) -> SinkSet {
        self.0.sinks
    }

    /// Returns the range of offsets in the origin.
    pub fn range(&self) -> Range<u64> {
        self.0.issued.range.clone()
    }

    /// Returns how many times this range has been abandoned.
    pub fn attempt(&self) -> u8 {
        self.0.issued.attempt
    }

    /// Closes the ticket's hold for every sink, after the chain has run.
    pub fn finish(&self) {
        self.finish_for(self.0.sinks);
    }

    /// Closes the ticket's hold for the sinks in `done`, after the chain to them has run. Call this
    /// method once for each sink.
    pub fn finish_for(&self, done: SinkSet) {
        let sinks = self.0.sinks & done;
        sinks.iter().for_each(|sink| self.0.close(sink, Outcome::Delivered));
    }

    /// Returns the range undelivered, so that the source rereads it.
    pub fn give_back(&self) {
        self.0.sinks.iter().for_each(|sink| self.0.close(sink, Outcome::Returned));
    }

    /// Returns the id of the range's origin.
    pub(crate) fn origin(&self) -> OriginId {
        self.0.issued.origin()
    }

    /// Opens another hold for a sink that receives the segment.
    pub(crate) fn open(&self, sink: SinkIndex) {
        self.0.state(sink).hold();
    }

    /// Closes a hold for a sink that receives the segment.
    pub(crate) fn close(&self, sink: SinkIndex, outcome: Outcome) {
        self.0.close(sink, outcome);
    }

    /// Returns whether the ledger has forgotten this debt to a sink, or is about to.
    pub(crate) fn is_stale(&self, sink: SinkIndex) -> bool {
        self.0.ledger.is_stale(&self.0.issued, sink)
    }

    /// Returns whether a merge transform has counted everything before the segment.
    pub(crate) fn is_next(&self, sink: SinkIndex) -> bool {
        self.0.ledger.is_next(&self.0.issued, sink)
    }

    /// Records that a merge transform has counted the segment.
    pub(crate) fn take(&self, sink: SinkIndex) {
        self.0.ledger.take(&self.0.issued, sink);
    }
}

impl Debt {
    fn state(&self, sink: SinkIndex) -> &State {
        &self.states[self.sinks.rank(sink)]
    }

    fn close(&self, sink: SinkIndex, outcome: Outcome) {
        if let Some(worst) = self.state(sink).close(outcome) {
            self.ledger.settle(&self.issued, sink, worst);
        }
    }
}

impl Drop for Debt {
    fn drop(&mut self) {
        // A hold keeps the debt alive, so only the ticket's hold can still be open here.
        for sink in self.sinks.iter() {
            if self.state(sink).open.load(Ordering::Acquire) > 0 {
                self.close(sink, Outcome::Abandoned);
            }
        }
    }
}
