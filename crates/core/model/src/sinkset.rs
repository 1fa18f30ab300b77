//! A set of sinks, as one machine word.

use crate::limits::SINKS_MAX;
use std::fmt;
use std::ops::{BitAnd, BitOr, Sub};

/// Index of a sink in sink sets, below [`SINKS_MAX`]. A sink keeps its index across reloads.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SinkIndex(u8);

const _: () = assert!(SINKS_MAX <= u64::BITS as usize);

impl SinkIndex {
    /// Creates an index.
    ///
    /// # Panics
    ///
    /// Panics if `index` is not below [`SINKS_MAX`].
    pub fn new(index: usize) -> SinkIndex {
        assert!(index < SINKS_MAX, "the index of a sink is below {SINKS_MAX}");
        SinkIndex(index as u8)
    }

    /// Returns all indices, in order.
    pub fn all() -> impl Iterator<Item = SinkIndex> {
        (0..SINKS_MAX).map(SinkIndex::new)
    }
}

impl fmt::Debug for SinkIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A set of sinks, identified by their indices.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct SinkSet(u64);

impl SinkSet {
    /// The empty set.
    pub const EMPTY: SinkSet = SinkSet(0);

    /// Returns the set that contains only `sink`.
    pub fn one(sink: SinkIndex) -> Self {
        SinkSet(1 << sink.0)
    }

    /// Returns whether the sink is in the set.
    pub fn contains(self, sink: SinkIndex) -> bool {
        self.0 & (1 << sink.0) != 0
    }

    /// Returns whether every sink in `self` is in `other`.
    pub fn is_subset(self, other: SinkSet) -> bool {
        self.0 & !other.0 == 0
    }

    /// Returns whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the number of sinks.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns the number of members with a lower index than `sink`.
    pub fn rank(self, sink: SinkIndex) -> usize {
        (self.0 & ((1u64 << sink.0) - 1)).count_ones() as usize
    }

    /// Returns the members, lowest index first.
    pub fn iter(self) -> impl Iterator<Item = SinkIndex> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            (rest != 0).then(|| {
                let sink = SinkIndex(rest.trailing_zeros() as u8);
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

impl FromIterator<SinkIndex> for SinkSet {
    fn from_iter<T: IntoIterator<Item = SinkIndex>>(sinks: T) -> Self {
        sinks.into_iter().fold(SinkSet::EMPTY, |set, sink| set | SinkSet::one(sink))
    }
}

impl fmt::Debug for SinkSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
