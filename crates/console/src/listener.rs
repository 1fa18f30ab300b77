//! Accepts connections and serves one request on each, within limits.

use crate::access::{self, Via};
use crate::context;
use crate::reply::{Body, Reply};
use crate::routes::Router;
use crate::watched::{Progress, Watched};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Maximum number of connections that each listener serves at the same time; more wait in the
/// backlog.
const CONNECTIONS_MAX: usize = 64;
/// Maximum size of a request's head in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Maximum number of headers per request.
const HEADERS_MAX: usize = 64;
/// Maximum time for a client to send the head of its request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Lifetime of a connection. The limit keeps a client that does not read from holding memory.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum time that the client of a lasting response may read nothing while there is data to read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval at which `WRITE_TIMEOUT` is checked.
const WRITE_LOOK: Duration = Duration::from_secs(1);
/// Maximum time for a lasting response to end at shutdown.
const LAST_LINES_TIMEOUT: Duration = Duration::from_millis(250);
/// Pause after a failed accept. Without it, accept would fail again immediately while descriptors
/// are exhausted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// Grace period for open connections at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// State shared by all connections.
pub struct Service {
    pub router: Router,
    pub token: String,
    /// Address to which the TCP listener is bound.
    pub listen: IpAddr,
}

/// A listener of either kind.
pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Opens the TCP listener.
pub async fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .map_err(|error| context(format_args!("api.listen {address}"), error))
}

impl Listener {
    /// Serves until `stopped`, then gives open connections a grace period.
    pub async fn run(self, service: Arc<Service>, mut stopped: watch::Receiver<()>) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                // An error means that the sender is gone, so the listener must stop in that case as
                // well.
                _ = stopped.changed() => break,
                accepted = self.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                    Ok(stream) => {
                        start_connection(&mut connections, stream, &service, &stopped);
                    }
                    Err(error) => {
                        log::warn!("{}: cannot accept a connection: {error}", self.name());
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(_) = connections.join_next() => {}
            }
        }
        drop(self);
        let finish = async { while connections.join_next().await.is_some() {} };
        // Dropping the set aborts unfinished connections.
        let _ = timeout(SHUTDOWN_TIMEOUT, finish).await;
    }

    async fn accept(&self) -> io::Result<Stream> {
        Ok(match self {
            Listener::Tcp(listener) => Stream::Tcp(listener.accept().await?.0),
            Listener::Unix(listener) => Stream::Unix(listener.accept().await?.0),
        })
    }

    fn name(&self) -> &'static str {
        match self {
            Listener::Tcp(_) => "api.listen",
            Listener::Unix(_) => "control socket",
        }
    }
}

fn start_connection(
    connections: &mut JoinSet<()>,
    stream: Stream,
    service: &Arc<Service>,
    stopped: &watch::Receiver<()>,
) {
    let (service, stopped) = (service.clone(), stopped.clone());
    match stream {
        Stream::Unix(stream) => {
            connections.spawn(serve(stream, Via::Control, service, stopped));
        }
        Stream::Tcp(stream) => {
            // The address is missing only if the connection is broken; its request would fail
            // anyway.
            let Ok(local) = stream.local_addr() else { return };
            let via = Via::Network { listen: service.listen, local: local.ip() };
            connections.spawn(serve(stream, via, service, stopped));
        }
    }
}

/// Serves one request. One request per connection is sufficient for a scrape every few seconds, and
/// it limits how long a connection lasts.
async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    via: Via,
    service: Arc<Service>,
    stopped: watch::Receiver<()>,
) {
    let progress = Arc::new(Progress::default());
    let answer = service_fn(async |request| {
        let reply = answer(&service, via, request).await;
        progress.set_lasting(matches!(reply.body(), Body::Lines(_)));
        Ok::<_, Infallible>(reply)
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(Watched::new(stream, progress.clone())), answer);
    tokio::select! {
        served = connection => {
            served.unwrap_or_else(|error| log::debug!("client connection: {error}"));
        }
        why = overdue(&progress, stopped) => log::debug!("client connection closed: {why}"),
    }
}

/// Waits until a connection must end, and returns the reason. A normal connection ends after its
/// lifetime; a connection with a lasting response ends if its client does not read, or at shutdown.
async fn overdue(progress: &Progress, mut stopped: watch::Receiver<()>) -> &'static str {
    let ending = async {
        // An error means that the sender is gone, so the connection must end in that case as well.
        let _ = stopped.changed().await;
        sleep(if progress.is_lasting() { LAST_LINES_TIMEOUT } else { SHUTDOWN_TIMEOUT }).await;
    };
    let waiting = async {
        sleep(CONNECTION_TIMEOUT).await;
        while progress.is_lasting() && progress.waits() < WRITE_TIMEOUT {
            sleep(WRITE_LOOK).await;
        }
    };
    tokio::select! {
        () = ending => "the agent is stopping",
        () = waiting => "the maximum lifetime has elapsed, or the client is not reading",
    }
}

async fn answer(service: &Service, via: Via, request: Request<Incoming>) -> Reply {
    match access::check(request.uri().path(), request.headers(), via, &service.token) {
        Ok(()) => service.router.answer(request).await,
        Err(refusal) => refusal.reply(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::DiagnosisState;
    use crate::snapshot::AgentSnapshot;
    use std::sync::atomic::AtomicBool;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    fn service() -> Arc<Service> {
        let snapshot = AgentSnapshot::default;
        let ready = Arc::new(AtomicBool::new(true));
        let config = Arc::new(crate::ConfigState::new(0));
        let recorder =
            crate::RecorderState::new(None, 0, millstream_recorder::recorder::defaults());
        let (snapshot, recorder) = (Arc::new(snapshot), Arc::new(recorder));
        let diagnosis = DiagnosisState::default();
        let open = |_| {
            let (lines, chunks) = tokio::sync::mpsc::channel(2);
            tokio::spawn(async move {
                while lines.send(hyper::body::Bytes::from_static(b"an event\n")).await.is_ok() {}
            });
            Ok(chunks)
        };
        let taps = crate::tap::TapService::new(Arc::new(open));
        let router = Router { snapshot, ready, version: "1", config, recorder, diagnosis, taps };
        Arc::new(Service {
            router,
            token: "secret".to_owned(),
            listen: IpAddr::from([127, 0, 0, 1]),
        })
    }

    /// Serves a client that sends `request` and then nothing; returns how long the connection
    /// lasted.
    async fn time_served(request: &str) -> Duration {
        let (mut client, server) = duplex(256);
        client.write_all(request.as_bytes()).await.unwrap();
        let begun = Instant::now();
        let (_stop, stopped) = watch::channel(());
        serve(server, Via::Control, service(), stopped).await;
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_client_is_cut_off() {
        for request in ["", "GET /metrics HT", "GET /metrics HTTP/1.1\r\nHost: a\r\n"] {
            let time = time_served(request).await;
            assert!((HEAD_TIMEOUT..HEAD_TIMEOUT * 2).contains(&time), "{request:?}: {time:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_cut_off() {
        let time = time_served("GET /metrics HTTP/1.1\r\n\r\n").await;
        assert!((CONNECTION_TIMEOUT..CONNECTION_TIMEOUT * 2).contains(&time), "{time:?}");
    }

    /// A client that reads slowly keeps its tap; a client that does not read loses it.
    #[tokio::test(start_paused = true)]
    async fn a_tap_lasts_while_its_client_reads() {
        let (mut client, server) = duplex(1024);
        client.write_all(b"GET /api/tap?id=app HTTP/1.1\r\n\r\n").await.unwrap();
        let (_stop, stopped) = watch::channel(());
        let serving = tokio::spawn(serve(server, Via::Control, service(), stopped));
        for _ in 0..60 {
            sleep(Duration::from_secs(5)).await;
            let mut some = [0; 512];
            client.read_exact(&mut some).await.unwrap();
        }
        let begun = Instant::now();
        serving.await.unwrap();
        let time = begun.elapsed();
        assert!((WRITE_TIMEOUT..WRITE_TIMEOUT * 2).contains(&time), "{time:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn one_request_is_served_per_connection() {
        let (mut client, server) = duplex(1 << 16);
        client.write_all(&b"GET /health HTTP/1.1\r\n\r\n".repeat(2)).await.unwrap();
        let (_stop, stopped) = watch::channel(());
        serve(server, Via::Control, service(), stopped).await;
        let mut text = String::new();
        client.read_to_string(&mut text).await.unwrap();
        assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 1, "{text}");
    }
}
