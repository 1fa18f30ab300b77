//! The `prometheus_remote_write` sink sends metrics to Prometheus or to any remote write backend.
//!
//! Workers encode rows. The packer accumulates deltas and encodes requests, once per payload
//! regardless of retries. A [`RequestLane`] sends them in order.

mod config;
mod packer;
mod refused_series;
mod split_time;

pub use config::PrometheusRemoteWriteConfig;

use crate::sinks::http_delivery::{LaneLoop, RequestLane, Settings};
use crate::sinks::prometheus::{Encoding, RowsEncoder};
use millstream_encodings::prometheus::Options;
use millstream_model::{Encoder, Lane, LaneCx, Payload, Routing, RoutingError, Sink};
use packer::{Limits, RemotePacker};
use std::sync::Arc;

/// A `prometheus_remote_write` sink. It creates encoders, and lanes that send requests in order.
struct PrometheusRemoteWrite {
    encoding: Arc<Encoding>,
    settings: Arc<Settings>,
    options: Options,
    limits: Limits,
}

impl Sink for PrometheusRemoteWrite {
    fn encoder(&self) -> Box<dyn Encoder> {
        Box::new(RowsEncoder::new(self.encoding.clone()))
    }

    fn payload_format(&self) -> String {
        self.encoding.payload_format("prometheus_remote_write")
    }

    fn read_routing(
        &self,
        bytes: &[u8],
        payload: &Payload,
    ) -> Result<Option<Arc<dyn Routing>>, RoutingError> {
        self.encoding.read_routing(bytes, payload)
    }

    fn payload_bytes_max(&self, block_bytes: u64, rows: u64) -> u64 {
        self.encoding.payload_bytes_max(block_bytes, rows)
    }

    fn lane(&self, cx: LaneCx) -> Box<dyn Lane> {
        let packer = RemotePacker::new(self.options.clone(), self.limits, &cx);
        Box::new(LaneLoop::new(RequestLane::new(self.settings.clone(), packer, cx)))
    }
}
