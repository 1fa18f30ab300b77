//! A set of sinks, as one machine word.

use std::fmt;
use std::ops::{BitAnd, BitOr, Sub};

/// Sinks by their index in the topology (below [`crate::limits::SINKS_MAX`]).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct SinkSet(u64);

impl SinkSet {
    /// No sink.
    pub const EMPTY: SinkSet = SinkSet(0);

    /// The set of one sink.
    pub fn one(sink: usize) -> Self {
        debug_assert!(sink < crate::limits::SINKS_MAX);
        SinkSet(1 << sink)
    }

    /// Whether the sink is in the set.
    pub fn contains(self, sink: usize) -> bool {
        self.0 & (1 << sink) != 0
    }

    /// Whether every sink of `self` is in `other`.
    pub fn is_subset(self, other: SinkSet) -> bool {
        self.0 & !other.0 == 0
    }

    /// Whether the set has no sink.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Number of sinks.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Place of `sink` among the members, counted from the lowest index.
    pub fn rank(self, sink: usize) -> usize {
        (self.0 & ((1u64 << sink) - 1)).count_ones() as usize
    }

    /// The members, lowest index first.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            (rest != 0).then(|| {
                let sink = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                sink
            })
        })
    }
}

impl BitOr for SinkSet {
    type Output = SinkSet;
    fn bitor(self, other: SinkSet) -> SinkSet {
        SinkSet(self.0 | other.0)
    }
}

impl BitAnd for SinkSet {
    type Output = SinkSet;
    fn bitand(self, other: SinkSet) -> SinkSet {
        SinkSet(self.0 & other.0)
    }
}

impl Sub for SinkSet {
    type Output = SinkSet;
    fn sub(self, other: SinkSet) -> SinkSet {
        SinkSet(self.0 & !other.0)
    }
}

impl FromIterator<usize> for SinkSet {
    fn from_iter<T: IntoIterator<Item = usize>>(sinks: T) -> Self {
        sinks.into_iter().fold(SinkSet::EMPTY, |set, sink| set | SinkSet::one(sink))
    }
}

impl fmt::Debug for SinkSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
