//! A connection that records how long its client has not been reading.

use parking_lot::Mutex;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// The progress of a connection.
#[derive(Default)]
pub struct Progress {
    is_lasting: AtomicBool,
    /// Time since which a write has been waiting for the client.
    waits_since: Mutex<Option<Instant>>,
}

impl Progress {
    /// Sets whether the response lasts until the client disconnects.
    pub fn set_lasting(&self, is_lasting: bool) {
        self.is_lasting.store(is_lasting, Ordering::Relaxed);
    }

    /// Returns whether the response lasts until the client disconnects.
    pub fn is_lasting(&self) -> bool {
        self.is_lasting.load(Ordering::Relaxed)
    }

    /// Returns how long the current write has been waiting for the client; zero if none is waiting.
    pub fn waits(&self) -> Duration {
        self.waits_since.lock().map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn note<T>(&self, written: &Poll<T>) {
        let mut since = self.waits_since.lock();
        *since = match written {
            Poll::Pending => since.or_else(|| Some(Instant::now())),
            Poll::Ready(_) => None,
        };
    }
}

/// A stream that records its progress.
pub struct Watched<S> {
    stream: S,
    progress: Arc<Progress>,
}

impl<S> Watched<S> {
    /// Wraps `stream`.
    pub fn new(stream: S, progress: Arc<Progress>) -> Watched<S> {
        Watched { stream, progress }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.progress.note(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.progress.note(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
