//! Configuration of the `prometheus_exporter` sink.

use super::{PrometheusExporter, Series};
use crate::component::{Component, SinkComponent, tcp_claim};
use crate::sinks::http_delivery::{access_files, under};
use crate::sinks::prometheus::{
    DistributionKind, Encoding, EscapingKind, SeriesOptions, default_expire, default_max_series,
    default_quantiles, yes,
};
use millstream_model::{BuildError, Expiry, OptionError, Sink, Size};
use millstream_transport::auth::AuthOptions;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Options for the `prometheus_exporter` sink.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrometheusExporterConfig {
    /// Address and port that serve `/metrics` to scrapers. The default accepts only connections
    /// from this host.
    #[serde(default = "default_listen")]
    #[schemars(extend("examples" = ["127.0.0.1:9598"]))]
    pub listen: String,
    /// Credentials that scrapers must send. Without them, any scraper has access. Set them if
    /// `listen` is reachable from other hosts.
    #[serde(default)]
    pub auth: Option<AuthOptions>,
    /// Labels added to every series. A tag with the same name takes precedence.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Name of a label for the host name. The default is no label because Prometheus already adds
    /// `instance`.
    #[serde(default)]
    pub host_label: String,
    /// Whether to append `_total` to counter names that lack it, as OpenMetrics requires.
    #[serde(default = "yes")]
    pub counter_suffix: bool,
    /// How invalid metric and label names are escaped.
    #[serde(default)]
    pub name_escaping: EscapingKind,
    /// Quantiles for summaries, each from 0 to 1.
    #[serde(default = "default_quantiles")]
    pub quantiles: Vec<f64>,
    /// Maximum size of a label value in bytes; longer values are truncated. The default is
    /// unlimited.
    #[serde(default)]
    pub label_value_max: Option<Size>,
    /// Idle time after which a series is removed, or `never`.
    #[serde(default = "default_expire")]
    pub expire: Expiry,
    /// Maximum number of series; events that would create more series are rejected. Each series
    /// takes about 150 bytes plus its labels.
    #[serde(default = "default_max_series")]
    #[schemars(range(min = 1, max = 100_000_000))]
    pub max_series: usize,
}

fn default_listen() -> String {
    "127.0.0.1:9598".to_owned()
}

impl PrometheusExporterConfig {
    fn address(&self) -> Result<SocketAddr, String> {
        self.listen.parse().map_err(|_| {
            format!(
                "{:?} is not an address with a port; use, for example, 127.0.0.1:9598",
                self.listen
            )
        })
    }

    pub(super) fn series(&self) -> SeriesOptions<'_> {
        SeriesOptions {
            labels: &self.labels,
            host_label: &self.host_label,
            counter_suffix: self.counter_suffix,
            name_escaping: self.name_escaping,
            distributions: DistributionKind::Summary,
            quantiles: &self.quantiles,
            label_value_max: self.label_value_max,
            expire: self.expire,
            max_series: self.max_series,
            start_at_zero: false,
        }
    }
}

impl Component for PrometheusExporterConfig {
    fn check(&self) -> Vec<OptionError> {
        let mut errors = self.series().check();
        errors.extend(self.address().err().map(|text| OptionError::new("/listen", text)));
        errors.extend(self.auth.iter().flat_map(|auth| under("auth", auth.check())));
        errors
    }

    fn claims(&self) -> Vec<String> {
        self.address().ok().and_then(tcp_claim).into_iter().collect()
    }

    fn files(&self) -> Vec<(String, PathBuf)> {
        access_files(self.auth.as_ref(), None)
    }

    fn wants_metrics(&self) -> bool {
        true
    }
}

impl SinkComponent for PrometheusExporterConfig {
    fn build(&self) -> Result<Arc<dyn Sink>, BuildError> {
        let series = self.series();
        Ok(Arc::new(PrometheusExporter {
            listen: self.address().map_err(BuildError::Options)?,
            auth: self.auth.clone().map(|auth| Arc::new(auth.build())),
            encoding: Encoding::new(series.distributions(), None),
            series: Arc::new(Series::new(series.build())),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_address_is_reported_with_advice() {
        let errors = |listen: &str| {
            let config = serde_json::json!({ "listen": listen });
            serde_json::from_value::<PrometheusExporterConfig>(config).unwrap().check()
        };
        assert!(errors("127.0.0.1:9598").is_empty() && errors("[::1]:0").is_empty());
        for listen in ["9598", ":9598", "localhost:9598", "127.0.0.1"] {
            let text = format!(
                "{listen:?} is not an address with a port; use, for example, 127.0.0.1:9598"
            );
            assert_eq!(errors(listen), [OptionError::new("/listen", text)]);
        }
    }
}
