//! A stream that can still read a response after the peer has closed it for writing.
//!
//! A server that rejects a large request may respond and close before it has read the whole
//! request; its kernel then resets the connection. The response is in the local receive buffer, but
//! the next write fails, so a client that stops at this error never sees the response.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream whose writes stay pending once the peer has closed it. Reads first return the buffered
/// data, and then the write error.
pub struct ReadAfterClose<S> {
    stream: S,
    /// The error from the first failed write.
    closed: Option<io::Error>,
    is_closed: bool,
}

impl<S> ReadAfterClose<S> {
    /// Wraps a stream. The same task must perform its reads and writes.
    pub fn new(stream: S) -> ReadAfterClose<S> {
        ReadAfterClose { stream, closed: None, is_closed: false }
    }

    fn written<T>(&mut self, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
        match result {
            Poll::Ready(Err(error))
                if matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset) =>
            {
                // A read will wake the task, because at least the end of the stream has not been
                // read yet.
                (self.closed, self.is_closed) = (Some(error), true);
                Poll::Pending
            }
            result => result,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ReadAfterClose<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let is_end = buffer.filled().len() == before;
        Poll::Ready(self.closed.take_if(|_| is_end).map_or(Ok(()), Err))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ReadAfterClose<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_closed {
            return Poll::Pending;
        }
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.is_closed {
            return Poll::Pending;
        }
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.written(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(cx);
        self.written(result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
