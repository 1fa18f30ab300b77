//! Configuration of the `dogstatsd` source.

use crate::component::{Component, SourceComponent};
use crate::sources::points::config::{Kind, PointOptions};
use crate::sources::points::percentiles;
use crate::sources::points::point_handler::Protocol;
use millstream_model::{BuildError, OptionError, Source, SourceOpen};
use millstream_points::dogstatsd;
use millstream_receiver::Framing;
use millstream_series::{Statistic, Summaries};
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;

const KIND: Kind = Kind {
    listen: "udp://127.0.0.1:8125",
    period: Duration::from_secs(10),
    schemes: &["udp", "unixgram", "unix", "tcp"],
    presets: &[
        ("statsd", "udp://127.0.0.1:8125"),
        ("datadog", "unixgram:///var/run/datadog/dsd.socket"),
        ("datadog_stream", "unix:///var/run/datadog/dsd.stream.socket"),
    ],
    tcp: Framing::Lines,
};

/// Name of an aggregate for timings and histograms, such as `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Aggregate {
    /// Smallest value.
    Min,
    /// Largest value.
    Max,
    /// Mean of the values.
    Avg,
    /// Sum of the values.
    Sum,
    /// Number of values.
    Count,
    /// Median of the values.
    Median,
}

/// Options for the `dogstatsd` source.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DogStatsdConfig {
    /// Whether a signed gauge such as `+3` changes the current value, as in plain StatsD, instead
    /// of setting the value, as in DogStatsD. Requires `receivers: 1`.
    pub gauge_deltas: bool,
    /// Aggregates for timings and histograms, in addition to percentiles. The default is `max`,
    /// `median`, `avg` and `count`.
    pub aggregates: Option<Vec<Aggregate>>,
    /// Percentiles for timings and histograms, each from 0 to 1. The default is 0.95.
    pub percentiles: Option<Vec<f64>>,
    /// Percentiles for distributions, each from 0 to 1. The default is 0.5, 0.75, 0.9, 0.95 and
    /// 0.99.
    pub distribution_percentiles: Option<Vec<f64>>,
    /// Options that all point sources share.
    #[serde(flatten)]
    pub points: PointOptions,
}

impl Component for DogStatsdConfig {
    fn makes_metrics(&self) -> bool {
        true
    }

    fn check(&self) -> Vec<OptionError> {
        let is_unused = self.points.has_sketches();
        let lists = [
            ("/percentiles", self.percentiles.as_deref()),
            ("/distribution_percentiles", self.distribution_percentiles.as_deref()),
        ];
        let of_lists =
            lists.into_iter().flat_map(|(key, parts)| percentiles::check(key, parts, is_unused));
        let of_points = self.points.check(&KIND).into_iter().chain(self.check_deltas());
        of_points.chain(of_lists).chain(self.check_aggregates()).collect()
    }

    fn claims(&self) -> Vec<String> {
        self.points.claims(&KIND)
    }
}

impl SourceComponent for DogStatsdConfig {
    fn open(&self, open: SourceOpen) -> Result<Box<dyn Source>, BuildError> {
        let protocol = Protocol::DogStatsd(dogstatsd::Options { gauge_deltas: self.gauge_deltas });
        let summaries = self.summaries();
        self.points.open(&KIND, protocol, summaries, open)
    }
}

impl DogStatsdConfig {
    /// Checks that `gauge_deltas` is used with a single receiver. Each receiver applies changes
    /// only to its own value for a gauge, so several receivers would compute wrong values.
    fn check_deltas(&self) -> Option<OptionError> {
        let text = "needs a single receiver because several receivers apply changes out of order; \
                    use `receivers: 1`";
        (self.gauge_deltas && self.points.receivers > 1)
            .then(|| OptionError::new("/gauge_deltas", text.to_owned()))
    }

    fn check_aggregates(&self) -> Vec<OptionError> {
        let Some(aggregates) = &self.aggregates else { return Vec::new() };
        let mut errors: Vec<_> =
            percentiles::unused("/aggregates", self.points.has_sketches()).into_iter().collect();
        for (index, aggregate) in aggregates.iter().enumerate() {
            if aggregates[..index].contains(aggregate) {
                errors.push(OptionError::new(
                    format!("/aggregates/{index}"),
                    "is a duplicate; remove it",
                ));
            }
        }
        if aggregates.is_empty() && self.percentiles.as_ref().is_some_and(Vec::is_empty) {
            let text = "leaves no output for timings and histograms; use at least one aggregate or \
                        percentile";
            errors.push(OptionError::new("/aggregates", text.to_owned()));
        }
        errors
    }

    fn summaries(&self) -> Summaries {
        let (statistics, has_median) = match &self.aggregates {
            None => (Summaries::TIMING_STATISTICS.to_vec(), true),
            Some(chosen) => (
                chosen.iter().filter_map(|aggregate| aggregate.statistic()).collect(),
                chosen.contains(&Aggregate::Median),
            ),
        };
        let fractions = self.percentiles.as_deref().unwrap_or(&Summaries::TIMING_FRACTIONS);
        let of_distributions =
            self.distribution_percentiles.as_deref().unwrap_or(&Summaries::DISTRIBUTION_FRACTIONS);
        let summaries = Summaries::of_dogstatsd(&statistics, fractions, of_distributions);
        if has_median { summaries.with_median() } else { summaries }
    }
}

impl Aggregate {
    /// Returns the statistic of the aggregate; `None` for the median, which is computed as a
    /// percentile.
    fn statistic(self) -> Option<Statistic> {
        match self {
            Aggregate::Min => Some(Statistic::Min),
            Aggregate::Max => Some(Statistic::Max),
            Aggregate::Avg => Some(Statistic::Avg),
            Aggregate::Sum => Some(Statistic::Sum),
            Aggregate::Count => Some(Statistic::Count),
            Aggregate::Median => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_option_and_says_what_to_write() {
        for (options, pointer, advice) in [
            (r#"{"aggregates":["max","min","max"]}"#, "/aggregates/2", "is a duplicate"),
            (
                r#"{"aggregates":[],"percentiles":[]}"#,
                "/aggregates",
                "use at least one aggregate or percentile",
            ),
            (
                r#"{"aggregates":["max"],"distributions":"sketch"}"#,
                "/aggregates",
                "remove one of the two options",
            ),
            (
                r#"{"percentiles":[0.5],"distributions":"sketch"}"#,
                "/percentiles",
                "remove one of the two options",
            ),
            (
                r#"{"distribution_percentiles":[0.5,2]}"#,
                "/distribution_percentiles/1",
                "use 0.02 for 2%",
            ),
        ] {
            let config: DogStatsdConfig = serde_json::from_str(options).unwrap();
            let errors = config.check();
            assert_eq!(errors.len(), 1, "{options}: {errors:?}");
            assert!(
                errors[0].pointer == pointer && errors[0].to_string().contains(advice),
                "{options}: {errors:?}"
            );
        }
        for options in
            [r#"{"aggregates":[]}"#, r#"{"percentiles":[]}"#, r#"{"distributions":"sketch"}"#]
        {
            let config: DogStatsdConfig = serde_json::from_str(options).unwrap();
            assert_eq!(config.check(), [], "{options}");
        }
    }
}
