//! Options of series, as both sinks have them.

use crate::seed::secret_seed;
use millstream_encodings::prometheus::{Distributions, LabelRules, Options, push_label_name};
use millstream_model::{Interval, Size};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// How distributions are given out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DistributionKind {
    /// As summaries: quantiles of the period, and the sum and the count of all periods.
    #[default]
    Summary,
    /// As native histograms of all periods. Prometheus takes them with
    /// `--enable-feature=native-histograms`.
    Native,
}

/// Options of series.
pub struct SeriesOptions<'a> {
    pub labels: &'a BTreeMap<String, String>,
    pub host_label: &'a str,
    pub counter_suffix: bool,
    pub distributions: DistributionKind,
    pub quantiles: &'a [f64],
    pub label_value_max: Option<Size>,
    pub expire: Interval,
    pub max_series: usize,
    pub start_at_zero: bool,
}

/// The quantiles of a summary, if nothing else is said.
pub fn default_quantiles() -> Vec<f64> {
    vec![0.5, 0.9, 0.95, 0.99, 1.0]
}

/// After how long a series is forgotten, if nothing else is said.
pub fn default_expire() -> Interval {
    Interval(Duration::from_secs(600))
}

/// How many series there may be, if nothing else is said.
pub fn default_max_series() -> usize {
    1_000_000
}

/// What is on, if nothing else is said.
pub fn yes() -> bool {
    true
}

impl SeriesOptions<'_> {
    /// Faults, as (JSON pointer, "what is wrong; what to write instead").
    pub fn check(&self) -> Vec<(String, String)> {
        let mut faults = Vec::new();
        for name in self.labels.keys().filter(|name| !is_label(name)) {
            let pointer = format!("/labels/{}", name.replace('~', "~0").replace('/', "~1"));
            faults.push((pointer, not_a_label(name)));
        }
        if !self.host_label.is_empty() && !is_label(self.host_label) {
            let text = format!("{}, or '' for none", not_a_label(self.host_label));
            faults.push(("/host_label".to_owned(), text));
        }
        for (index, quantile) in self.quantiles.iter().enumerate() {
            let text = match () {
                () if !(0.0..=1.0).contains(quantile) => "is no quantile; write 0 to 1",
                () if self.quantiles[..index].contains(quantile) => "is a duplicate; remove it",
                () => continue,
            };
            faults.push((format!("/quantiles/{index}"), text.to_owned()));
        }
        if self.expire.0.as_secs() == 0 || self.expire.0.as_secs() > u64::from(u32::MAX) {
            faults.push((
                "/expire".to_owned(),
                "is out of range; write at least 1s, such as 10m".to_owned(),
            ));
        }
        faults
    }

    /// As encoders need them.
    pub fn distributions(&self) -> Distributions {
        match self.distributions {
            DistributionKind::Summary => Distributions::Summary(self.quantiles.to_vec()),
            DistributionKind::Native => Distributions::Native,
        }
    }

    /// As an accumulator needs them.
    pub fn build(&self) -> Options {
        let rules = LabelRules {
            constant: self
                .labels
                .iter()
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            host_label: (!self.host_label.is_empty()).then(|| self.host_label.to_owned()),
            counter_suffix: self.counter_suffix,
            value_bytes_max: self.label_value_max.map_or(usize::MAX, |max| max.0 as usize),
        };
        Options {
            rules,
            distributions: self.distributions(),
            expire_seconds: self.expire.0.as_secs() as u32,
            series_max: self.max_series,
            starts_at_zero: self.start_at_zero,
            seed: secret_seed(),
        }
    }
}

/// What is wrong with a name that is none of a label.
fn not_a_label(name: &str) -> String {
    let text = match name {
        "quantile" => "is reserved for the quantiles of summaries; write another name",
        _ => "is no name of a label; write letters, digits and `_`, not `__` first",
    };
    text.to_owned()
}

/// Whether a text is a label's name as it stands, and none that has a meaning of its own.
fn is_label(name: &str) -> bool {
    let mut allowed = Vec::new();
    push_label_name(name.as_bytes(), &mut allowed);
    allowed == name.as_bytes() && name != "quantile"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_their_place_and_advice() {
        let labels = ["a:b", "__x", "quantile", "ok"].map(|name| (name.to_owned(), "v".to_owned()));
        let options = SeriesOptions {
            labels: &BTreeMap::from(labels),
            host_label: "my host",
            counter_suffix: true,
            distributions: DistributionKind::Summary,
            quantiles: &[0.5, 1.5, 0.5],
            label_value_max: None,
            expire: Interval(Duration::from_millis(10)),
            max_series: 1,
            start_at_zero: true,
        };
        let faults = options.check();
        let of_quantile = faults.iter().find(|(pointer, _)| pointer == "/labels/quantile").unwrap();
        assert!(of_quantile.1.contains("reserved"), "{of_quantile:?}");
        let places: Vec<_> = faults.into_iter().map(|(pointer, _)| pointer).collect();
        let wanted = [
            "/labels/__x",
            "/labels/a:b",
            "/labels/quantile",
            "/host_label",
            "/quantiles/1",
            "/quantiles/2",
            "/expire",
        ];
        assert_eq!(places, wanted);
    }
}
