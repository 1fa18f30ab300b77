//! Sink `file`: appends events to a file, durably.
//!
//! Events count as delivered after `fdatasync`, once per `sync` interval for all that were written
//! since. The length that was synced is kept with the checkpoints. After a crash the file is cut
//! back to it, so that nothing is torn and what is read again is not there twice.

mod config;
mod writer;

pub use config::FileConfig;

use crate::codec::Encoding;
use millstream_model::{BoxFuture, DeliverError, Delivery, Encoder, Lane, LaneCx, Payload, Sink};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use writer::Writer;

/// The sink.
struct FileSink {
    path: PathBuf,
    encoding: Encoding,
    sync: Duration,
}

impl Sink for FileSink {
    fn encoder(&self) -> Box<dyn Encoder> {
        self.encoding.encoder()
    }

    fn payload_bytes_max(&self, block_bytes: u64, rows: u64) -> u64 {
        self.encoding.payload_bytes_max(block_bytes, rows)
    }

    fn lane(&self, cx: LaneCx) -> Box<dyn Lane> {
        let mut writer = Writer::new(self.path.clone(), cx.state.as_deref(), cx.keep);
        // What a crash left torn is mended now, not when the next event happens to come.
        if writer.resumes()
            && let Err(error) = writer.open()
        {
            log::warn!("{}: {error}; trying again with the first event", self.path.display());
        }
        Box::new(FileLane { path: self.path.clone(), writer: Arc::new(Mutex::new(writer)), sync: self.sync })
    }
}

struct FileLane {
    path: PathBuf,
    writer: Arc<Mutex<Writer>>,
    sync: Duration,
}

impl FileLane {
    /// Disks may block for seconds: off the runtime's thread.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> io::Result<T> + Send + 'static,
    ) -> Result<T, DeliverError> {
        let writer = self.writer.clone();
        let run = move || work(&mut writer.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        let result =
            tokio::task::spawn_blocking(run).await.unwrap_or_else(|error| Err(io::Error::other(error)));
        result.map_err(|error| failed(&self.path, &error))
    }
}

fn failed(path: &Path, error: &io::Error) -> DeliverError {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "disk_full",
        io::ErrorKind::PermissionDenied => "permission",
        _ => "write",
    };
    DeliverError::retry(kind, format!("cannot write {}: {error}", path.display()))
}

impl Lane for FileLane {
    fn deliver<'a>(&'a mut self, payload: &'a Payload) -> BoxFuture<'a, Result<Delivery, DeliverError>> {
        Box::pin(async move {
            let parts = payload.parts.clone();
            self.blocking(move |writer| writer.append(&parts)).await.map(|()| Delivery::Taken)
        })
    }

    fn sync(&mut self) -> BoxFuture<'_, Result<Option<Vec<u8>>, DeliverError>> {
        Box::pin(async move { self.blocking(|writer| writer.sync().map(Some)).await })
    }

    fn sync_interval(&self) -> Duration {
        self.sync
    }

    fn close(&mut self) -> Option<Vec<u8>> {
        self.writer.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).close()
    }
}
