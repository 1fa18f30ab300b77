//! Series options shared by the Prometheus sinks.

use crate::util::seed::secret_seed;
use millstream_encodings::prometheus::{
    Distributions, EXPIRE_NEVER, LabelRules, NameEscaping, Options, push_label_name,
};
use millstream_model::{Expiry, Interval, OptionError, Size};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Format of exported distributions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DistributionKind {
    /// Summaries: the quantiles for the period, and the sum and count over all periods.
    #[default]
    Summary,
    /// Native histograms over all periods. Prometheus accepts them with
    /// `--enable-feature=native-histograms`.
    Native,
}

/// How the sink escapes metric and label names so that every Prometheus version accepts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EscapingKind {
    /// Replaces each invalid character with `_`. If several names become the same name, only the
    /// first is exposed.
    #[default]
    Underscores,
    /// Prometheus' value escaping, such as `U__a_2e_b` for `a.b`: different names stay different,
    /// and readers can restore the original.
    Values,
}

/// Series options for a sink.
pub struct SeriesOptions<'a> {
    pub labels: &'a BTreeMap<String, String>,
    pub host_label: &'a str,
    pub counter_suffix: bool,
    pub name_escaping: EscapingKind,
    pub distributions: DistributionKind,
    pub quantiles: &'a [f64],
    pub label_value_max: Option<Size>,
    pub expire: Expiry,
    pub max_series: usize,
    pub start_at_zero: bool,
}

/// Default quantiles for summaries.
pub fn default_quantiles() -> Vec<f64> {
    vec![0.5, 0.9, 0.95, 0.99, 1.0]
}

/// Default time after which an idle series is evicted.
pub fn default_expire() -> Expiry {
    Expiry::After(Interval(Duration::from_secs(600)))
}

/// Default limit on the number of series.
pub fn default_max_series() -> usize {
    1_000_000
}

/// Default of options that are enabled by default.
pub fn yes() -> bool {
    true
}

impl SeriesOptions<'_> {
    /// Returns the errors, as (JSON pointer, "what is wrong; what to use instead").
    pub fn check(&self) -> Vec<OptionError> {
        let mut errors = Vec::new();
        for name in self.labels.keys().filter(|name| !is_label(name)) {
            let pointer = format!("/labels/{}", name.replace('~', "~0").replace('/', "~1"));
            errors.push(OptionError::new(pointer, not_a_label(name)));
        }
        if !self.host_label.is_empty() && !is_label(self.host_label) {
            let text = format!("{}, or '' for none", not_a_label(self.host_label));
            errors.push(OptionError::new("/host_label", text));
        }
        for (index, quantile) in self.quantiles.iter().enumerate() {
            let text = match () {
                () if !(0.0..=1.0).contains(quantile) => "is not a quantile; use 0 to 1",
                () if self.quantiles[..index].contains(quantile) => "is a duplicate; remove it",
                () => continue,
            };
            errors.push(OptionError::new(format!("/quantiles/{index}"), text.to_owned()));
        }
        if self.expire_seconds().is_none_or(|seconds| seconds == 0) {
            let text = "is out of range; use at least 1s, such as 10m, or never";
            errors.push(OptionError::new("/expire", text));
        }
        errors
    }

    /// Returns the seconds after which an idle series expires; `None` if there are too many.
    fn expire_seconds(&self) -> Option<u32> {
        match self.expire.duration() {
            Some(duration) => u32::try_from(duration.as_secs()).ok(),
            None => Some(EXPIRE_NEVER),
        }
    }

    /// Returns the distribution settings of encoders.
    pub fn distributions(&self) -> Distributions {
        match self.distributions {
            DistributionKind::Summary => Distributions::Summary(self.quantiles.to_vec()),
            DistributionKind::Native => Distributions::Native,
        }
    }

    /// Returns the settings for an accumulator.
    pub fn build(&self) -> Options {
        let rules = LabelRules {
            constant: self
                .labels
                .iter()
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            host_label: (!self.host_label.is_empty()).then(|| self.host_label.to_owned()),
            counter_suffix: self.counter_suffix,
            escaping: match self.name_escaping {
                EscapingKind::Underscores => NameEscaping::Underscores,
                EscapingKind::Values => NameEscaping::Values,
            },
            value_bytes_max: self.label_value_max.map_or(usize::MAX, |max| max.0 as usize),
        };
        Options {
            rules,
            distributions: self.distributions(),
            expire_seconds: self.expire_seconds().unwrap_or(EXPIRE_NEVER),
            series_max: self.max_series,
            starts_at_zero: self.start_at_zero,
            seed: secret_seed(),
        }
    }
}

/// Explains why a name is not a valid label name.
fn not_a_label(name: &str) -> String {
    let text = match name {
        "quantile" => "is reserved for the quantiles of summaries; use another name",
        _ => "is not a label name; use letters, digits and `_`, not starting with `__`",
    };
    text.to_owned()
}

/// Returns whether `text` is a valid label name without a reserved meaning.
fn is_label(name: &str) -> bool {
    let mut allowed = Vec::new();
    push_label_name(name.as_bytes(), &mut allowed);
    allowed == name.as_bytes() && name != "quantile"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_a_pointer_and_advice() {
        let labels = ["a:b", "__x", "quantile", "ok"].map(|name| (name.to_owned(), "v".to_owned()));
        let options = SeriesOptions {
            labels: &BTreeMap::from(labels),
            host_label: "my host",
            counter_suffix: true,
            name_escaping: EscapingKind::Underscores,
            distributions: DistributionKind::Summary,
            quantiles: &[0.5, 1.5, 0.5],
            label_value_max: None,
            expire: Expiry::After(Interval(Duration::from_millis(10))),
            max_series: 1,
            start_at_zero: true,
        };
        let errors = options.check();
        let of_quantile = errors.iter().find(|error| error.pointer == "/labels/quantile").unwrap();
        assert!(of_quantile.what.contains("reserved"), "{of_quantile:?}");
        let of_expire = errors.iter().find(|error| error.pointer == "/expire").unwrap();
        assert!(of_expire.message().ends_with("such as 10m, or never"), "{of_expire:?}");
        let never = SeriesOptions { expire: Expiry::Never, ..options };
        assert!(never.check().iter().all(|error| error.pointer != "/expire"));
        assert_eq!(never.build().expire_seconds, EXPIRE_NEVER);
        let places: Vec<_> = errors.into_iter().map(|error| error.pointer).collect();
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
