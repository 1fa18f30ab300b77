//! Holds: each payload's share of an acknowledgement.

mod entry;

pub use entry::EntryLedger;

use crate::ack::Ack;
use crate::origin::OriginId;
use crate::outcome::Outcome;
use crate::sinkset::SinkIndex;
use crate::trace::TracedDelivery;
use entry::EntryDebt;
use std::ops::Range;
use std::sync::Arc;

/// One payload's share of a debt: of a segment's acknowledgement for one sink, or of a disk buffer
/// entry. Dropping an unsettled hold abandons the segment or entry.
pub struct Hold {
    debt: Debt,
    settled: bool,
    /// Records the stages of the payload's delivery.
    traced: Option<Arc<TracedDelivery>>,
}

enum Debt {
    Segment(Ack, SinkIndex),
    Entry(Arc<EntryDebt>),
}

impl Ack {
    /// Opens another hold for `sink`; returns `None` if the segment is not owed to that sink.
    pub fn hold(&self, sink: SinkIndex) -> Option<Hold> {
        if !self.sinks().contains(sink) {
            return None;
        }
        self.open(sink);
        Some(Hold { debt: Debt::Segment(self.clone(), sink), settled: false, traced: None })
    }
}

impl Hold {
    /// Returns the origin and range that the hold covers; `None` for a disk buffer entry.
    pub fn range(&self) -> Option<(OriginId, Range<u64>)> {
        match &self.debt {
            Debt::Segment(ack, _) => Some((ack.origin(), ack.range())),
            Debt::Entry(_) => None,
        }
    }

    /// Returns whether the record at `offset` in `origin` belongs to the segment. Always true for a
    /// disk buffer entry, because a payload has at most one entry.
    pub fn covers(&self, origin: OriginId, offset: u64) -> bool {
        self.range().is_none_or(|(segment_origin, range)| {
            segment_origin == origin && range.contains(&offset)
        })
    }

    /// Returns whether the ledger has forgotten the debt, or is about to, so that the segment must
    /// be reread.
    pub fn is_stale(&self) -> bool {
        self.segment().is_some_and(|(ack, sink)| ack.is_stale(sink))
    }

    /// Returns whether a merge transform may count the segment, which is the case once everything
    /// before the segment is counted.
    pub fn is_next(&self) -> bool {
        self.segment().is_none_or(|(ack, sink)| ack.is_next(sink))
    }

    /// Records that a merge transform has counted the segment.
    pub fn take(&self) {
        if let Some((ack, sink)) = self.segment() {
            ack.take(sink);
        }
    }

    /// Opens another hold for the same segment and sink, or for the same disk buffer entry.
    pub fn split(&self) -> Option<Hold> {
        match &self.debt {
            Debt::Segment(ack, sink) => ack.hold(*sink),
            Debt::Entry(debt) => {
                debt.open();
                Some(Hold { debt: Debt::Entry(debt.clone()), settled: false, traced: None })
            }
        }
    }

    /// Attaches the trace of the hold's payload, if there is one.
    pub fn traced(self, traced: Option<Arc<TracedDelivery>>) -> Hold {
        let mut hold = self;
        hold.traced = traced;
        hold
    }

    /// Returns the trace of the payload, if there is one.
    pub fn trace(&self) -> Option<&Arc<TracedDelivery>> {
        self.traced.as_ref()
    }

    /// Closes the hold with the outcome of its payload.
    pub fn settle(mut self, outcome: Outcome) {
        self.settled = true;
        self.close(outcome);
    }

    fn segment(&self) -> Option<(&Ack, SinkIndex)> {
        match &self.debt {
            Debt::Segment(ack, sink) => Some((ack, *sink)),
            Debt::Entry(_) => None,
        }
    }

    fn close(&self, outcome: Outcome) {
        self.traced.iter().for_each(|traced| traced.settled(outcome));
        match &self.debt {
            Debt::Segment(ack, sink) => ack.close(*sink, outcome),
            Debt::Entry(debt) => debt.close(outcome),
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
