//! Accumulators that do not fit into words.

use crate::accumulators::Accumulator;
use crate::hll::Hll;
use crate::samples::Samples;
use crate::space_saving::SpaceSaving;
use millstream_encodings::binary::array;
use millstream_series::Sketch;

/// The state of an accumulator that does not fit into words. A group allocates the state for its
/// first value.
#[derive(Clone, Debug)]
pub enum Side {
    /// State of [`Accumulator::Distinct`].
    Distinct(Hll),
    /// State of [`Accumulator::Quantiles`].
    Quantiles(Box<Sketch>),
    /// State of [`Accumulator::Top`].
    Top(Box<SpaceSaving>),
    /// State of [`Accumulator::Samples`].
    Samples(Samples),
}

impl Side {
    /// Creates the initial state of an accumulator. Returns `None` if the accumulator does not use
    /// a side.
    pub fn new(accumulator: Accumulator) -> Option<Side> {
        match accumulator {
            Accumulator::Distinct => Some(Side::Distinct(Hll::default())),
            Accumulator::Quantiles => Some(Side::Quantiles(Box::default())),
            Accumulator::Top { size } => Some(Side::Top(Box::new(SpaceSaving::new(size)))),
            Accumulator::Samples { size } => Some(Side::Samples(Samples::new(size))),
            _ => None,
        }
    }

    /// Adds the values from another state of the same kind. A state of another kind is ignored.
    pub fn merge(&mut self, other: &Side) {
        match (self, other) {
            (Side::Distinct(into), Side::Distinct(from)) => into.merge(from),
            (Side::Quantiles(into), Side::Quantiles(from)) => into.merge(from),
            (Side::Top(into), Side::Top(from)) => into.merge(from),
            (Side::Samples(into), Side::Samples(from)) => into.merge(from),
            _ => {}
        }
    }

    /// Returns whether this state belongs to `accumulator` and has the same size.
    pub(crate) fn is_of(&self, accumulator: Accumulator) -> bool {
        let is_it = |side: Side| (side.kind(), side.size()) == (self.kind(), self.size());
        Side::new(accumulator).is_some_and(is_it)
    }

    /// Returns the maximum number of strings, if the kind has such a limit.
    fn size(&self) -> Option<u16> {
        match self {
            Side::Distinct(_) | Side::Quantiles(_) => None,
            Side::Top(top) => Some(top.size()),
            Side::Samples(samples) => Some(samples.size()),
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Side::Distinct(_) => 0,
            Side::Quantiles(_) => 1,
            Side::Top(_) => 2,
            Side::Samples(_) => 3,
        }
    }

    /// Appends the state to `out`: a byte for the kind, followed by the data.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(self.kind());
        match self {
            Side::Distinct(hll) => hll.write(out),
            Side::Quantiles(sketch) => sketch.write(out),
            Side::Top(top) => top.write(out),
            Side::Samples(samples) => samples.write(out),
        }
    }

    /// Takes a state that [`Side::write`] wrote from the front of `bytes`. Returns `None` if the
    /// state is damaged. Allocations are proportional to the number of bytes taken.
    pub fn read(bytes: &mut &[u8]) -> Option<Side> {
        match array(bytes)? {
            [0] => Hll::read(bytes).map(Side::Distinct),
            [1] => Sketch::read(bytes).map(|sketch| Side::Quantiles(Box::new(sketch))),
            [2] => SpaceSaving::read(bytes).map(|top| Side::Top(Box::new(top))),
            [3] => Samples::read(bytes).map(Side::Samples),
            _ => None,
        }
    }

    /// Returns the number of bytes that the state has allocated.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Side::Distinct(hll) => hll.memory_bytes(),
            Side::Quantiles(sketch) => size_of::<Sketch>() + sketch.memory_bytes(),
            Side::Top(top) => size_of::<SpaceSaving>() + top.memory_bytes(),
            Side::Samples(samples) => samples.memory_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(side: &Side) -> Vec<u8> {
        let mut out = Vec::new();
        side.write(&mut out);
        out
    }

    #[test]
    fn a_side_of_another_size_is_not_of_the_accumulator() {
        for [one, other] in [
            [Accumulator::Top { size: 4 }, Accumulator::Top { size: 9 }],
            [Accumulator::Samples { size: 2 }, Accumulator::Samples { size: 3 }],
        ] {
            let side = Side::read(&mut &written(&Side::new(other).unwrap())[..]).unwrap();
            assert!(side.is_of(other) && !side.is_of(one));
        }
    }

    #[test]
    fn an_error_above_what_the_counters_leave_is_refused() {
        let read = |size: u8, error: u8| {
            let bytes = [2, size, 2, 1, b'a', 7, error, 1, b'b', 5, 0];
            Side::read(&mut &bytes[..]).is_some()
        };
        // First with a free counter, and then without one.
        assert!(read(3, 0) && !read(3, 1));
        assert!(read(2, 5) && !read(2, 6));
    }
}
