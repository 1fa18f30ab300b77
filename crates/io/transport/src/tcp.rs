//! TCP connections, with or without TLS, that track which bytes the peer's kernel has acknowledged.

use crate::recorded_stream::RecordedStream;
use crate::sys;
use crate::tls::{Tls, TlsError};
use rustix::net::sockopt;
use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Idle time before the first keepalive probe.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);

/// Interval between keepalive probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Number of unanswered probes after which the peer is considered dead.
const KEEPALIVE_PROBES: u32 = 3;

/// Maximum value of TCP_USER_TIMEOUT in milliseconds, which is a signed number in the kernel: 24.8
/// days.
const USER_TIMEOUT_MS_MAX: u32 = i32::MAX as u32;

/// Advice on how to connect to an address without TLS, for errors.
pub const WITHOUT_TLS: &str = "remove `tls`";

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Host name or IP address, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let invalid =
            || format!("{text:?} is not an address; use host:port, such as logs.example.com:6514");
        let (host, port) = text.rsplit_once(':').ok_or_else(invalid)?;
        let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(invalid)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_plain = !host.is_empty() && !host.contains([':', '/', ' ', '@', '[', ']']);
        match bare {
            Some(host) if host.parse::<std::net::Ipv6Addr>().is_ok() => {
                Ok(Address { host: host.to_owned(), port })
            }
            None if is_plain => Ok(Address { host: host.to_owned(), port }),
            _ => Err(invalid()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// The error of a failed connection attempt. The message omits the address, which the caller adds.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The name does not resolve to an address.
    #[error("the name cannot be resolved: {0}")]
    Resolve(io::Error),
    /// The server is unreachable.
    #[error("{0}")]
    Unreachable(#[from] io::Error),
    /// The connect timed out.
    #[error("connection timed out after {0:?}")]
    Timeout(Duration),
    /// The TLS options are unusable.
    #[error("{0}")]
    TlsFiles(TlsError),
    /// The TLS handshake failed.
    #[error("{0}")]
    Handshake(String),
}

impl ConnectError {
    /// Returns a short name for use as an error label.
    pub fn kind(&self) -> &'static str {
        match self {
            ConnectError::Resolve(..) => "resolve",
            ConnectError::Unreachable(..) | ConnectError::Timeout(..) => "unreachable",
            ConnectError::TlsFiles(..) | ConnectError::Handshake(..) => "tls",
        }
    }
}

/// A bidirectional byte stream.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A TCP connection, with or without TLS.
pub struct Connection {
    /// The byte stream.
    pub stream: Box<dyn Stream>,
    /// Counts the bytes written and acknowledged.
    pub meter: Meter,
}

/// Counts a connection's bytes on the wire.
pub struct Meter {
    /// A second handle to the socket, because the TLS stream owns the first one.
    socket: OwnedFd,
    written: Arc<AtomicU64>,
}

impl Meter {
    /// Returns the number of bytes passed to the local kernel so far.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Returns how many of the written bytes the peer's kernel has acknowledged. The peer's program
    /// may not have read them yet.
    ///
    /// # Errors
    /// Returns an error if the system does not report the number.
    pub fn acknowledged(&self) -> io::Result<u64> {
        // Because of this order, a concurrent write can only make the result too small, never too
        // large.
        let written = self.written();
        Ok(written.saturating_sub(sys::unacknowledged(self.socket.as_fd())?))
    }
}

/// Resolves the name of `address` and connects to it. `within` is the timeout for the whole
/// attempt, including TLS. `silence` is the maximum time that sent bytes may stay unacknowledged
/// before the peer is treated as dead.
///
/// # Errors
/// Returns any [`ConnectError`].
pub async fn connect(
    address: &Address,
    tls: Option<&Arc<Tls>>,
    within: Duration,
    silence: Duration,
) -> Result<Connection, ConnectError> {
    let Address { host, port } = address;
    let all = async {
        let stream = dial((host, *port), within, silence).await?;
        let socket = stream.as_fd().try_clone_to_owned()?;
        let written = Arc::new(AtomicU64::new(0));
        let meter = Meter { socket, written: written.clone() };
        let stream = CountedStream { stream, written };
        Ok(match tls {
            None => Connection { stream: Box::new(stream), meter },
            Some(tls) => {
                let stream = encrypt(stream, host, tls, WITHOUT_TLS).await?;
                Connection { stream: Box::new(stream), meter }
            }
        })
    };
    timeout(within, all).await.unwrap_or(Err(ConnectError::Timeout(within)))
}

/// Connects to the first reachable address of the host. Each address gets an equal share of the
/// time. `within` and `silence` have the same meaning as in [`connect`].
///
/// # Errors
/// Returns any [`ConnectError`] that does not concern TLS.
pub(crate) async fn dial(
    host: (&str, u16),
    within: Duration,
    silence: Duration,
) -> Result<RecordedStream, ConnectError> {
    let found: Vec<_> = lookup_host(host).await.map_err(ConnectError::Resolve)?.collect();
    // If an address does not respond at all, there must be time left for the remaining addresses.
    let share = within / u32::try_from(found.len().max(1)).unwrap_or(u32::MAX);
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address").into();
    for peer in found {
        match timeout(share, TcpStream::connect(peer)).await {
            Ok(Ok(stream)) => {
                watch_peer(&stream, silence);
                return Ok(RecordedStream::new(stream, host.0, peer));
            }
            Ok(Err(error)) => last = error.into(),
            Err(_) => last = ConnectError::Timeout(share),
        }
    }
    Err(last)
}

/// Makes the kernel fail the connection if the peer is dead, or if it acknowledges nothing for
/// longer than `silence`, which is capped at 24.8 days. If the kernel rejects an option, the error
/// is only logged at debug level, because the connection works without the option.
pub fn watch_peer(stream: &TcpStream, silence: Duration) {
    let silence_ms =
        u32::try_from(silence.as_millis()).unwrap_or(u32::MAX).min(USER_TIMEOUT_MS_MAX);
    let options: [(&str, io::Result<()>); 6] = [
        ("TCP_NODELAY", stream.set_nodelay(true)),
        ("SO_KEEPALIVE", sockopt::set_socket_keepalive(stream, true).map_err(Into::into)),
        ("TCP_KEEPIDLE", sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE).map_err(Into::into)),
        (
            "TCP_KEEPINTVL",
            sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL).map_err(Into::into),
        ),
        ("TCP_KEEPCNT", sockopt::set_tcp_keepcnt(stream, KEEPALIVE_PROBES).map_err(Into::into)),
        ("TCP_USER_TIMEOUT", sockopt::set_tcp_user_timeout(stream, silence_ms).map_err(Into::into)),
    ];
    for (option, set) in options {
        if let Err(error) = set {
            log::debug!("cannot set {option} on a connection: {error}");
        }
    }
}

/// Starts TLS with `host` over a stream. Reads the configured files on a blocking thread. Error
/// messages include `without_tls`, which is advice on how to connect without TLS.
///
/// # Errors
/// Returns any [`ConnectError`] that concerns TLS.
pub(crate) async fn encrypt<S: Stream>(
    stream: S,
    host: &str,
    tls: &Arc<Tls>,
    without_tls: &str,
) -> Result<TlsStream<S>, ConnectError> {
    let name = tls.server_name(host).map_err(ConnectError::TlsFiles)?;
    let shared = tls.clone();
    let config = spawn_blocking(move || shared.config()).await;
    let config = config.unwrap_or_else(|error| Err(TlsError::Other(error.to_string())));
    let connector = TlsConnector::from(config.map_err(ConnectError::TlsFiles)?);
    connector.connect(name, stream).await.map_err(|error| {
        let text = tls.explain(&error, host, without_tls);
        ConnectError::Handshake(text.unwrap_or_else(|| format!("TLS: {error}")))
    })
}

/// A TCP stream that counts the bytes written.
struct CountedStream {
    stream: RecordedStream,
    written: Arc<AtomicU64>,
}

impl CountedStream {
    fn count(&self, result: io::Result<usize>) -> Poll<io::Result<usize>> {
        if let Ok(bytes) = &result {
            self.written.fetch_add(*bytes as u64, Ordering::Release);
        }
        Poll::Ready(result)
    }
}

impl AsyncRead for CountedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for CountedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes));
        self.count(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, slices));
        self.count(result)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
