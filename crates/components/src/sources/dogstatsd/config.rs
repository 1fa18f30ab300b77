//! Configuration of source `dogstatsd`.

use crate::metrics::config::{Kind, PointOptions};
use crate::metrics::intake::Protocol;
use crate::registry::{Component, SourceComponent};
use millstream_model::{BuildError, Source, SourceOpen};
use millstream_points::dogstatsd;
use millstream_receiver::Framing;
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

/// Options of source `dogstatsd`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DogStatsdConfig {
    /// Whether a gauge with a sign is a change of it, as in plain StatsD, and not a value.
    pub gauge_deltas: bool,
    /// What all sources of points have.
    #[serde(flatten)]
    pub points: PointOptions,
}

impl Component for DogStatsdConfig {
    fn makes_metrics(&self) -> bool {
        true
    }

    fn check(&self) -> Vec<(String, String)> {
        self.points.check(&KIND)
    }

    fn claims(&self) -> Vec<String> {
        self.points.claims(&KIND)
    }
}

impl SourceComponent for DogStatsdConfig {
    fn open(self, open: SourceOpen) -> Result<Box<dyn Source>, BuildError> {
        let protocol = Protocol::DogStatsd(dogstatsd::Options { gauge_deltas: self.gauge_deltas });
        self.points.open(&KIND, protocol, open)
    }
}
