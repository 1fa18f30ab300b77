//! The numbers that are emitted for a distribution, and their suffixes.

use crate::point::Kind;
use crate::sketch::Sketch;
use crate::temporality::Temporality::{self, Delta, Gauge};
use std::fmt;
use std::ops::Deref;

/// Maximum length of a suffix in bytes.
const SUFFIX_BYTES_MAX: usize = 23;

/// Maximum number of decimals in a percentile, so that every suffix fits.
pub const FRACTION_DIGITS_MAX: usize = 6;

/// Suffix of a series name, stored inline as a short string.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Suffix {
    len: u8,
    text: [u8; SUFFIX_BYTES_MAX],
}

impl Suffix {
    /// The empty suffix.
    pub const NONE: Suffix = Suffix { len: 0, text: [0; SUFFIX_BYTES_MAX] };

    /// Creates a suffix from ASCII text, which is truncated to 23 bytes.
    pub const fn new(text: &str) -> Suffix {
        let (mut suffix, bytes) = (Suffix::NONE, text.as_bytes());
        while (suffix.len as usize) < bytes.len() && (suffix.len as usize) < SUFFIX_BYTES_MAX {
            suffix.text[suffix.len as usize] = bytes[suffix.len as usize];
            suffix.len += 1;
        }
        suffix
    }

    /// Returns the text of the suffix, including the leading dot. May be empty.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[..usize::from(self.len)]
    }
}

impl Deref for Suffix {
    type Target = str;

    fn deref(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

impl fmt::Debug for Suffix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// A number that can be computed from a distribution without sorting its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// The smallest value.
    Min,
    /// The largest value.
    Max,
    /// The mean.
    Avg,
    /// The sum.
    Sum,
    /// The number of values.
    Count,
}

/// The numbers to emit for distributions of one kind.
#[derive(Clone, Debug)]
struct Summary {
    statistics: Vec<(Suffix, Statistic)>,
    /// Suffix and fraction (0 to 1) of each percentile, in ascending order of the fractions.
    percentiles: Vec<(Suffix, f64)>,
}

/// All statistics and their suffixes.
const ALL: [(Suffix, Statistic); 5] = [
    (Suffix::new(".min"), Statistic::Min),
    (Suffix::new(".max"), Statistic::Max),
    (Suffix::new(".avg"), Statistic::Avg),
    (Suffix::new(".sum"), Statistic::Sum),
    (Suffix::new(".count"), Statistic::Count),
];

impl Summary {
    /// Creates a summary of these statistics and percentiles. `name` returns the suffix for a
    /// fraction.
    fn new(
        statistics: &[(Suffix, Statistic)],
        fractions: &[f64],
        name: fn(f64) -> String,
    ) -> Summary {
        let percentile = |fraction: &f64| (Suffix::new(&name(*fraction)), *fraction);
        let mut percentiles: Vec<_> = fractions.iter().map(percentile).collect();
        percentiles.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        Summary { statistics: statistics.to_vec(), percentiles }
    }

    fn with_median(mut self) -> Summary {
        let at = self.percentiles.partition_point(|(_, fraction)| *fraction < 0.5);
        self.percentiles.insert(at, (Suffix::new(".median"), 0.5));
        self
    }
}

/// The numbers to emit for distributions of each kind. The defaults are the numbers that clients
/// expect for the kind.
#[derive(Clone, Debug)]
pub struct Summaries {
    timer: Summary,
    histogram: Summary,
    /// Summary for DogStatsD's `ms` and `h`.
    timing: Summary,
    distribution: Summary,
}

impl Default for Summaries {
    fn default() -> Self {
        let [min, max, avg, sum, count] = ALL;
        let counter = (Suffix::new(".counter"), Statistic::Count);
        let fractions = Summaries::PAIRS_FRACTIONS;
        Summaries {
            timer: Summary::new(&[min, max, avg, sum, counter], &fractions, pairs_suffix),
            histogram: Summary::new(&[sum, count], &fractions, pairs_suffix),
            timing: Summary::new(
                &[max, avg, count],
                &Summaries::TIMING_FRACTIONS,
                dogstatsd_suffix,
            )
            .with_median(),
            distribution: Summary::new(&ALL, &Summaries::DISTRIBUTION_FRACTIONS, dogstatsd_suffix),
        }
    }
}

impl Summaries {
    /// Default percentiles of the metric server's timers and histograms, as fractions from 0 to 1.
    pub const PAIRS_FRACTIONS: [f64; 6] = [0.5, 0.9, 0.95, 0.99, 0.995, 0.999];
    /// Default percentiles of DogStatsD timings and histograms, in addition to the median.
    pub const TIMING_FRACTIONS: [f64; 1] = [0.95];
    /// Default percentiles of DogStatsD distributions.
    pub const DISTRIBUTION_FRACTIONS: [f64; 5] = [0.5, 0.75, 0.9, 0.95, 0.99];
    /// Default statistics of DogStatsD timings and histograms, in addition to the median.
    pub const TIMING_STATISTICS: [Statistic; 3] =
        [Statistic::Max, Statistic::Avg, Statistic::Count];

    /// Selects the percentiles of the metric server's timers and histograms, as fractions from 0 to
    /// 1 with at most [`FRACTION_DIGITS_MAX`] decimals.
    pub fn of_pairs(fractions: &[f64]) -> Summaries {
        let Summaries { timer, histogram, .. } = Summaries::default();
        let with_fractions =
            |summary: Summary| Summary::new(&summary.statistics, fractions, pairs_suffix);
        Summaries {
            timer: with_fractions(timer),
            histogram: with_fractions(histogram),
            ..Summaries::default()
        }
    }

    /// Selects the statistics and percentiles of DogStatsD timings and histograms, and the
    /// percentiles of DogStatsD distributions. Parts are as in [`Summaries::of_pairs`].
    pub fn of_dogstatsd(
        statistics: &[Statistic],
        fractions: &[f64],
        of_distributions: &[f64],
    ) -> Summaries {
        let wanted: Vec<_> = ALL.into_iter().filter(|(_, one)| statistics.contains(one)).collect();
        Summaries {
            timing: Summary::new(&wanted, fractions, dogstatsd_suffix),
            distribution: Summary::new(&ALL, of_distributions, dogstatsd_suffix),
            ..Summaries::default()
        }
    }

    /// Adds the median of DogStatsD timings and histograms, with a separate suffix.
    pub fn with_median(mut self) -> Summaries {
        self.timing = self.timing.with_median();
        self
    }

    /// Calls `put` with every number to emit for a distribution of this kind.
    pub fn each(
        &self,
        kind: Kind,
        sketch: &Sketch,
        put: &mut impl FnMut(Suffix, f64, Temporality),
    ) {
        let summary = match kind {
            Kind::Timer => &self.timer,
            Kind::Histogram => &self.histogram,
            Kind::Distribution => &self.distribution,
            _ => &self.timing,
        };
        for (suffix, statistic) in &summary.statistics {
            let (value, temporality) = statistic.of(sketch);
            put(*suffix, value, temporality);
        }
        if summary.percentiles.is_empty() {
            return; // without percentiles the values need not be sorted
        }
        let values =
            sketch.rising_quantiles(summary.percentiles.iter().map(|(_, fraction)| *fraction));
        summary
            .percentiles
            .iter()
            .zip(values)
            .for_each(|((suffix, _), value)| put(*suffix, value, Gauge));
    }
}

impl Statistic {
    fn of(self, sketch: &Sketch) -> (f64, Temporality) {
        match self {
            Statistic::Min => (sketch.min(), Gauge),
            Statistic::Max => (sketch.max(), Gauge),
            Statistic::Avg => (sketch.mean(), Gauge),
            Statistic::Sum => (sketch.sum(), Delta),
            Statistic::Count => (sketch.weight(), Delta),
        }
    }
}

/// Returns a suffix such as `.pct50` for 0.5 or `.pct999` for 0.999.
fn pairs_suffix(fraction: f64) -> String {
    format!(".pct{}", digits(fraction))
}

/// Returns a suffix such as `.50percentile` for 0.5, `.5percentile` for 0.05, or `.999percentile`
/// for 0.999.
fn dogstatsd_suffix(fraction: f64) -> String {
    let digits = digits(fraction);
    let whole = digits.strip_prefix('0').filter(|rest| rest.len() == 1);
    format!(".{}percentile", whole.unwrap_or(&digits))
}

/// Returns at least two decimals of a fraction, or 100 for 1. Different fractions have different
/// digits.
fn digits(fraction: f64) -> String {
    if fraction >= 1.0 {
        return "100".into();
    }
    let text = format!("{:.*}", FRACTION_DIGITS_MAX, fraction);
    let fraction = text.split('.').nth(1).unwrap_or_default();
    format!("{:0<2}", fraction.trim_end_matches('0'))
}

/// Returns whether a suffix can express all decimals of a fraction.
pub fn has_suffix(fraction: f64) -> bool {
    format!("{fraction}").split('.').nth(1).is_none_or(|digits| digits.len() <= FRACTION_DIGITS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fraction_has_its_own_suffix() {
        for (fraction, pairs, dogstatsd) in [
            (0.0, ".pct00", ".0percentile"),
            (0.05, ".pct05", ".5percentile"),
            (0.5, ".pct50", ".50percentile"),
            (0.95, ".pct95", ".95percentile"),
            (0.995, ".pct995", ".995percentile"),
            (0.005, ".pct005", ".005percentile"),
            (0.100001, ".pct100001", ".100001percentile"),
            (1.0, ".pct100", ".100percentile"),
        ] {
            assert!(has_suffix(fraction), "{fraction}");
            assert_eq!(
                (
                    &*Suffix::new(&pairs_suffix(fraction)),
                    &*Suffix::new(&dogstatsd_suffix(fraction))
                ),
                (pairs, dogstatsd)
            );
        }
        assert!(!has_suffix(0.9999999));
        let fractions: Vec<f64> = (0..=10_000).map(|n| f64::from(n) / 10_000.0).collect();
        for name in [pairs_suffix, dogstatsd_suffix] {
            let mut all: Vec<String> = fractions.iter().map(|fraction| name(*fraction)).collect();
            all.sort();
            all.dedup();
            assert_eq!(all.len(), fractions.len());
        }
    }
}
