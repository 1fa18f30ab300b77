//! Configuration of the `prometheus_remote_write` sink.

use super::PrometheusRemoteWrite;
use super::packer::{Limits, Protocol};
use crate::component::{Component, SinkComponent};
use crate::sinks::http_delivery::{
    Access, BatchOptions, Jitter, RequestOptions, Settings, targets,
};
use crate::sinks::prometheus::{
    DistributionKind, Encoding, EscapingKind, SeriesOptions, default_expire, default_max_series,
    default_quantiles, yes,
};
use millstream_model::{BuildError, Expiry, OptionError, Sink, Size};
use millstream_transport::auth::AuthOptions;
use millstream_transport::tls::TlsFiles;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Options for the `prometheus_remote_write` sink.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrometheusRemoteWriteConfig {
    /// Address that requests are sent to, such as `http://127.0.0.1:9090/api/v1/write`.
    #[serde(default)]
    pub uri: Option<String>,
    /// Several addresses for one backend, instead of `uri`; each request goes to one address.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub endpoints: Vec<String>,
    /// The agent's credentials.
    #[serde(default)]
    pub auth: Option<AuthOptions>,
    /// TLS settings for connections to `https` addresses.
    #[serde(default)]
    pub tls: Option<TlsFiles>,
    /// HTTP proxy for connections to the endpoints, such as `http://proxy.example:3128`, or `none`.
    /// By default, the sink uses the environment variables `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`
    /// and `NO_PROXY`.
    #[serde(default)]
    pub proxy: Option<String>,
    /// Additional headers to send with each request, such as `X-Scope-OrgID`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Version of the remote write protocol; `auto` probes the endpoint.
    #[serde(default)]
    pub protocol: Protocol,
    /// Limits on the events in a request.
    #[serde(default)]
    pub batch: BatchOptions,
    /// Timeouts and limits for requests.
    #[serde(default)]
    pub request: RequestOptions,
    /// Time window, after the end of a metric period, in which this host sends its requests.
    #[serde(default)]
    pub spread: Jitter,
    /// Labels added to every series. A tag with the same name takes precedence.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Name of the label for the host name; `''` adds no label.
    #[serde(default = "default_host_label")]
    pub host_label: String,
    /// Whether to append `_total` to counter names that lack it, as OpenMetrics requires.
    #[serde(default = "yes")]
    pub counter_suffix: bool,
    /// How invalid metric and label names are escaped.
    #[serde(default)]
    pub name_escaping: EscapingKind,
    /// Format of exported distributions.
    #[serde(default)]
    pub distributions: DistributionKind,
    /// Quantiles for summaries, each from 0 to 1.
    #[serde(default = "default_quantiles")]
    pub quantiles: Vec<f64>,
    /// Whether a new sum starts with a sample of 0 at the beginning of its first period, so that
    /// the first increase is visible in rates.
    #[serde(default = "yes")]
    pub start_at_zero: bool,
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

fn default_host_label() -> String {
    "host".to_owned()
}

impl PrometheusRemoteWriteConfig {
    fn access(&self) -> Access<'_> {
        Access { headers: &self.headers, auth: &self.auth, tls: &self.tls, proxy: &self.proxy }
    }

    fn series(&self) -> SeriesOptions<'_> {
        SeriesOptions {
            labels: &self.labels,
            host_label: &self.host_label,
            counter_suffix: self.counter_suffix,
            name_escaping: self.name_escaping,
            distributions: self.distributions,
            quantiles: &self.quantiles,
            label_value_max: self.label_value_max,
            expire: self.expire,
            max_series: self.max_series,
            start_at_zero: self.start_at_zero,
        }
    }
}

impl Component for PrometheusRemoteWriteConfig {
    fn check(&self) -> Vec<OptionError> {
        let (targets, mut errors) = targets(self.uri.as_deref(), &self.endpoints);
        errors.extend(self.access().check(&targets));
        errors.extend(self.batch.check());
        errors.extend(self.request.check());
        if self.request.concurrency > 1 {
            let text = "would reorder the values of a series; remove it";
            errors.push(OptionError::new("/request/concurrency", text.to_owned()));
        }
        errors.extend(self.series().check());
        errors
    }

    fn outputs(&self) -> Vec<String> {
        vec!["rejected".to_owned()]
    }

    fn proxies(&self) -> Vec<String> {
        self.access().proxies(&targets(self.uri.as_deref(), &self.endpoints).0)
    }

    fn files(&self) -> Vec<(String, PathBuf)> {
        self.access().files()
    }

    fn wants_metrics(&self) -> bool {
        true
    }
}

impl SinkComponent for PrometheusRemoteWriteConfig {
    fn build(&self) -> Result<Arc<dyn Sink>, BuildError> {
        let series = self.series();
        let (targets, _) = targets(self.uri.as_deref(), &self.endpoints);
        let settings = Settings::new(targets, self.access(), self.batch, self.request);
        Ok(Arc::new(PrometheusRemoteWrite {
            encoding: Encoding::new(series.distributions(), Some(self.spread)),
            settings: Arc::new(settings),
            options: series.build(),
            limits: Limits {
                events: self.batch.events,
                bytes: self.batch.bytes.0 as usize,
                protocol: self.protocol,
            },
        }))
    }
}
