//! Accumulators that are larger than some words.

use crate::accumulators::Accumulator;
use crate::bytes::array;
use crate::hll::Hll;
use crate::samples::Samples;
use crate::space_saving::SpaceSaving;
use millstream_series::Sketch;

/// The state of an accumulator that does not fit into words. A group has it from its first value
/// on.
#[derive(Clone, Debug)]
pub enum Side {
    /// Of [`Accumulator::Distinct`].
    Distinct(Hll),
    /// Of [`Accumulator::Quantiles`].
    Quantiles(Box<Sketch>),
    /// Of [`Accumulator::Top`].
    Top(Box<SpaceSaving>),
    /// Of [`Accumulator::Samples`].
    Samples(Samples),
}

impl Side {
    /// Creates the state of an accumulator without values; `None` if its words are all it has.
    pub fn new(accumulator: Accumulator) -> Option<Side> {
        match accumulator {
            Accumulator::Distinct => Some(Side::Distinct(Hll::default())),
            Accumulator::Quantiles => Some(Side::Quantiles(Box::default())),
            Accumulator::Top { size } => Some(Side::Top(Box::new(SpaceSaving::new(size)))),
            Accumulator::Samples { size } => Some(Side::Samples(Samples::new(size))),
            _ => None,
        }
    }

    /// Adds the values of another state of the same kind; one of another kind changes nothing.
    pub fn merge(&mut self, other: &Side) {
        match (self, other) {
            (Side::Distinct(into), Side::Distinct(from)) => into.merge(from),
            (Side::Quantiles(into), Side::Quantiles(from)) => into.merge(from),
            (Side::Top(into), Side::Top(from)) => into.merge(from),
            (Side::Samples(into), Side::Samples(from)) => into.merge(from),
            _ => {}
        }
    }

    /// Whether it is a state of this accumulator.
    pub(crate) fn is_of(&self, accumulator: Accumulator) -> bool {
        Side::new(accumulator).is_some_and(|side| side.kind() == self.kind())
    }

    fn kind(&self) -> u8 {
        match self {
            Side::Distinct(_) => 0,
            Side::Quantiles(_) => 1,
            Side::Top(_) => 2,
            Side::Samples(_) => 3,
        }
    }

    /// Appends it to `out`: a byte for its kind, then what the kind writes.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(self.kind());
        match self {
            Side::Distinct(hll) => hll.write(out),
            Side::Quantiles(sketch) => sketch.write(out),
            Side::Top(top) => top.write(out),
            Side::Samples(samples) => samples.write(out),
        }
    }

    /// Takes what [`Side::write`] wrote from the front of `bytes`; `None` if it is damaged. What it
    /// allocates is in proportion to the bytes that it takes.
    pub fn read(bytes: &mut &[u8]) -> Option<Side> {
        match array(bytes)? {
            [0] => Hll::read(bytes).map(Side::Distinct),
            [1] => Sketch::read(bytes).map(|sketch| Side::Quantiles(Box::new(sketch))),
            [2] => SpaceSaving::read(bytes).map(|top| Side::Top(Box::new(top))),
            [3] => Samples::read(bytes).map(Side::Samples),
            _ => None,
        }
    }

    /// Returns the bytes that it has allocated.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Side::Distinct(hll) => hll.memory_bytes(),
            Side::Quantiles(sketch) => size_of::<Sketch>() + sketch.memory_bytes(),
            Side::Top(top) => size_of::<SpaceSaving>() + top.memory_bytes(),
            Side::Samples(samples) => samples.memory_bytes(),
        }
    }
}
