//! Acknowledgements: what a segment owes to its source, settled sink by sink.

mod entry;

pub use entry::EntryLedger;

use crate::ledger::{Issued, Ledger};
use crate::origin::OriginId;
use crate::sinkset::{SinkIndex, SinkSet};
use crate::trace::TracedDelivery;
use entry::EntryDebt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// The result of delivering a byte range to one sink. Variants are ordered by severity: a range
/// with several outcomes ends with the worst outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Outcome {
    /// Durable at the endpoint, or dropped on purpose by the configuration.
    Delivered = 0,
    /// Rejected permanently, and counted with a reason.
    Rejected = 1,
    /// Returned undelivered for a reason unrelated to the range; the source reads the range again.
    Returned = 2,
    /// Lost without an answer, possibly because of its content. The source reads the range again.
    /// If the range is lost repeatedly, the source bisects it down to the line that causes the
    /// loss.
    Abandoned = 3,
}

/// The acknowledgement of one segment. Clones share the same debt.
///
/// The acknowledgement counts open holds per sink. Each sink starts with one hold for the ticket,
/// which [`Ack::finish`] closes when the chain has run; [`Ack::hold`] opens another hold for each
/// payload. When the last hold of a sink closes, the ledger gets the worst outcome. If the
/// acknowledgement drops while holds are open (a panic, a lost batch), the range is *abandoned* for
/// those sinks.
#[derive(Clone)]
pub struct Ack(Arc<Debt>);

struct Debt {
    ledger: Arc<Ledger>,
    issued: Issued,
    sinks: SinkSet,
    states: Box<[State]>,
}

/// Open holds, and the worst outcome of the closed holds.
struct State {
    open: AtomicU32,
    worst: AtomicU8,
}

impl State {
    /// Creates a state with one open hold.
    fn open() -> State {
        State { open: AtomicU32::new(1), worst: AtomicU8::new(0) }
    }

    /// Closes a hold; returns the worst outcome if this was the last open hold.
    fn close(&self, outcome: Outcome) -> Option<Outcome> {
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

impl Ack {
    /// Creates the acknowledgement of a range that [`Ledger::issue`] has recorded as open.
    pub(crate) fn new(ledger: Arc<Ledger>, issued: Issued, sinks: SinkSet) -> Ack {
        let states = sinks.iter().map(|_| State::open()).collect();
        Ack(Arc::new(Debt { ledger, issued, sinks, states }))
    }

    /// Returns the sinks that must settle this segment.
    pub fn sinks(&self) -> SinkSet {
        self.0.sinks
    }

    /// Returns the range of offsets in the origin.
    pub fn range(&self) -> Range<u64> {
        self.0.issued.range.clone()
    }

    /// Returns how often this range was abandoned before.
    pub fn attempt(&self) -> u8 {
        self.0.issued.attempt
    }

    /// Opens another hold for `sink`; returns `None` if the segment is not owed to that sink.
    pub fn hold(&self, sink: SinkIndex) -> Option<Hold> {
        if !self.0.sinks.contains(sink) {
            return None;
        }
        self.0.state(sink).open.fetch_add(1, Ordering::Relaxed);
        Some(Hold { of: HoldOf::Segment(self.clone(), sink), settled: false, traced: None })
    }

    /// Closes the ticket's hold of every sink, after the chain has run.
    pub fn finish(&self) {
        self.finish_for(self.0.sinks);
    }

    /// Closes the ticket's hold of the sinks in `done`, after the chain to them has run. Call it
    /// once per sink.
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

/// One payload's share of the acknowledgement of a segment for one sink, or of an entry in a disk
/// buffer. Dropping an unsettled hold abandons the segment or entry.
pub struct Hold {
    of: HoldOf,
    settled: bool,
    /// Records the stages of the payload's delivery.
    traced: Option<Arc<TracedDelivery>>,
}

enum HoldOf {
    Segment(Ack, SinkIndex),
    Entry(Arc<EntryDebt>),
}

impl Hold {
    /// Returns the origin and range that the hold covers; `None` for an entry.
    pub fn range(&self) -> Option<(OriginId, Range<u64>)> {
        match &self.of {
            HoldOf::Segment(ack, _) => Some((ack.0.issued.origin(), ack.range())),
            HoldOf::Entry(_) => None,
        }
    }

    /// Returns whether the record at `offset` of `origin` belongs to the segment. Always true for
    /// an entry, because a payload has only one entry.
    pub fn covers(&self, origin: OriginId, offset: u64) -> bool {
        self.range().is_none_or(|(of, range)| of == origin && range.contains(&offset))
    }

    /// Returns whether the ledger has forgotten the debt, or is about to, so that the segment will
    /// be read again.
    pub fn is_stale(&self) -> bool {
        self.segment().is_some_and(|(ack, sink)| ack.0.ledger.is_stale(&ack.0.issued, sink))
    }

    /// Returns whether a merge transform may count the segment: everything before the segment is
    /// counted.
    pub fn is_next(&self) -> bool {
        self.segment().is_none_or(|(ack, sink)| ack.0.ledger.is_next(&ack.0.issued, sink))
    }

    /// Notes that a merge transform has counted the segment.
    pub fn take(&self) {
        if let Some((ack, sink)) = self.segment() {
            ack.0.ledger.take(&ack.0.issued, sink);
        }
    }

    /// Opens another hold for the same segment and sink, or the same entry.
    pub fn split(&self) -> Option<Hold> {
        match &self.of {
            HoldOf::Segment(ack, sink) => ack.hold(*sink),
            HoldOf::Entry(debt) => {
                debt.open();
                Some(Hold { of: HoldOf::Entry(debt.clone()), settled: false, traced: None })
            }
        }
    }

    /// Returns the same hold, with a trace of its payload.
    pub fn traced(self, traced: Option<Arc<TracedDelivery>>) -> Hold {
        let mut hold = self;
        hold.traced = traced;
        hold
    }

    /// Returns the trace of the payload.
    pub fn trace(&self) -> Option<&Arc<TracedDelivery>> {
        self.traced.as_ref()
    }

    /// Closes the hold with the outcome of its payload.
    pub fn settle(mut self, outcome: Outcome) {
        self.settled = true;
        self.close(outcome);
    }

    fn segment(&self) -> Option<(&Ack, SinkIndex)> {
        match &self.of {
            HoldOf::Segment(ack, sink) => Some((ack, *sink)),
            HoldOf::Entry(_) => None,
        }
    }

    fn close(&self, outcome: Outcome) {
        self.traced.iter().for_each(|traced| traced.settled(outcome));
        match &self.of {
            HoldOf::Segment(ack, sink) => ack.0.close(*sink, outcome),
            HoldOf::Entry(debt) => debt.close(outcome),
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.settled {
            self.close(Outcome::Abandoned);
        }
    }
}
