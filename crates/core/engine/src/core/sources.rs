//! The sources of a topology.

use super::{SinkSlot, SourceSlot};
use crate::cut::Cut;
use crate::index::{NodeIndex, SourceIndex};
use crate::scheduler::{PollOrder, Scheduler};
use millstream_model::SinkSet;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A topology's sources, and the scheduler that polls them.
pub(crate) struct Sources {
    slots: Vec<SourceSlot>,
    scheduler: Arc<Scheduler>,
}

impl Sources {
    /// Creates the sources. The scheduler polls them once they are [wired](Sources::wire).
    pub fn new(slots: Vec<SourceSlot>, scheduler: Arc<Scheduler>) -> Sources {
        Sources { slots, scheduler }
    }

    /// Returns a source.
    pub fn get(&self, index: SourceIndex) -> &SourceSlot {
        &self.slots[index.get()]
    }

    /// Returns a source; `None` if the index is from another topology.
    pub fn find(&self, index: SourceIndex) -> Option<&SourceSlot> {
        self.slots.get(index.get())
    }

    /// Returns the sources, in order.
    pub fn iter(&self) -> impl Iterator<Item = &SourceSlot> {
        self.slots.iter()
    }

    /// Returns the sources with their indices, in order.
    pub fn indexed(&self) -> impl Iterator<Item = (SourceIndex, &SourceSlot)> {
        self.slots.iter().enumerate().map(|(index, slot)| (SourceIndex::new(index), slot))
    }

    /// Passes the sources to the scheduler. All of them are ready to be polled.
    pub fn wire(&self) {
        let order = |slot: &SourceSlot| PollOrder {
            priority: slot.pace.priority,
            is_live: slot.traits.is_live,
        };
        self.scheduler.rewire(self.slots.iter().map(order).collect());
    }

    /// Lets closed sources continue reading.
    pub fn reopen(&self) {
        for (index, slot) in self.indexed() {
            slot.source().lock().reopen();
            self.scheduler.wake(index);
        }
    }

    /// Returns whether every ticket from every source is released, and no source is being polled.
    pub fn are_drained(&self) -> bool {
        !self.scheduler.is_polling() && self.slots.iter().all(SourceSlot::is_drained)
    }

    /// Returns whether nothing more will be read for a sink.
    pub fn has_input_ended(&self, sink: &SinkSlot) -> bool {
        self.indexed()
            .all(|(index, slot)| !slot.reaches(sink.index) || self.has_delivered_all(index))
    }

    /// Returns whether a source has ended and all its tickets are released.
    pub fn has_delivered_all(&self, index: SourceIndex) -> bool {
        self.scheduler.has_ended(index) && self.get(index).is_drained()
    }

    /// Returns whether a sink has settled everything that was read for it.
    pub fn is_settled(&self, sink: &SinkSlot) -> bool {
        self.slots.iter().all(|slot| slot.ledger.progress(sink.index).unsettled == 0)
    }

    /// Returns the sinks in `all` that can still get payloads without a new poll.
    pub fn expected_sinks(&self, all: SinkSet) -> SinkSet {
        if self.scheduler.is_polling() {
            return all;
        }
        self.slots.iter().fold(SinkSet::EMPTY, |open, slot| open | slot.open_sinks())
    }

    /// Returns the sinks downstream of feeds that have not ended.
    pub fn fed_sinks(&self) -> SinkSet {
        let mut sinks = SinkSet::EMPTY;
        for (index, slot) in self.indexed() {
            if slot.fed.is_some() && !self.scheduler.has_ended(index) {
                sinks = sinks | slot.wiring.downstream;
            }
        }
        sinks
    }

    /// Returns the cuts of all sources.
    pub fn cuts(&self) -> impl Iterator<Item = &Cut> {
        self.slots.iter().flat_map(|slot| &slot.wiring.cuts)
    }

    /// Returns the cuts of all sources at a node.
    pub fn cuts_at(&self, node: NodeIndex) -> impl Iterator<Item = &Cut> {
        self.cuts().filter(move |cut| cut.node == node)
    }

    /// Returns the nodes where tickets are waiting.
    pub fn waiting_at(&self) -> BTreeSet<NodeIndex> {
        self.cuts().filter(|cut| cut.tickets() > 0).map(|cut| cut.node).collect()
    }
}
