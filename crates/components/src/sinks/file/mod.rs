//! The `file` sink appends events to files, durably.
//!
//! Events are treated as delivered after `fdatasync`, which runs once per `sync` interval for all
//! data written since the last run. The synced lengths are kept with the checkpoints. After a
//! crash, files are truncated to these lengths, which removes torn lines and avoids duplicates of
//! events that are reread.

pub mod compress;
mod config;
mod disk;
mod files;
mod rotation;
mod route;
mod settings;
mod synced;
mod writer;

pub use config::FileConfig;

use crate::codec::Encoding;
use crate::sinks::file::route::{Routes, RoutingEncoder, SingleRouteEncoder};
use crate::util::template::Template;
use files::Files;
use millstream_model::{
    BoxFuture, DeliverError, Delivery, Encoder, Lane, LaneCx, Payload, Routing, RoutingError, Sink,
};
use parking_lot::Mutex;
use settings::Settings;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A `file` sink. It creates encoders, and lanes that append to files.
struct FileSink {
    path: Template,
    encoding: Encoding,
    sync: Duration,
    settings: Settings,
}

impl Sink for FileSink {
    fn encoder(&self) -> Box<dyn Encoder> {
        match self.path.is_constant() {
            true => Box::new(SingleRouteEncoder::new(&self.encoding, self.path.literal_prefix())),
            false => Box::new(RoutingEncoder::new(&self.encoding, &self.path)),
        }
    }

    /// Returns a format that does not depend on the path: a payload goes to the files for which it
    /// was encoded, even if the path has changed since then. The format names the compression, and
    /// says whether the path may contain links, which depends on who chose its values.
    fn payload_format(&self) -> String {
        let compression = self.settings.compression.0.name();
        let links = if self.settings.follow_links { "" } else { " without links" };
        format!("file/1 {compression}{links}")
    }

    fn read_routing(
        &self,
        bytes: &[u8],
        payload: &Payload,
    ) -> Result<Option<Arc<dyn Routing>>, RoutingError> {
        Ok(Some(Arc::new(Routes::read(bytes, payload.parts.len())?)))
    }

    fn payload_bytes_max(&self, block_bytes: u64, rows: u64) -> u64 {
        // The events of several files are encoded, then copied and grouped by file.
        let times = if self.path.is_constant() { 1 } else { 2 };
        times * self.encoding.payload_bytes_max(block_bytes, rows)
    }

    /// Returns the memory use of one compressed member in progress.
    fn state_bytes_min(&self) -> u64 {
        self.settings.member_bytes()
    }

    fn lane(&self, cx: LaneCx) -> Box<dyn Lane> {
        let settings = self.settings.within(cx.state_bytes);
        // Truncate torn data from a crash now, before any event arrives.
        let files = Files::new(settings, cx.state.as_deref(), cx.keep, cx.counters);
        Box::new(FileLane {
            files: Arc::new(Mutex::new(files)),
            sync: self.sync,
            wants_sync: false,
            idle_timeout: Some(self.settings.idle_timeout),
        })
    }
}

struct FileLane {
    files: Arc<Mutex<Files>>,
    sync: Duration,
    wants_sync: bool,
    /// Idle timeout; `None` after the task that closes idle files has started.
    idle_timeout: Option<Duration>,
}

impl FileLane {
    /// Runs `work` on the blocking pool, because disk I/O may block for seconds.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Files) -> io::Result<T> + Send + 'static,
    ) -> Result<T, DeliverError> {
        let files = self.files.clone();
        let run = move || work(&mut files.lock());
        let result = tokio::task::spawn_blocking(run)
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)));
        result.map_err(|error| failed(&error))
    }
}

/// Closes idle files while the lane exists.
async fn close_idle(files: Weak<Mutex<Files>>, idle_timeout: Duration) {
    loop {
        tokio::time::sleep(idle_timeout / 2).await;
        let Some(files) = files.upgrade() else { return };
        let _ = tokio::task::spawn_blocking(move || files.lock().close_idle()).await;
    }
}

fn failed(error: &io::Error) -> DeliverError {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "disk_full",
        io::ErrorKind::PermissionDenied => "permission",
        _ => "write",
    };
    DeliverError::retry(kind, format!("cannot write to {error}")).with_system_error(error)
}

impl Lane for FileLane {
    fn deliver<'a>(
        &'a mut self,
        payload: &'a Payload,
    ) -> BoxFuture<'a, Result<Delivery, DeliverError>> {
        Box::pin(async move {
            if let Some(idle_timeout) = self.idle_timeout.take() {
                tokio::spawn(close_idle(Arc::downgrade(&self.files), idle_timeout));
            }
            let Some(routes) = payload.routing_as::<Routes>().cloned() else {
                return Err(DeliverError::reject(
                    "panic",
                    "received another sink's payload; this is a bug",
                ));
            };
            let parts = payload.parts.clone();
            let deliver = move |files: &mut Files| {
                files.deliver(&parts, &routes.0)?;
                Ok(files.wants_sync())
            };
            self.wants_sync = self.blocking(deliver).await?;
            Ok(Delivery::Taken)
        })
    }

    fn sync(&mut self) -> BoxFuture<'_, Result<Option<Vec<u8>>, DeliverError>> {
        Box::pin(async move {
            let state = self.blocking(|files| files.sync().map(Some)).await?;
            self.wants_sync = false;
            Ok(state)
        })
    }

    fn sync_interval(&self) -> Duration {
        self.sync
    }

    fn wants_sync(&self) -> bool {
        self.wants_sync
    }

    fn close(&mut self) -> Option<Vec<u8>> {
        Some(self.files.lock().close())
    }
}
