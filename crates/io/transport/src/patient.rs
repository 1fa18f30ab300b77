//! A stream on which an answer is read although the endpoint no longer takes what is sent.
//!
//! A server that refuses a large request may answer and close before it has read it all; its kernel
//! then resets the connection. The answer lies here already, but the next write fails, and a client
//! that stops there never sees why.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream whose writes wait for ever when the endpoint has closed it; reads then give what has
/// come, and at the end of that the error.
pub struct Patient<S> {
    stream: S,
    /// Why nothing can be written any more.
    closed: Option<io::Error>,
    is_closed: bool,
}

impl<S> Patient<S> {
    /// Wraps a stream. Who writes to it must read from it in the same task.
    pub fn new(stream: S) -> Patient<S> {
        Patient { stream, closed: None, is_closed: false }
    }

    fn written<T>(&mut self, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
        match result {
            Poll::Ready(Err(error))
                if matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset) =>
            {
                // The task is woken by what is read: at least its end is.
                (self.closed, self.is_closed) = (Some(error), true);
                Poll::Pending
            }
            result => result,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
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

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
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
