//! Distributions: exact while they are small, then counts in buckets that grow with the value.
//!
//! The buckets are those of HdrHistogram (Gil Tene, <https://hdrhistogram.github.io/HdrHistogram/>)
//! over the bits of a float, each power of two in 64 equal parts, which Masson, Rim and Lee
//! describe as the linear mapping of their DDSketch (VLDB 2019,
//! <https://arxiv.org/abs/1908.10693>). A value is at most 1/128 of itself away from the middle of
//! its bucket. To find the bucket takes no logarithm: it is the upper bits of the float.

use crate::limits::{EXACT_VALUES_MAX, PAGES_MAX};

/// How far a quantile may be from the exact one, relative to it.
pub const RELATIVE_ERROR_MAX: f64 = 1.0 / 128.0;

const PAGE_BUCKETS: usize = 64;
/// Bits of the mantissa that do not decide about the bucket.
const LOWER_BITS: u32 = 52 - 6;

/// The buckets of one power of two.
#[derive(Clone, Debug)]
struct Page {
    /// The exponent of its values as the float has it, negated for negative values.
    number: i32,
    weights: [f64; PAGE_BUCKETS],
}

/// A distribution that others can be merged into. Quantiles are exact as long as it has up to
/// [`EXACT_VALUES_MAX`] values, else within [`RELATIVE_ERROR_MAX`]; weight, sum, smallest and
/// largest value are exact, as far as floats are.
#[derive(Clone, Debug, Default)]
pub struct Sketch {
    values: Vec<(f64, f64)>,
    /// By rising number; empty while it is exact.
    pages: Vec<Page>,
    /// The page that was used last: values of a series are mostly alike.
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

    /// Adds `value`, which stands for `weight` values like it. Both are finite, the weight is above
    /// 0.
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

    /// From single values to buckets.
    #[cold]
    fn spread(&mut self) {
        let mut values = std::mem::take(&mut self.values);
        values.drain(..).for_each(|(value, weight)| self.count(value, weight));
        // The room is kept for the next period.
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

    /// Where the page with this number is; a new one if it is not there, and its neighbour if there
    /// is no room.
    fn page(&mut self, number: i32) -> usize {
        match self.pages.binary_search_by_key(&number, |page| page.number) {
            Ok(at) => at,
            Err(at) if self.pages.len() < PAGES_MAX => {
                // A page is large and most series need few.
                self.pages.reserve_exact(1);
                self.pages.insert(at, Page { number, weights: [0.0; PAGE_BUCKETS] });
                at
            }
            Err(at) => at.min(PAGES_MAX - 1),
        }
    }

    /// Adds what `other` has.
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

    /// Asks for what a value changes in every case.
    #[inline]
    pub(crate) fn prefetch(&self) {
        millstream_scan::prefetch(&self.values);
        millstream_scan::prefetch(&self.misplaced);
    }

    /// How many single values and buckets it has.
    pub(crate) fn places(&self) -> usize {
        self.values.len() + self.pages.len() * PAGE_BUCKETS
    }

    /// Forgets all values and keeps the room for single ones.
    pub fn clear(&mut self) {
        self.values.clear();
        self.pages.clear();
        *self = Sketch {
            values: std::mem::take(&mut self.values),
            pages: std::mem::take(&mut self.pages),
            ..Sketch::default()
        };
    }

    /// How many values it stands for: a fraction where sample rates are no unit fractions.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// Sum of the values; kept at the largest float where it would be infinite.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// The smallest value; 0 without any.
    pub fn min(&self) -> f64 {
        self.min
    }

    /// The largest value; 0 without any.
    pub fn max(&self) -> f64 {
        self.max
    }

    /// The mean; 0 without values.
    pub fn mean(&self) -> f64 {
        if self.weight > 0.0 { (self.sum / self.weight).clamp(self.min, self.max) } else { 0.0 }
    }

    /// How many values lie in the bucket next to theirs because [`PAGES_MAX`] was reached.
    pub fn misplaced(&self) -> f64 {
        self.misplaced
    }

    /// Whether no value was put into a bucket.
    pub fn is_exact(&self) -> bool {
        self.pages.is_empty()
    }

    /// Puts values and their weights into `out`, in place of what is there: values rising, weights
    /// above 0. The values are those that were added, or, if it is not exact, at most
    /// [`RELATIVE_ERROR_MAX`] of one away from it.
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

    /// The smallest values of which at least these parts (0 to 1, rising) of all values are no
    /// larger. 0 without values.
    pub fn quantiles<const N: usize>(&self, parts: [f64; N]) -> [f64; N] {
        let mut found = self.rising_quantiles(parts.into_iter());
        parts.map(|_| found.next().unwrap_or(self.max))
    }

    /// As [`Sketch::quantiles`], for any number of parts.
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

/// Parts are no whole floats, nor are the weights of a sample rate such as 0.3: their product may
/// be a rank and a hair more, which would be the next one. This is more than the hair of a billion
/// values.
const UNDER_RANK: f64 = 1.0 - 1e-9;

/// A sum that stays finite.
#[inline]
pub fn saturating(sum: f64) -> f64 {
    sum.clamp(f64::MIN, f64::MAX)
}

/// Page and bucket of a value. Both rise with the value, that of negative ones too. What is closer
/// to 0 than the smallest normal float counts as 0, which has page 0 to itself.
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

/// The middle of a bucket.
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
