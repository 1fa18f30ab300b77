//! The `fifo` sink writes events to a named pipe.

mod config;

pub use config::FifoConfig;

use crate::codec::Encoding;
use millstream_model::{BoxFuture, DeliverError, Delivery, Encoder, Lane, LaneCx, Payload, Sink};
use std::io;
use std::path::PathBuf;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::{OpenOptions, Sender};

/// The sink.
struct Fifo {
    encoding: Encoding,
    path: PathBuf,
}

impl Sink for Fifo {
    fn encoder(&self) -> Box<dyn Encoder> {
        self.encoding.encoder()
    }

    fn payload_format(&self) -> String {
        "fifo/1".to_owned()
    }

    fn payload_bytes_max(&self, block_bytes: u64, rows: u64) -> u64 {
        self.encoding.payload_bytes_max(block_bytes, rows)
    }

    fn lane(&self, _: LaneCx) -> Box<dyn Lane> {
        Box::new(FifoLane { path: self.path.clone(), pipe: None })
    }
}

struct FifoLane {
    path: PathBuf,
    /// The open pipe; `None` until it has a reader.
    pipe: Option<Sender>,
}

impl FifoLane {
    /// Writes a payload. Opens the pipe first if it is not open.
    async fn write(&mut self, payload: &Payload) -> io::Result<()> {
        let pipe = match &mut self.pipe {
            Some(pipe) => pipe,
            None => self.pipe.insert(OpenOptions::new().open_sender(&self.path)?),
        };
        for part in &payload.parts {
            pipe.write_all(part).await?;
        }
        Ok(())
    }
}

impl Lane for FifoLane {
    fn deliver<'a>(
        &'a mut self,
        payload: &'a Payload,
    ) -> BoxFuture<'a, Result<Delivery, DeliverError>> {
        Box::pin(async move {
            let written = self.write(payload).await;
            if written.is_err() {
                // The next attempt opens the pipe for a new reader, which gets the whole payload.
                self.pipe = None;
            }
            written
                .map(|()| Delivery::Durable)
                .map_err(|error| DeliverError::retry("write", error.to_string()))
        })
    }
}
