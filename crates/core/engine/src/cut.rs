//! Cuts in a chain: serial and offload transforms, where a ticket waits and continues as a separate
//! step.
//!
//! Tickets that wait at a cut occupy memory. Each source has a share of the memory at each of its
//! cuts, and each transform has a share across all sources. When a share is used up, the sinks
//! after the cut are treated as full. A stuck transform therefore costs other branches and sources
//! no more than its share. A ticket counts from the moment it is issued.

use crate::index::{CutIndex, NodeIndex};
use crate::limits::CUTS_MAX;
use crate::since::Since;
use millstream_model::{EngineTime, SinkSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A set of a source's cuts, by index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CutSet(u64);

const _: () = assert!(CUTS_MAX <= u64::BITS as usize);

impl CutSet {
    /// Adds a cut.
    pub fn add(&mut self, cut: CutIndex) {
        self.0 |= 1 << cut.get();
    }

    /// Returns whether the cut is in the set.
    pub fn contains(self, cut: CutIndex) -> bool {
        self.0 & 1 << cut.get() != 0
    }

    /// Returns whether every cut in `self` is also in `other`.
    pub fn is_subset(self, other: CutSet) -> bool {
        self.0 & !other.0 == 0
    }
}

/// The sinks of a ticket, and the memory that it occupies at the cuts on its path.
#[derive(Clone, Copy)]
pub(crate) struct Claim {
    /// The batch's sinks. The ticket counts at the cuts upstream of these sinks.
    pub sinks: SinkSet,
    /// Bytes that the ticket occupies: the block, and the memory for the chain's output.
    pub bytes: u64,
}

/// The number of tickets that are on their way to a cut or waiting there, and the bytes that they
/// occupy.
#[derive(Default)]
pub(crate) struct Load {
    bytes: AtomicU64,
    tickets: AtomicU64,
    /// Whether the log has reported that tickets have been waiting for a long time.
    is_reported: AtomicBool,
}

impl Load {
    /// Records whether tickets have been waiting for a long time; returns whether that has changed.
    pub fn report(&self, waits: bool) -> bool {
        self.is_reported.swap(waits, Ordering::Relaxed) != waits
    }

    fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.tickets.fetch_add(1, Ordering::Relaxed);
    }

    fn subtract(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.tickets.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Limits on the tickets that are on their way to a cut or wait there. A single ticket always fits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CutLimits {
    /// Maximum bytes for one source.
    pub source_bytes: u64,
    /// Maximum bytes for all sources.
    pub bytes: u64,
    /// Maximum number of tickets for all sources. More tickets would not make an offload transform
    /// faster, and a reload waits for all of them.
    pub tickets: u64,
}

/// The values that a new cut needs.
pub(crate) struct NewCut {
    pub node: NodeIndex,
    pub downstream: SinkSet,
    pub upstream: CutSet,
    pub sheds: bool,
    pub limits: CutLimits,
    /// Load from all sources.
    pub total: Arc<Load>,
}

/// A cut in one source's chain.
pub(crate) struct Cut {
    /// The node of the serial or offload transform.
    pub node: NodeIndex,
    /// The sinks after the cut.
    pub downstream: SinkSet,
    /// The source's cuts upstream of this cut.
    pub upstream: CutSet,
    /// Whether every sink after the cut drops events when it is full. The cut then also drops
    /// events.
    pub sheds: bool,
    limits: CutLimits,
    /// Load from this source.
    own: Load,
    /// Load from all sources.
    total: Arc<Load>,
    /// Number of this source's tickets that are waiting at the cut.
    waiting: AtomicU64,
    full_since: Since,
}

impl Cut {
    /// Creates a cut without any tickets from its source. `total` may already contain tickets from
    /// other sources.
    pub fn new(new: NewCut) -> Cut {
        let NewCut { node, downstream, upstream, sheds, limits, total } = new;
        Cut {
            node,
            downstream,
            upstream,
            sheds,
            limits,
            own: Load::default(),
            total,
            waiting: AtomicU64::new(0),
            full_since: Since::default(),
        }
    }

    /// Counts a ticket if it will pass the cut.
    pub fn expect(&self, claim: Claim) {
        if self.is_for(claim) {
            self.own.add(claim.bytes);
            self.total.add(claim.bytes);
        }
    }

    /// Stops counting a ticket that has passed the cut; returns whether the cut was full before.
    pub fn pass(&self, claim: Claim) -> bool {
        let was_full = self.is_full();
        if self.is_for(claim) {
            self.own.subtract(claim.bytes);
            self.total.subtract(claim.bytes);
        }
        was_full
    }

    fn is_for(&self, claim: Claim) -> bool {
        !(self.downstream & claim.sinks).is_empty()
    }

    /// Counts a ticket that begins to wait.
    pub fn enter(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// Stops counting a ticket that no longer waits.
    pub fn leave(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the number of tickets that are waiting here.
    pub fn tickets(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Returns the bytes that this source's tickets occupy.
    #[cfg(test)]
    pub fn bytes(&self) -> u64 {
        self.own.bytes.load(Ordering::Relaxed)
    }

    /// Returns the maximum bytes that this source's tickets may occupy.
    #[cfg(test)]
    pub fn bytes_max(&self) -> u64 {
        self.limits.source_bytes
    }

    /// Returns whether there was no room for a ticket that is already counted. A single ticket
    /// always fits.
    pub fn is_overfull(&self, claim: Claim) -> bool {
        let before = |load: &Load| load.bytes.load(Ordering::Relaxed).saturating_sub(claim.bytes);
        before(&self.own) >= self.limits.source_bytes
            || before(&self.total) >= self.limits.bytes
            || self.total.tickets.load(Ordering::Relaxed) > self.limits.tickets
    }

    /// Returns whether the cut has no capacity for more tickets.
    pub fn is_full(&self) -> bool {
        self.own.bytes.load(Ordering::Relaxed) >= self.limits.source_bytes
            || self.total.bytes.load(Ordering::Relaxed) >= self.limits.bytes
            || self.total.tickets.load(Ordering::Relaxed) >= self.limits.tickets
    }

    /// Returns how long the cut has had no capacity; `None` if it has capacity. A cut that drops
    /// events always has capacity.
    pub fn full_for(&self, now: EngineTime) -> Option<Duration> {
        self.full_since.update(self.is_full() && !self.sheds, now)
    }
}
