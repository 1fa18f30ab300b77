//! TCP connections that record their reads and writes. All connections in this crate have this
//! type.

use millstream_recorder::record::{self, Subject};
use millstream_recorder::recorder::{self, Timer};
use millstream_recorder::schema::EventKind;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A TCP connection that records its reads and writes. Each successful system call is one event
/// with the number of bytes returned, which is 0 at the end of the stream. With TLS, the events
/// count encrypted bytes. A call that would block is not recorded.
pub struct RecordedStream {
    stream: TcpStream,
    peer: Subject,
}

impl RecordedStream {
    /// Records the reads and writes of `stream`, which is connected to `address`. `host` is the
    /// configured name, or empty for an accepted connection.
    pub fn new(stream: TcpStream, host: &str, address: SocketAddr) -> RecordedStream {
        RecordedStream { stream, peer: Subject::peer(host, address) }
    }

    #[inline]
    fn written(&self, timer: Timer, result: io::Result<usize>) -> Poll<io::Result<usize>> {
        if let Ok(bytes) = result {
            record::socket_write(timer, &self.peer, bytes);
        }
        Poll::Ready(result)
    }
}

/// Records a read of 0 bytes when this side closes the connection, so that a recording
/// distinguishes open connections from closed ones.
impl Drop for RecordedStream {
    fn drop(&mut self) {
        record::socket_read(recorder::start(EventKind::SocketRead), &self.peer, 0);
    }
}

impl AsFd for RecordedStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl AsyncRead for RecordedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let timer = recorder::start(EventKind::SocketRead);
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        record::socket_read(timer, &self.peer, buffer.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for RecordedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let timer = recorder::start(EventKind::SocketWrite);
        let result = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes));
        self.written(timer, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let timer = recorder::start(EventKind::SocketWrite);
        let result = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, slices));
        self.written(timer, result)
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
