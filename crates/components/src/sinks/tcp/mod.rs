//! The `tcp` sink sends events over TCP, as lines or frames, with TLS and acknowledgements.
//!
//! Workers encode. The lane numbers the frames and passes them to a connection, which a task
//! drives. Unsettled frames are kept in order, and resent over the next connection after a failure.
//!
//! With acknowledgements, a frame is settled when the endpoint acknowledges it. Without them, a
//! frame is settled when the endpoint's kernel has acknowledged its bytes, so that a reset cannot
//! lose them.

mod config;
mod connection;
mod encoder;
mod frame;
mod lane;
mod protocol;
mod targets;

pub use config::TcpConfig;

use encoder::TcpEncoder;
use lane::TcpLane;
use millstream_model::limits::BATCH_ROWS_MAX;
use millstream_model::{Encoder, Lane, LaneCx, Sink};
use millstream_transport::tls::Tls;
use std::sync::Arc;

/// A `tcp` sink. It creates encoders, and lanes with one connection each.
struct TcpSink {
    config: Arc<TcpConfig>,
    /// TLS settings of all lanes, so that the files are read once.
    tls: Option<Arc<Tls>>,
}

impl Sink for TcpSink {
    fn encoder(&self) -> Box<dyn Encoder> {
        Box::new(TcpEncoder::new(&self.config))
    }

    fn payload_format(&self) -> String {
        self.config.payload_format()
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
