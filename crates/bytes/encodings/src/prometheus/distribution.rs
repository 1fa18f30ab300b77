//! Converts the values of a distribution to the quantiles of one period, or to the buckets of a
//! native histogram.

use crate::metric::SketchText;

/// How distributions are emitted.
#[derive(Clone, Debug, PartialEq)]
pub enum Distributions {
    /// As summaries: these quantiles (0 to 1) of the current period, and the sum and count of all
    /// periods.
    Summary(Vec<f64>),
    /// As native histograms of all periods.
    Native,
}

/// Initial schema of native histograms: 2⁵ buckets per power of two. Each bucket is 2.2% wider
/// than the previous one.
const SCHEMA: i32 = 5;

/// The coarsest schema, in which the bounds of adjacent buckets differ by a factor of 2¹⁶.
const SCHEMA_MIN: i32 = -4;

/// Maximum number of buckets per histogram: ten powers of two at the initial schema. Beyond this
/// number, pairs of buckets are merged.
const BUCKETS_MAX: usize = 320;

/// Values within this distance of 0 are treated as 0. Prometheus uses the same threshold.
pub(super) const ZERO_THRESHOLD: f64 = 2.938_735_877_055_719e-39;

/// Buckets per power of two.
const BUCKETS_PER_POWER: i32 = 1 << SCHEMA;

/// Index of the bucket that contains the largest float.
const BUCKET_MAX: f64 = 1024.0 * BUCKETS_PER_POWER as f64;

/// Clamps a sum to finite values. An infinite sum would absorb every later value.
pub(super) fn saturating(sum: f64) -> f64 {
    sum.clamp(f64::MIN, f64::MAX)
}

impl Distributions {
    /// Appends the numbers that an [`Accumulator`](super::Accumulator) needs from a sketch: its
    /// count and sum, followed by the quantiles of a summary. For a histogram, the weight of 0, the
    /// number of positive buckets, and all buckets as pairs of index and weight follow instead,
    /// positive buckets first.
    pub(super) fn push(&self, sketch: &SketchText<'_>, out: &mut Vec<f64>) {
        out.extend([sketch.count, sketch.sum]);
        match self {
            Distributions::Summary(quantiles) => push_quantiles(sketch, quantiles, out),
            Distributions::Native => push_buckets(sketch, out),
        }
    }

    /// Returns whether [`Distributions::push`] could have produced these numbers.
    pub(super) fn has_form(&self, numbers: &[f64]) -> bool {
        match (self, numbers) {
            (Distributions::Summary(quantiles), [count, _, values @ ..]) => {
                *count >= 0.0 && values.len() == quantiles.len()
            }
            (Distributions::Native, [count, _, zero, positive, buckets @ ..]) => {
                let (pairs, rest) = buckets.as_chunks::<2>();
                let is_bucket =
                    |[index, weight]: &[f64; 2]| index.abs() <= BUCKET_MAX && *weight >= 0.0;
                let are_counts = *count >= 0.0 && *zero >= 0.0 && *positive <= pairs.len() as f64;
                are_counts && rest.is_empty() && pairs.iter().all(is_bucket)
            }
            _ => false,
        }
    }
}

/// Tolerance for the nearest rank, which is the smallest value whose cumulative weight reaches a
/// share of the total. Quantiles and the weights from a sample rate such as 0.3 are not exact
/// floats, so their product may exceed a rank by a rounding error and select the next one. The
/// tolerance covers the error for up to a billion values.
const RANK_TOLERANCE: f64 = 1.0 - 1e-9;

fn push_quantiles(sketch: &SketchText<'_>, quantiles: &[f64], out: &mut Vec<f64>) {
    let first = out.len();
    // Prometheus uses NaN for empty summaries.
    let default = if sketch.count > 0.0 { sketch.max } else { f64::NAN };
    out.extend(
        quantiles
            .iter()
            .map(|quantile| if *quantile <= 0.0 { default.min(sketch.min) } else { default }),
    );
    let total: f64 = sketch.points().map(|(_, weight)| weight).sum();
    let mut below = 0.0;
    for (value, weight) in sketch.points() {
        let up_to = below + weight;
        for (quantile, slot) in quantiles.iter().zip(&mut out[first..]) {
            let rank = quantile * total * RANK_TOLERANCE;
            if *quantile < 1.0 && *quantile > 0.0 && below < rank && rank <= up_to {
                *slot = value.clamp(sketch.min, sketch.max);
            }
        }
        below = up_to;
    }
}

fn push_buckets(sketch: &SketchText<'_>, out: &mut Vec<f64>) {
    let zero: f64 =
        sketch.points().filter(|(value, _)| is_zero(*value)).map(|(_, weight)| weight).sum();
    out.extend([zero, 0.0]);
    let count_at = out.len() - 1;
    for is_positive in [true, false] {
        let first = out.len();
        for (value, weight) in sketch.points() {
            if is_zero(value) || (value > 0.0) != is_positive {
                continue;
            }
            let index = f64::from(bucket(value.abs()));
            match out[first..].last_chunk::<2>() {
                Some([last, _]) if *last == index => *out.last_mut().unwrap_or(&mut 0.0) += weight,
                _ => out.extend([index, weight]),
            }
        }
        if is_positive {
            out[count_at] = ((out.len() - first) / 2) as f64;
        }
    }
}

fn is_zero(value: f64) -> bool {
    value.abs() <= ZERO_THRESHOLD
}

/// Returns the bucket index for a positive value. Bucket `i` covers (2^((i-1)/32), 2^(i/32)].
fn bucket(value: f64) -> i32 {
    // Values above the zero threshold are never subnormal.
    let bits = value.to_bits();
    let (exponent, mantissa) = ((bits >> 52) as i32 - 1023, bits & ((1 << 52) - 1));
    if mantissa == 0 {
        return exponent * BUCKETS_PER_POWER;
    }
    let fraction = f64::from_bits(mantissa | 1023 << 52);
    let offset = (fraction.log2() * f64::from(BUCKETS_PER_POWER)).ceil() as i32;
    exponent * BUCKETS_PER_POWER + offset.clamp(1, BUCKETS_PER_POWER)
}

/// A native histogram that sums all periods.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// Schema. There are 2^schema buckets per power of two.
    pub schema: i32,
    /// Number of samples.
    pub count: f64,
    /// Sum of the samples.
    pub sum: f64,
    /// Number of samples that are treated as 0.
    pub zero: f64,
    /// Index and sample count of each positive bucket, sorted by index.
    pub positive: Vec<(i32, f64)>,
    /// Index and sample count of each negative bucket, sorted by index.
    pub negative: Vec<(i32, f64)>,
}

impl Default for Histogram {
    fn default() -> Histogram {
        let (positive, negative) = (Vec::new(), Vec::new());
        Histogram { schema: SCHEMA, count: 0.0, sum: 0.0, zero: 0.0, positive, negative }
    }
}

impl Histogram {
    /// Adds the numbers that [`Distributions::push`] computed for a sketch.
    pub(super) fn add(&mut self, numbers: &[f64]) {
        let [count, sum, zero, positive, buckets @ ..] = numbers else { return };
        self.count = saturating(self.count + count);
        self.sum = saturating(self.sum + sum);
        self.zero = saturating(self.zero + zero);
        let (pairs, _) = buckets.as_chunks::<2>();
        let (above, below) = pairs.split_at((*positive as usize).min(pairs.len()));
        let reduced = (SCHEMA - self.schema) as u32;
        above.iter().for_each(|pair| add_bucket(&mut self.positive, *pair, reduced));
        below.iter().for_each(|pair| add_bucket(&mut self.negative, *pair, reduced));
        while self.positive.len() + self.negative.len() > BUCKETS_MAX && self.schema > SCHEMA_MIN {
            self.schema -= 1;
            merge_pairs(&mut self.positive);
            merge_pairs(&mut self.negative);
        }
    }

    /// Returns whether all counts are integral, which is always true unless clients sample.
    pub(super) fn is_integral(&self) -> bool {
        let is_integral = |(_, count): &(i32, f64)| count.fract() == 0.0;
        let mut all = self.positive.iter().chain(&self.negative);
        self.count.fract() == 0.0 && self.zero.fract() == 0.0 && all.all(is_integral)
    }
}

/// Returns a bucket's index after `times` schema reductions.
fn coarser(index: i32, times: u32) -> i32 {
    (index + (1 << times) - 1) >> times
}

/// Merges pairs of buckets after the schema is reduced by one.
fn merge_pairs(buckets: &mut Vec<(i32, f64)>) {
    buckets.iter_mut().for_each(|(index, _)| *index = coarser(*index, 1));
    buckets.dedup_by(|next, before| {
        let is_pair = next.0 == before.0;
        before.1 = if is_pair { saturating(before.1 + next.1) } else { before.1 };
        is_pair
    });
}

/// Adds a bucket of the initial schema to buckets whose schema has been reduced `times` times.
fn add_bucket(buckets: &mut Vec<(i32, f64)>, [index, weight]: [f64; 2], times: u32) {
    let index = coarser(index as i32, times);
    match buckets.binary_search_by_key(&index, |(index, _)| *index) {
        Ok(at) => buckets[at].1 = saturating(buckets[at].1 + weight),
        Err(at) => buckets.insert(at, (index, saturating(weight))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sketch(text: &str) -> SketchText<'_> {
        SketchText::parse(text.as_bytes()).unwrap()
    }

    const FOUR: &str =
        r#"{"count":4,"sum":10,"min":1,"max":4,"values":[1,2,3,4],"weights":[1,1,1,1]}"#;

    #[test]
    fn quantiles_are_nearest_rank() {
        let mut out = Vec::new();
        Distributions::Summary(vec![0.0, 0.25, 0.26, 0.5, 0.75, 0.99, 1.0])
            .push(&sketch(FOUR), &mut out);
        assert_eq!(out, [4.0, 10.0, 1.0, 1.0, 2.0, 2.0, 3.0, 4.0, 4.0]);
        // In floats, 0.28 * 25 is 7 plus a rounding error.
        let values: Vec<f64> = (1..=25).map(f64::from).collect();
        let text = format!(
            "{{\"count\":25,\"sum\":325,\"min\":1,\"max\":25,\"values\":{values:?},\"weights\":{:?}}}",
            [1; 25]
        );
        out.clear();
        Distributions::Summary(vec![0.28, 0.56]).push(&sketch(&text), &mut out);
        assert_eq!(out[2..], [7.0, 14.0]);
    }

    #[test]
    fn quantiles_are_clamped_to_min_and_max() {
        let text =
            r#"{"count":3,"sum":30,"min":9.9,"max":10.1,"values":[9.8,10.2],"weights":[1,2]}"#;
        let mut out = Vec::new();
        Distributions::Summary(vec![0.1, 0.5]).push(&sketch(text), &mut out);
        assert_eq!(out, [3.0, 30.0, 9.9, 10.1]);
    }

    #[test]
    fn a_bucket_includes_its_upper_bound() {
        for (value, index) in
            [(1.0, 0), (2.0, 32), (0.5, -32), (1.0 + f64::EPSILON, 1), (1.999_999, 32)]
        {
            assert_eq!(bucket(value), index, "{value}");
        }
        for value in [1e-30, 0.001, 0.3, 7.0, 1234.5, 1e300] {
            let index = f64::from(bucket(value));
            let (below, bound) = ((index - 1.0) / 32.0, index / 32.0);
            assert!(
                below.exp2() * 0.999_999 < value && value <= bound.exp2() * 1.000_001,
                "{value}"
            );
        }
    }

    #[test]
    fn a_histogram_with_many_buckets_reduces_its_schema() {
        let mut histogram = Histogram::default();
        // One value on each side of 0 per period.
        let period =
            |index: i32| [2.0, 0.0, 0.0, 1.0, f64::from(index), 1.0, f64::from(index), 1.0];
        (-100..60).for_each(|index| histogram.add(&period(index)));
        assert_eq!(
            (histogram.schema, histogram.positive.len(), histogram.negative.len()),
            (5, 160, 160)
        );
        histogram.add(&period(60));
        // Buckets 59 and 60 are merged, as are buckets -1 and 0.
        assert_eq!((histogram.schema, histogram.positive.len()), (4, 81));
        let bucket = |histogram: &Histogram, index| {
            let at = histogram.positive.binary_search_by_key(&index, |(index, _)| *index).unwrap();
            histogram.positive[at].1
        };
        assert_eq!([-50, 0, 30].map(|index| bucket(&histogram, index)), [1.0, 2.0, 2.0]);
        histogram.add(&period(-1));
        assert_eq!((bucket(&histogram, 0), histogram.positive.len()), (3.0, 81));
        (-32_000..32_000).step_by(7).for_each(|index| histogram.add(&period(index)));
        assert!(histogram.positive.len() + histogram.negative.len() <= BUCKETS_MAX);
        let all: f64 = histogram.positive.iter().map(|(_, weight)| weight).sum();
        assert_eq!(2.0 * all, histogram.count);
    }

    #[test]
    fn histogram_sums_stay_finite() {
        let mut histogram = Histogram::default();
        // If the weights of one bucket overflow, their sum arrives as infinity.
        let period = [1e308, -1e308, 1e308, 1.0, 0.0, 1e308, 0.0, f64::INFINITY];
        (0..3).for_each(|_| histogram.add(&period));
        assert_eq!(
            (histogram.count, histogram.sum, histogram.zero),
            (f64::MAX, f64::MIN, f64::MAX)
        );
        assert_eq!((histogram.positive[0].1, histogram.negative[0].1), (f64::MAX, f64::MAX));
        let mut buckets = vec![(1, 1e308), (2, 1e308)];
        merge_pairs(&mut buckets);
        assert_eq!(buckets, [(1, f64::MAX)]);
    }

    #[test]
    fn a_histogram_sums_periods() {
        let (mut numbers, mut histogram) = (Vec::new(), Histogram::default());
        let text = r#"{"count":6,"sum":1,"min":-2,"max":2,"values":[-2,-1,0,1,1.001,2],"weights":[1,1,1,1,1,1]}"#;
        Distributions::Native.push(&sketch(text), &mut numbers);
        histogram.add(&numbers);
        histogram.add(&numbers);
        assert_eq!((histogram.count, histogram.sum, histogram.zero), (12.0, 2.0, 2.0));
        assert_eq!(histogram.positive, [(0, 2.0), (1, 2.0), (32, 2.0)]);
        assert_eq!(histogram.negative, [(0, 2.0), (32, 2.0)]);
        assert!(histogram.is_integral());
        histogram.add(&[0.5, 1.0, 0.5, 0.0]);
        assert!(!histogram.is_integral());
    }
}
