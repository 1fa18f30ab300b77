//! The `prometheus_exporter` sink keeps the last value of every series for Prometheus to scrape.
//!
//! Workers encode rows. The lane adds them to the series on the blocking pool. A server on the
//! network thread responds to scrapes with text that the blocking pool renders in chunks.

mod config;
mod lane;
mod server;
mod text;

pub use config::PrometheusExporterConfig;

use crate::sinks::prometheus::{Encoding, RowsEncoder};
use lane::ExporterLane;
use millstream_encodings::prometheus::{Exposition, Options};
use millstream_model::{Encoder, Lane, LaneCx, Payload, Routing, RoutingError, Sink};
use millstream_transport::auth::Auth;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// The series, which the lane updates and scrapes read.
struct Series {
    exposition: Mutex<Exposition>,
    /// Number of scrapes in progress. Series keep their positions until the scrapes are done. The
    /// counter is outside of the lock, because the network thread must not wait for the lock. A
    /// scrape is counted before it takes the lock for the first time.
    scrapes: AtomicUsize,
}

impl Series {
    fn new(options: Options) -> Series {
        Series { exposition: Mutex::new(Exposition::new(options)), scrapes: AtomicUsize::new(0) }
    }
}

/// A `prometheus_exporter` sink. It creates encoders, and the lane that serves the series.
struct PrometheusExporter {
    listen: SocketAddr,
    auth: Option<Arc<Auth>>,
    encoding: Arc<Encoding>,
    series: Arc<Series>,
}

impl Sink for PrometheusExporter {
    fn encoder(&self) -> Box<dyn Encoder> {
        Box::new(RowsEncoder::new(self.encoding.clone()))
    }

    fn payload_format(&self) -> String {
        self.encoding.payload_format("prometheus_exporter")
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
        Box::new(ExporterLane::new(self, cx))
    }
}
