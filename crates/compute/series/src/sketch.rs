//! Distributions: exact while they are small, and then bucket counts with a bounded relative error.
//!
//! The buckets are the same as in HdrHistogram (Gil Tene,
//! <https://hdrhistogram.github.io/HdrHistogram/>), applied to the bits of a float: each power of
//! two is divided into 64 equal parts. Masson, Rim and Lee describe them as the linear mapping of
//! their DDSketch (VLDB 2019, <https://arxiv.org/abs/1908.10693>). The middle of a bucket differs
//! from any value in the bucket by at most 1/128 of the value. The upper bits of a float determine
//! its bucket, so finding the bucket takes no logarithm.

mod bytes;

use crate::limits::{EXACT_VALUES_MAX, PAGES_MAX};

/// Maximum relative error of a quantile.
pub const RELATIVE_ERROR_MAX: f64 = 1.0 / 128.0;

const PAGE_BUCKETS: usize = 64;
/// Number of low mantissa bits that do not affect the bucket.
const LOWER_BITS: u32 = 52 - 6;

/// The buckets for one power of two.
#[derive(Clone, Debug)]
struct Page {
    /// The biased exponent of the page's values, negated for negative values.
    number: i32,
    weights: [f64; PAGE_BUCKETS],
}

/// A mergeable distribution. Quantiles are exact for up to [`EXACT_VALUES_MAX`] values, and within
/// [`RELATIVE_ERROR_MAX`] for more values. Weight, sum, minimum and maximum are exact except for
/// float rounding.
#[derive(Clone, Debug, Default)]
pub struct Sketch {
    values: Vec<(f64, f64)>,
    /// Pages in ascending order of their numbers. Empty while the sketch is exact.
    pages: Vec<Page>,
    /// Index of the most recently used page, because the values of a series are usually similar.
    recent: usize,
    weight: f64,
    sum: f64,
    min: f64,
    max: f64,
    misplaced: f64,
}

impl Sketch {
    pub(crate) const EMPTY: Sketch = Sketch {
        values: Vec::new(),
        pages: Vec::new(),
        recent: 0,
        weight: 0.0,
        sum: 0.0,
        min: 0.0,
        max: 0.0,
        misplaced: 0.0,
    };

    /// Adds `value`, which represents `weight` equal values. Both must be finite, and the weight
    /// must be above 0.
    #[inline]
    pub fn add(&mut self, value: f64, weight: f64) {
        self.add_to_totals(weight, saturating(value * weight), [value, value]);
        self.place(value, weight);
    }

    fn add_to_totals(&mut self, weight: f64, sum: f64, [min, max]: [f64; 2]) {
        (self.min, self.max) =
            if self.weight == 0.0 { (min, max) } else { (self.min.min(min), self.max.max(max)) };
        self.weight = saturating(self.weight + weight);
        self.sum = saturating(self.sum + sum);
    }

    fn place(&mut self, value: f64, weight: f64) {
        if !self.pages.is_empty() {
            self.count(value, weight);
        } else if self.values.len() < EXACT_VALUES_MAX {
            self.values.push((value, weight));
        } else {
            self.spread();
            self.count(value, weight);
        }
    }

    /// Moves the individual values into buckets.
    #[cold]
    fn spread(&mut self) {
        let mut values = std::mem::take(&mut self.values);
        values.drain(..).for_each(|(value, weight)| self.count(value, weight));
        // Keep the memory for the next period.
        self.values = values;
    }

    fn count(&mut self, value: f64, weight: f64) {
        let (number, bucket) = place_of(value);
        let page = match self.pages.get(self.recent) {
            Some(page) if page.number == number => self.recent,
            _ => self.page(number),
        };
        self.recent = page;
        let found = &mut self.pages[page];
        if found.number == number {
            found.weights[bucket] += weight;
        } else {
            found.weights[if found.number < number { PAGE_BUCKETS - 1 } else { 0 }] += weight;
            self.misplaced += weight;
        }
    }

    /// Returns the index of the page with this number. Inserts a missing page. If there are too
    /// many pages, returns the index of a neighboring page.
    fn page(&mut self, number: i32) -> usize {
        match self.pages.binary_search_by_key(&number, |page| page.number) {
            Ok(at) => at,
            Err(at) if self.pages.len() < PAGES_MAX => {
                // Reserve exactly one page, because a page is large and most series need only a
                // few.
                self.pages.reserve_exact(1);
                self.pages.insert(at, Page { number, weights: [0.0; PAGE_BUCKETS] });
                at
            }
            Err(at) => at.min(PAGES_MAX - 1),
        }
    }

    /// Adds the values of `other`.
    pub fn merge(&mut self, other: &Sketch) {
        if other.weight == 0.0 {
            return;
        }
        self.add_to_totals(other.weight, other.sum, [other.min, other.max]);
        self.misplaced += other.misplaced;
        other.values.iter().for_each(|(value, weight)| self.place(*value, *weight));
        if !other.pages.is_empty() && self.pages.is_empty() {
            self.spread();
        }
        for page in &other.pages {
            for (bucket, weight) in
                page.weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0)
            {
                self.count(middle(page.number, bucket), *weight);
            }
        }
    }

    /// Prefetches the fields that change with every value.
    #[inline]
    pub(crate) fn prefetch(&self) {
        millstream_scan::prefetch(&self.values);
        millstream_scan::prefetch(&self.misplaced);
    }

    /// Returns the number of individual values plus the number of buckets.
    pub(crate) fn places(&self) -> usize {
        self.values.len() + self.pages.len() * PAGE_BUCKETS
    }

    /// Removes all values but keeps the memory for individual values.
    pub fn clear(&mut self) {
        self.values.clear();
        self.pages.clear();
        *self = Sketch {
            values: std::mem::take(&mut self.values),
            pages: std::mem::take(&mut self.pages),
            ..Sketch::default()
        };
    }

    /// Returns the number of values that the sketch represents. May be fractional if clients
    /// sample.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// Returns the sum of the values, which saturates at the largest float.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// Returns the smallest value, or 0 if there are no values.
    pub fn min(&self) -> f64 {
        self.min
    }

    /// Returns the largest value, or 0 if there are no values.
    pub fn max(&self) -> f64 {
        self.max
    }

    /// Returns the mean, or 0 if there are no values.
    pub fn mean(&self) -> f64 {
        if self.weight > 0.0 { (self.sum / self.weight).clamp(self.min, self.max) } else { 0.0 }
    }

    /// Returns the weight of the values that are in a neighboring page, because the sketch had
    /// reached [`PAGES_MAX`].
    pub fn misplaced(&self) -> f64 {
        self.misplaced
    }

    /// Returns whether all values are stored individually.
    pub fn is_exact(&self) -> bool {
        self.pages.is_empty()
    }

    /// Replaces the contents of `out` with values in ascending order and their weights, which are
    /// above 0. The values are exact if the sketch is exact, and otherwise within
    /// [`RELATIVE_ERROR_MAX`], except for [misplaced](Sketch::misplaced) values.
    pub fn points(&self, out: &mut Vec<(f64, f64)>) {
        out.clear();
        let sorted = if self.is_exact() { &self.values[..] } else { &[] };
        out.extend_from_slice(sorted);
        out.sort_unstable_by(|(a, _), (b, _)| a.total_cmp(b));
        for page in &self.pages {
            let buckets = page.weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0);
            out.extend(buckets.map(|(bucket, weight)| {
                (middle(page.number, bucket).clamp(self.min, self.max), *weight)
            }));
        }
        out.dedup_by(|(next, weight), (value, sum)| {
            let is_same = *next <= *value;
            *sum = if is_same { saturating(*sum + *weight) } else { *sum };
            is_same
        });
        out.iter_mut().for_each(|(_, weight)| *weight = saturating(*weight));
    }

    /// Returns the quantiles for these parts, which must be ascending and from 0 to 1. A quantile
    /// is the smallest value such that at least this part of all values is less than or equal to
    /// it. Returns 0 if there are no values.
    pub fn quantiles<const N: usize>(&self, parts: [f64; N]) -> [f64; N] {
        let mut found = self.rising_quantiles(parts.into_iter());
        parts.map(|_| found.next().unwrap_or(self.max))
    }

    /// Returns quantiles like [`Sketch::quantiles`], for any number of parts.
    pub(crate) fn rising_quantiles<'a>(
        &'a self,
        parts: impl Iterator<Item = f64> + 'a,
    ) -> impl Iterator<Item = f64> + 'a {
        let mut sorted = self.values.clone();
        sorted.sort_unstable_by(|(a, _), (b, _)| a.total_cmp(b));
        let buckets = self.pages.iter().flat_map(|page| {
            let buckets = page.weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0);
            buckets.map(|(bucket, weight)| (middle(page.number, bucket), *weight))
        });
        let mut rest = sorted.into_iter().chain(buckets);
        let (mut value, mut below) = (self.min, 0.0);
        parts.map(move |part| {
            if part >= 1.0 {
                return self.max;
            }
            let rank = part * self.weight * UNDER_RANK;
            while below < rank {
                let Some((next, weight)) = rest.next() else { return self.max };
                (value, below) = (next.clamp(self.min, self.max), below + weight);
            }
            value
        })
    }
}

/// Factor that lowers ranks slightly. Parts, and weights from sample rates such as 0.3, are
/// rounded, so their product can be slightly above a whole rank and would select the next value.
/// The factor covers the rounding error for up to a billion values.
const UNDER_RANK: f64 = 1.0 - 1e-9;

/// Clamps a sum to finite floats.
#[inline]
pub fn saturating(sum: f64) -> f64 {
    sum.clamp(f64::MIN, f64::MAX)
}

/// Returns the page and bucket for a value, in ascending order of values, including negative
/// values. Subnormal floats are treated as 0, which is the only value in page 0.
#[inline]
fn place_of(value: f64) -> (i32, usize) {
    let upper = (value.abs().to_bits() >> LOWER_BITS) as i32;
    let (number, bucket) = (upper >> 6, (upper & 63) as usize);
    match number {
        0 => (0, 0),
        _ if value < 0.0 => (-number, PAGE_BUCKETS - 1 - bucket),
        _ => (number, bucket),
    }
}

/// Returns the middle of a bucket.
fn middle(number: i32, bucket: usize) -> f64 {
    let value = |number: i32, bucket: usize| {
        let upper = (number as u64) << 6 | bucket as u64;
        f64::from_bits(upper << LOWER_BITS | 1 << (LOWER_BITS - 1))
    };
    match number {
        0 => 0.0,
        1.. => value(number, bucket),
        _ => -value(-number, PAGE_BUCKETS - 1 - bucket),
    }
}
