//! Configuration of sink `prometheus_remote_write`.

use super::PrometheusRemoteWrite;
use super::packer::Limits;
use crate::prometheus::{
    DistributionKind, Encoding, SeriesOptions, default_expire, default_max_series,
    default_quantiles, yes,
};
use crate::registry::{Component, SinkComponent};
use crate::requests::{
    BatchOptions, Jitter, RequestOptions, Settings, access_files, check_access, check_headers,
    targets,
};
use millstream_model::{BuildError, Interval, Sink, Size};
use millstream_transport::auth::AuthOptions;
use millstream_transport::tls::TlsFiles;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Options of sink `prometheus_remote_write`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrometheusRemoteWriteConfig {
    /// Where to send, for example `http://127.0.0.1:9090/api/v1/write`.
    #[serde(default)]
    pub uri: Option<String>,
    /// Several addresses of one store instead, one of which gets each request.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub endpoints: Vec<String>,
    /// Logs in.
    #[serde(default)]
    pub auth: Option<AuthOptions>,
    /// How connections to `https` addresses are encrypted.
    #[serde(default)]
    pub tls: Option<TlsFiles>,
    /// Headers of each request, such as `X-Scope-OrgID`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Version of remote write: `auto` asks the endpoint.
    #[serde(default)]
    pub protocol: Protocol,
    /// How events are collected to requests.
    #[serde(default)]
    pub batch: BatchOptions,
    /// How requests are sent.
    #[serde(default)]
    pub request: RequestOptions,
    /// Over what time after the end of a period hosts spread their requests.
    #[serde(default)]
    pub spread: Jitter,
    /// Labels of every series, unless a tag has that name.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Name of the label with the host's name; `''` for none.
    #[serde(default = "default_host_label")]
    pub host_label: String,
    /// Whether the names of counters end with `_total`.
    #[serde(default = "yes")]
    pub counter_suffix: bool,
    /// How distributions are given out.
    #[serde(default)]
    pub distributions: DistributionKind,
    /// The quantiles of a summary, 0 to 1.
    #[serde(default = "default_quantiles")]
    pub quantiles: Vec<f64>,
    /// Whether a new sum begins with a 0 at the beginning of its first period.
    #[serde(default = "yes")]
    pub start_at_zero: bool,
    /// Longest value of a label; longer ones are cut. No limit by default.
    #[serde(default)]
    pub label_value_max: Option<Size>,
    /// After how long without values a series is forgotten.
    #[serde(default = "default_expire")]
    pub expire: Interval,
    /// Series at most; events of more are refused.
    #[serde(default = "default_max_series")]
    #[schemars(range(min = 1, max = 100_000_000))]
    pub max_series: usize,
}

/// Version of remote write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum Protocol {
    /// 2.0 if the endpoint knows it, else 1.0.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    /// 1.0: every back-end takes it.
    #[serde(rename = "1")]
    One,
    /// 2.0: smaller, with types and creation times.
    #[serde(rename = "2")]
    Two,
}

fn default_host_label() -> String {
    "host".to_owned()
}

impl PrometheusRemoteWriteConfig {
    fn series(&self) -> SeriesOptions<'_> {
        SeriesOptions {
            labels: &self.labels,
            host_label: &self.host_label,
            counter_suffix: self.counter_suffix,
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
    fn check(&self) -> Vec<(String, String)> {
        let (targets, mut faults) = targets(self.uri.as_deref(), &self.endpoints);
        faults.extend(check_access(self.auth.as_ref(), self.tls.as_ref(), &targets));
        faults.extend(check_headers(&self.headers));
        faults.extend(self.batch.check());
        faults.extend(self.request.check());
        if self.request.concurrency > 1 {
            let text = "would bring the values of a series out of order; leave it out";
            faults.push(("/request/concurrency".to_owned(), text.to_owned()));
        }
        faults.extend(self.series().check());
        faults
    }

    fn files(&self) -> Vec<(String, PathBuf)> {
        access_files(self.auth.as_ref(), self.tls.as_ref())
    }

    fn wants_metrics(&self) -> bool {
        true
    }
}

impl SinkComponent for PrometheusRemoteWriteConfig {
    fn build(self) -> Result<Arc<dyn Sink>, BuildError> {
        let (series, (targets, _)) = (self.series(), targets(self.uri.as_deref(), &self.endpoints));
        let (options, encoding) =
            (series.build(), Encoding::new(series.distributions(), Some(self.spread)));
        let limits = Limits {
            events: self.batch.events,
            bytes: self.batch.bytes.0 as usize,
            protocol: self.protocol,
        };
        let settings = Settings::new(
            targets,
            &self.headers,
            self.auth,
            self.tls.unwrap_or_default(),
            (self.batch, self.request),
        );
        Ok(Arc::new(PrometheusRemoteWrite {
            encoding,
            settings: Arc::new(settings),
            options,
            limits,
        }))
    }
}
