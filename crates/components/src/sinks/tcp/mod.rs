//! Sink `tcp`: sends events over TCP, as lines or frames, with TLS and acknowledgements.
//!
//! Workers encode; the lane numbers what it takes and hands it to a link, a task with a connection.
//! What is not settled is kept, in order, and goes over the next link when one fails.
//!
//! Settled is what the endpoint has acknowledged in its answers, where these are asked for; else
//! what the kernel of the endpoint has acknowledged, which a reset cannot take back any more.

mod config;
mod encoder;
mod frames;
mod lane;
mod link;
mod targets;
mod unit;

pub use config::TcpConfig;

use encoder::TcpEncoder;
use lane::TcpLane;
use millstream_model::limits::BATCH_ROWS_MAX;
use millstream_model::{Encoder, Lane, LaneCx, Sink};
use millstream_transport::tls::Tls;
use std::sync::Arc;

/// The sink.
struct TcpSink {
    config: Arc<TcpConfig>,
    /// Shared by all lanes: the files are read once.
    tls: Option<Arc<Tls>>,
}

impl Sink for TcpSink {
    fn encoder(&self) -> Box<dyn Encoder> {
        Box::new(TcpEncoder::new(&self.config))
    }

    fn payload_bytes_max(&self, block_bytes: u64, rows: u64) -> u64 {
        let lengths = rows.min(BATCH_ROWS_MAX as u64) * encoder::LENGTH_BYTES as u64;
        self.config.encoding.payload_bytes_max(block_bytes, rows) + lengths
    }

    fn lanes(&self) -> usize {
        self.config.connections
    }

    fn lane(&self, cx: LaneCx) -> Box<dyn Lane> {
        Box::new(TcpLane::new(self.config.clone(), self.tls.clone(), cx))
    }
}
