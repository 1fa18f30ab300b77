//! Cuts in a chain: serial and offload transforms, where a ticket waits and continues as a separate
//! step.
//!
//! What waits at a cut keeps memory. Each source has a share of it at each of its cuts; without
//! capacity there, the sinks behind the cut count as full for this source, so that a stuck
//! transform costs other branches and sources no more than that share.

use crate::since::Since;
use crate::ticket::Arrival;
use millstream_model::{EngineTime, SinkSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Cuts of a source, by index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CutSet(u64);

impl CutSet {
    /// Most cuts in the chain of a source.
    pub const CUTS_MAX: usize = 64;

    /// Adds a cut.
    pub fn add(&mut self, cut: usize) {
        self.0 |= 1 << cut;
    }

    /// Whether the cut is in the set.
    pub fn contains(self, cut: usize) -> bool {
        self.0 & 1 << cut != 0
    }

    /// Whether every cut of `self` is in `other`.
    pub fn is_subset(self, other: CutSet) -> bool {
        self.0 & !other.0 == 0
    }
}

/// A cut in the chain of one source.
pub(crate) struct Cut {
    /// Its node.
    pub node: usize,
    /// The sinks behind it.
    pub downstream: SinkSet,
    /// Cuts of the source that lead to it.
    pub upstream: CutSet,
    /// Whether every sink behind it drops events when it is full; then so does the cut.
    pub sheds: bool,
    /// Bytes that may wait here. A single batch always fits.
    pub share: u64,
    /// Bytes that batches here keep from other data.
    held: AtomicU64,
    tickets: AtomicU64,
    full_since: Since,
}

impl Cut {
    /// Creates a cut where up to `share` bytes may wait.
    pub fn new(node: usize, downstream: SinkSet, upstream: CutSet, share: u64) -> Cut {
        let (held, tickets, full_since) = Default::default();
        Cut { node, downstream, upstream, sheds: false, share, held, tickets, full_since }
    }

    /// Counts batches that begin to wait.
    pub fn enter(&self, arrival: &Arrival) {
        self.held.fetch_add(arrival.bytes, Ordering::Relaxed);
        self.tickets.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts batches that continue; returns whether the cut was full.
    pub fn leave(&self, arrival: &Arrival) -> bool {
        self.tickets.fetch_sub(1, Ordering::Relaxed);
        self.held.fetch_sub(arrival.bytes, Ordering::Relaxed) >= self.share
    }

    /// Returns the number of tickets that wait here.
    pub fn tickets(&self) -> u64 {
        self.tickets.load(Ordering::Relaxed)
    }

    /// Returns the bytes that batches here keep from other data.
    #[cfg(test)]
    pub fn bytes(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether no more may wait here.
    pub fn is_full(&self) -> bool {
        self.held.load(Ordering::Relaxed) >= self.share
    }

    /// Returns how long it has had no capacity; `None` if it has some. A cut that drops always has.
    pub fn full_for(&self, now: EngineTime) -> Option<Duration> {
        self.full_since.update(self.is_full() && !self.sheds, now)
    }
}
