//! The state that a group keeps for its inputs, and the layout of the state in words.

/// The state that a group keeps for one input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Accumulator {
    /// The number of events, in one word. Saturates.
    Count,
    /// The sum of finite values, as the bits of a float. NaN if there are no values. A sum that
    /// becomes infinite stays infinite.
    Sum,
    /// The smallest value, as the bits of a float. NaN if there are no values.
    Min,
    /// The largest value, as the bits of a float. NaN if there are no values.
    Max,
    /// The value of the latest event, in four words: the bits of a float, the time in nanoseconds
    /// since 1970, and the origin and offset, which order events with equal times. The value is NaN
    /// if there are no events.
    Last,
    /// The number of distinct values, as an [`Hll`](crate::Hll).
    Distinct,
    /// The distribution of values, as a [`Sketch`](millstream_series::Sketch).
    Quantiles,
    /// The most frequent strings, as [`SpaceSaving`](crate::SpaceSaving) counters.
    Top {
        /// Maximum number of counters.
        size: u16,
    },
    /// The earliest events, as [`Samples`](crate::Samples).
    Samples {
        /// Maximum number of events.
        size: u16,
    },
}

/// How the first word of an accumulator is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Merging {
    Count,
    Sum,
    Min,
    Max,
    Last,
    /// The word refers to a side, which is merged separately.
    Side,
}

/// A sequence of accumulators that are merged in the same way.
#[derive(Clone, Copy, Debug)]
struct Run {
    merging: Merging,
    from: usize,
    to: usize,
}

impl Accumulator {
    /// Returns the number of words that the accumulator takes in a group.
    pub const fn words(self) -> usize {
        if matches!(self, Accumulator::Last) { LAST_WORDS } else { 1 }
    }

    /// Returns whether the accumulator's word refers to a [`Side`](crate::Side).
    pub const fn is_side(self) -> bool {
        matches!(self.merging(), Merging::Side)
    }

    const fn merging(self) -> Merging {
        match self {
            Accumulator::Count => Merging::Count,
            Accumulator::Sum => Merging::Sum,
            Accumulator::Min => Merging::Min,
            Accumulator::Max => Merging::Max,
            Accumulator::Last => Merging::Last,
            _ => Merging::Side,
        }
    }

    /// Returns the number that identifies the accumulator in snapshots.
    pub(crate) fn code(self) -> u32 {
        let (code, size) = match self {
            Accumulator::Count => (0, 0),
            Accumulator::Sum => (1, 0),
            Accumulator::Min => (2, 0),
            Accumulator::Max => (3, 0),
            Accumulator::Last => (4, 0),
            Accumulator::Distinct => (5, 0),
            Accumulator::Quantiles => (6, 0),
            Accumulator::Top { size } => (7, size),
            Accumulator::Samples { size } => (8, size),
        };
        u32::from(size) << 8 | code
    }
}

const LAST_WORDS: usize = 4;

/// The bits of NaN, for words without a value.
const NO_VALUE: u64 = f64::NAN.to_bits();

/// The layout of a group's words.
#[derive(Clone, Debug)]
pub struct Layout {
    accumulators: Vec<Accumulator>,
    offsets: Vec<usize>,
    runs: Vec<Run>,
    fresh: Vec<u64>,
}

impl Layout {
    /// Lays out the words of these accumulators in order.
    pub fn new(accumulators: &[Accumulator]) -> Layout {
        let (mut offsets, mut runs, mut fresh) = (Vec::new(), Vec::<Run>::new(), Vec::new());
        for accumulator in accumulators {
            let (merging, from) = (accumulator.merging(), fresh.len());
            offsets.push(from);
            fresh.extend_from_slice(empty(merging));
            match runs.last_mut() {
                Some(run) if run.merging == merging => run.to = fresh.len(),
                _ => runs.push(Run { merging, from, to: fresh.len() }),
            }
        }
        Layout { accumulators: accumulators.to_vec(), offsets, runs, fresh }
    }

    /// Returns the number of words per group.
    #[inline]
    pub fn words(&self) -> usize {
        self.fresh.len()
    }

    /// Returns the accumulators in order.
    pub fn accumulators(&self) -> &[Accumulator] {
        &self.accumulators
    }

    /// Returns the index of the first word of each accumulator.
    pub fn offsets(&self) -> &[usize] {
        &self.offsets
    }

    /// Writes the initial words of a group. The slice must have [`Layout::words`] words.
    #[inline]
    pub fn fresh(&self, words: &mut [u64]) {
        words.copy_from_slice(&self.fresh);
    }

    /// Merges the words of a group with other words for the same group. References to sides do not
    /// change. Both slices must have [`Layout::words`] words; additional words are ignored.
    #[inline]
    pub fn merge_words(&self, into: &mut [u64], from: &[u64]) {
        for run in &self.runs {
            let Some(into) = into.get_mut(run.from..run.to) else { return };
            let Some(from) = from.get(run.from..run.to) else { return };
            match run.merging {
                Merging::Count => each(into, from, u64::saturating_add),
                Merging::Sum => each(into, from, of_floats(sum)),
                Merging::Min => each(into, from, of_floats(f64::min)),
                Merging::Max => each(into, from, of_floats(f64::max)),
                Merging::Last => last(into, from),
                Merging::Side => {}
            }
        }
    }
}

/// Returns the initial words of one accumulator.
fn empty(merging: Merging) -> &'static [u64] {
    match merging {
        Merging::Count | Merging::Side => &[0],
        Merging::Sum | Merging::Min | Merging::Max => &[NO_VALUE],
        Merging::Last => &[NO_VALUE, i64::MIN as u64, 0, 0],
    }
}

#[inline(always)]
fn each(into: &mut [u64], from: &[u64], merge: impl Fn(u64, u64) -> u64) {
    for (into, from) in into.iter_mut().zip(from) {
        *into = merge(*into, *from);
    }
}

#[inline(always)]
fn of_floats(merge: impl Fn(f64, f64) -> f64) -> impl Fn(u64, u64) -> u64 {
    move |one, other| merge(f64::from_bits(one), f64::from_bits(other)).to_bits()
}

/// Adds two sums. If one of the sums is NaN, the result is the other sum. If they are infinities
/// with opposite signs, the result is positive infinity. The order of the arguments does not
/// matter.
#[inline(always)]
fn sum(one: f64, other: f64) -> f64 {
    let sum = one + other;
    if sum.is_nan() { one.max(other) } else { sum }
}

/// For each accumulator in a run, keeps the later of two values.
#[inline(always)]
fn last(into: &mut [u64], from: &[u64]) {
    let from = from.as_chunks::<LAST_WORDS>().0;
    for (into, from) in into.as_chunks_mut::<LAST_WORDS>().0.iter_mut().zip(from) {
        let is_later = rank(from) > rank(into);
        for (into, from) in into.iter_mut().zip(from) {
            *into = if is_later { *from } else { *into };
        }
    }
}

/// Returns the sort key for last values. The value itself is the last component, so that the result
/// never depends on the order of merges.
#[inline(always)]
fn rank([value, time, origin, offset]: &[u64; LAST_WORDS]) -> (bool, i64, u64, u64, u64) {
    (!f64::from_bits(*value).is_nan(), *time as i64, *origin, *offset, *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(accumulator: Accumulator, one: &[u64], other: &[u64]) -> Vec<u64> {
        let mut into = one.to_vec();
        Layout::new(&[accumulator]).merge_words(&mut into, other);
        into
    }

    fn merged_floats(accumulator: Accumulator, one: f64, other: f64) -> f64 {
        f64::from_bits(merged(accumulator, &[one.to_bits()], &[other.to_bits()])[0])
    }

    #[test]
    fn accumulators_have_words_in_their_order() {
        use Accumulator::*;
        let layout = Layout::new(&[Count, Last, Sum, Distinct, Max]);
        assert_eq!((layout.words(), layout.offsets()), (8, &[0, 1, 5, 6, 7][..]));
        let mut words = [7; 8];
        layout.fresh(&mut words);
        let none = NO_VALUE;
        assert_eq!(words, [0, none, i64::MIN as u64, 0, 0, none, 0, none]);
        assert_eq!(Layout::new(&[]).words(), 0);
    }

    #[test]
    fn words_without_values_change_nothing() {
        use Accumulator::*;
        for accumulator in [Count, Sum, Min, Max, Last] {
            let words = [5.0_f64.to_bits(), 9, 8, 7];
            let words = &words[..accumulator.words()];
            let empty = empty(accumulator.merging());
            assert_eq!(merged(accumulator, words, empty), words, "{accumulator:?}");
            assert_eq!(merged(accumulator, empty, words), words, "{accumulator:?}");
            assert_eq!(merged(accumulator, empty, empty), empty, "{accumulator:?}");
        }
    }

    #[test]
    fn an_infinite_sum_stays_infinite() {
        let sum = |one, other| merged_floats(Accumulator::Sum, one, other);
        assert_eq!(sum(f64::MAX, f64::MAX), f64::INFINITY);
        assert_eq!(sum(f64::INFINITY, -1.0), f64::INFINITY);
        assert_eq!(sum(f64::INFINITY, f64::NEG_INFINITY), f64::INFINITY);
        assert_eq!(sum(f64::NEG_INFINITY, f64::INFINITY), f64::INFINITY);
        assert_eq!(sum(f64::NEG_INFINITY, f64::NAN), f64::NEG_INFINITY);
    }

    #[test]
    fn counts_saturate_and_the_latest_value_is_kept() {
        assert_eq!(merged(Accumulator::Count, &[u64::MAX - 1], &[5]), [u64::MAX]);
        let value = |value: f64, time: i64, origin, offset| {
            vec![value.to_bits(), time as u64, origin, offset]
        };
        let ascending = [
            value(f64::NAN, 9, 9, 9),
            value(1.0, -5, 3, 3),
            value(2.0, 4, 1, 9),
            value(3.0, 4, 2, 0),
            value(4.0, 4, 2, 1),
            value(5.0, 4, 2, 1),
        ];
        for pair in ascending.windows(2) {
            assert_eq!(merged(Accumulator::Last, &pair[0], &pair[1]), pair[1]);
            assert_eq!(merged(Accumulator::Last, &pair[1], &pair[0]), pair[1]);
        }
    }
}
