//! Configuration of the `metricserver` source.

use crate::component::{Component, SourceComponent};
use crate::sources::points::config::{Kind, PointOptions};
use crate::sources::points::percentiles;
use crate::sources::points::point_handler::Protocol;
use millstream_model::{BuildError, OptionError, Source, SourceOpen};
use millstream_receiver::Framing;
use millstream_series::Summaries;
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;

const KIND: Kind = Kind {
    listen: "udp://127.0.0.1:9123",
    period: Duration::from_secs(30),
    schemes: &["udp", "unixgram", "unixpacket", "unix"],
    presets: &[
        ("udp", "udp://127.0.0.1:9123"),
        ("metricserver", "unixgram:///opt/tmp/sock/metric.sock"),
        ("metricserver_tmp", "unixgram:///tmp/metric.sock"),
    ],
    tcp: Framing::Length,
};

/// Options for the `metricserver` source.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MetricServerConfig {
    /// Percentiles for timers and histograms, each from 0 to 1. The default is 0.5, 0.9, 0.95,
    /// 0.99, 0.995 and 0.999.
    pub percentiles: Option<Vec<f64>>,
    /// Options that all point sources share.
    #[serde(flatten)]
    pub points: PointOptions,
}

impl Component for MetricServerConfig {
    fn makes_metrics(&self) -> bool {
        true
    }

    fn check(&self) -> Vec<OptionError> {
        let chosen = self.percentiles.as_deref();
        let errors = percentiles::check("/percentiles", chosen, self.points.has_sketches());
        self.points.check(&KIND).into_iter().chain(errors).collect()
    }

    fn claims(&self) -> Vec<String> {
        self.points.claims(&KIND)
    }
}

impl SourceComponent for MetricServerConfig {
    fn open(&self, open: SourceOpen) -> Result<Box<dyn Source>, BuildError> {
        let fractions = self.percentiles.as_deref().unwrap_or(&Summaries::PAIRS_FRACTIONS);
        self.points.open(&KIND, Protocol::MetricServer, Summaries::of_pairs(fractions), open)
    }
}
