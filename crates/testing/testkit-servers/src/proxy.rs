//! An HTTP proxy: tunnels by `CONNECT`, and requests in absolute form.

use parking_lot::Mutex;
use rustls::ServerConfig;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsAcceptor;

/// Options for a proxy.
#[derive(Clone, Default)]
pub struct ProxyOptions {
    /// Port on 127.0.0.1; 0 for a free one.
    pub port: u16,
    /// TLS configuration.
    pub tls: Option<Arc<ServerConfig>>,
    /// Required value of `Proxy-Authorization`.
    pub login: Option<String>,
    /// Port on 127.0.0.1 to which the proxy connects, whatever host is requested.
    pub to: Option<u16>,
    /// Status with which every request is rejected.
    pub refuses: Option<u16>,
}

/// A proxy that listens until it is dropped.
pub struct ProxyServer {
    /// Port on 127.0.0.1.
    pub port: u16,
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

struct Shared {
    options: ProxyOptions,
    lines: Mutex<Vec<String>>,
}

/// The head of a request or response.
struct Head {
    first: String,
    headers: Vec<(String, String)>,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

type Wire = BufStream<Box<dyn Stream>>;

impl ProxyServer {
    /// Starts a proxy.
    pub fn start(options: ProxyOptions) -> ProxyServer {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        // `block_on` does not work here, because the caller may be a task.
        let listener = listen(options.port);
        listener.set_nonblocking(true).expect("a listener that does not block");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared { options, lines: Mutex::default() });
        let all = shared.clone();
        runtime.spawn(async move {
            let listener = TcpListener::from_std(listener).expect("a listener");
            while let Ok((stream, _)) = listener.accept().await {
                let shared = all.clone();
                tokio::spawn(async move { drop(serve(stream, &shared).await) });
            }
        });
        ProxyServer { port, shared, runtime: Some(runtime) }
    }

    /// Returns the address, with or without a login such as `user:password@`.
    pub fn uri(&self, login: &str) -> String {
        let scheme = if self.shared.options.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{login}127.0.0.1:{}", self.port)
    }

    /// Returns the first line of each request so far.
    pub fn lines(&self) -> Vec<String> {
        self.shared.lines.lock().clone()
    }
}

/// Listens on a port of 127.0.0.1. Retries for a while, because the port may belong to a dropped
/// proxy, whose runtime shuts down asynchronously.
fn listen(port: u16) -> std::net::TcpListener {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match std::net::TcpListener::bind(("127.0.0.1", port)) {
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(10)),
            listener => return listener.expect("a port to listen on"),
        }
    }
}

/// Closes the port and all connections.
impl Drop for ProxyServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn serve(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let stream: Box<dyn Stream> = match &shared.options.tls {
        Some(tls) => Box::new(TlsAcceptor::from(tls.clone()).accept(stream).await?),
        None => Box::new(stream),
    };
    let mut client = BufStream::new(stream);
    loop {
        let head = read_head(&mut client).await?;
        shared.lines.lock().push(head.first.clone());
        let options = &shared.options;
        let has_login =
            options.login.is_none() || head.get("proxy-authorization") == options.login.as_deref();
        let refused = if has_login { options.refuses } else { Some(407) };
        if let Some(status) = refused {
            let answer = format!("HTTP/1.1 {status} Refused\r\nContent-Length: 0\r\n\r\n");
            client.write_all(answer.as_bytes()).await?;
            return client.flush().await;
        }
        let target = head.first.split(' ').nth(1).unwrap_or_default().to_owned();
        let is_tunnel = head.first.starts_with("CONNECT ");
        let (authority, path) = split(target.strip_prefix("http://").unwrap_or(&target));
        let address = match options.to {
            Some(port) => format!("127.0.0.1:{port}"),
            None => authority.to_owned(),
        };
        let Ok(stream) = TcpStream::connect(&address).await else {
            client.write_all(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n").await?;
            return client.flush().await;
        };
        let mut server: Wire = BufStream::new(Box::new(stream));
        if is_tunnel {
            client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
            client.flush().await?;
            return tokio::io::copy_bidirectional(&mut client, &mut server).await.map(drop);
        }
        pass_on(&head.with_target(path), &mut client, &mut server).await?;
        let answer = read_head(&mut server).await?;
        pass_on(&answer, &mut server, &mut client).await?;
    }
}

/// Splits the part of a URI after the scheme into the authority and the path.
fn split(rest: &str) -> (&str, &str) {
    rest.find('/').map_or((rest, "/"), |at| rest.split_at(at))
}

/// Sends a head that was read, and copies the body.
async fn pass_on(head: &Head, from: &mut Wire, to: &mut Wire) -> io::Result<()> {
    let mut text = format!("{}\r\n", head.first);
    for (name, value) in head.headers.iter().filter(|(name, _)| name != "proxy-authorization") {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    to.write_all(format!("{text}\r\n").as_bytes()).await?;
    let length = head.get("content-length").and_then(|length| length.parse().ok());
    tokio::io::copy(&mut from.take(length.unwrap_or(0)), to).await?;
    to.flush().await
}

async fn read_head(wire: &mut Wire) -> io::Result<Head> {
    let mut head = Head { first: String::new(), headers: Vec::new() };
    if wire.read_line(&mut head.first).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    head.first.truncate(head.first.trim_end().len());
    loop {
        let mut line = String::new();
        wire.read_line(&mut line).await?;
        let Some((name, value)) = line.trim_end().split_once(':') else { return Ok(head) };
        head.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

impl Head {
    fn get(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the head with a different target in the first line.
    fn with_target(self, target: &str) -> Head {
        let method = self.first.split(' ').next().unwrap_or_default();
        Head { first: format!("{method} {target} HTTP/1.1"), ..self }
    }
}
