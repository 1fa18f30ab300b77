//! An HTTP/1.1 endpoint, plain or with TLS. A test decides how the endpoint reacts to each request.

use crate::wire::{Wire, wire};
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::net::sockopt::set_socket_linger;
use rustls::ServerConfig;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A received request.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers by lowercase name.
    pub headers: BTreeMap<String, String>,
    /// The body as sent.
    pub body: Vec<u8>,
    /// Index of the connection, from 0.
    pub connection: usize,
    /// Time at which the request was completely read.
    pub at: Instant,
}

impl ReceivedRequest {
    /// Returns a header, or an empty string.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// The reaction to a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Respond with this status, these headers and this body.
    Status(u16, Vec<(&'static str, String)>, String),
    /// Write these bytes, then close the connection.
    Raw(Vec<u8>),
    /// Write these bytes, followed by an endless stream.
    Endless(Vec<u8>),
    /// Close the connection without a response.
    Close,
    /// Reset the connection, so that the client receives an error instead of an end of file.
    Reset,
    /// Keep the connection open without a response.
    Hang,
}

impl Reply {
    /// Responds with a status only.
    pub fn status(status: u16) -> Reply {
        Reply::Status(status, Vec::new(), String::new())
    }
}

/// The way in which the body of a request is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyRead {
    /// Immediately and completely.
    #[default]
    Whole,
    /// This many bytes at a time, with a pause before each read.
    Slowly(usize, Duration),
    /// This many bytes; then reset the connection.
    ResetAfter(usize),
    /// Not at all; the connection stays open.
    Never,
}

/// Options for an endpoint.
pub struct HttpOptions {
    /// Port on 127.0.0.1; 0 for a free one.
    pub port: u16,
    /// TLS configuration.
    pub tls: Option<Arc<ServerConfig>>,
    /// Chooses how to read the body of a request from its head; the body is still empty.
    pub body_read: Box<dyn Fn(&ReceivedRequest) -> BodyRead + Send + Sync>,
}

impl Default for HttpOptions {
    fn default() -> HttpOptions {
        HttpOptions { port: 0, tls: None, body_read: Box::new(|_| BodyRead::Whole) }
    }
}

type Handler = dyn Fn(&ReceivedRequest) -> Reply + Send + Sync;

/// An endpoint that listens until it is dropped.
pub struct HttpServer {
    /// Port on 127.0.0.1.
    pub port: u16,
    has_tls: bool,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    options: HttpOptions,
    handler: Box<Handler>,
}

#[derive(Default)]
struct State {
    requests: Vec<ReceivedRequest>,
    open: Vec<TcpStream>,
    connections: usize,
    closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl HttpServer {
    /// Starts an endpoint on a free port of 127.0.0.1.
    pub fn start(
        handler: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static,
    ) -> HttpServer {
        HttpServer::on(0, handler)
    }

    /// Starts an endpoint on this port; 0 for a free one.
    pub fn on(
        port: u16,
        handler: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static,
    ) -> HttpServer {
        HttpServer::with(HttpOptions { port, ..HttpOptions::default() }, handler)
    }

    /// Starts an endpoint with options.
    pub fn with(
        options: HttpOptions,
        handler: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static,
    ) -> HttpServer {
        let listener = TcpListener::bind(("127.0.0.1", options.port)).expect("a port to listen on");
        let port = listener.local_addr().expect("an address").port();
        let has_tls = options.tls.is_some();
        let (state, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { state, changed, options, handler: Box::new(handler) });
        let all = shared.clone();
        let listener = thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if all.lock().closed {
                    return;
                }
                let shared = all.clone();
                thread::spawn(move || {
                    drop(Connection::new(stream, shared).and_then(Connection::serve))
                });
            }
        });
        HttpServer { port, has_tls, shared, listener: Some(listener) }
    }

    /// Returns the URI of a path.
    pub fn uri(&self, path: &str) -> String {
        let scheme = if self.has_tls { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}{path}", self.port)
    }

    /// Returns the requests so far, in the order in which they were read.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.shared.lock().requests.clone()
    }

    /// Waits up to 60 s until the requests satisfy a condition. Returns the requests even if they
    /// do not satisfy it.
    pub fn wait(&self, is_complete: impl Fn(&[ReceivedRequest]) -> bool) -> Vec<ReceivedRequest> {
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut state = self.shared.lock();
        while !is_complete(&state.requests) && Instant::now() < deadline {
            self.shared.changed.wait_for(&mut state, Duration::from_millis(100));
        }
        state.requests.clone()
    }
}

/// Closes the port and all connections.
impl Drop for HttpServer {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        state.open.drain(..).for_each(|stream| drop(stream.shutdown(std::net::Shutdown::Both)));
        drop(state);
        // This wakes the listener, which sees the flag, exits and releases the port.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        drop(self.listener.take().map(JoinHandle::join));
    }
}

/// One connection.
struct Connection {
    number: usize,
    socket: TcpStream,
    wire: BufReader<Box<dyn Wire>>,
    shared: Arc<Shared>,
}

impl Connection {
    fn new(socket: TcpStream, shared: Arc<Shared>) -> io::Result<Connection> {
        let number = {
            let mut state = shared.lock();
            state.open.push(socket.try_clone()?);
            state.connections += 1;
            state.connections - 1
        };
        let wire = wire(&socket, shared.options.tls.as_ref())?;
        Ok(Connection { number, socket, wire: BufReader::new(wire), shared })
    }

    fn serve(mut self) -> io::Result<()> {
        loop {
            let mut request = self.head()?;
            let body_read = (self.shared.options.body_read)(&request);
            self.body(body_read, &mut request)?;
            let reply = (self.shared.handler)(&request);
            self.shared.lock().requests.push(request);
            self.shared.changed.notify_all();
            self.respond(reply)?;
        }
    }

    fn head(&mut self) -> io::Result<ReceivedRequest> {
        let mut line = String::new();
        if self.wire.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut words = line.split_whitespace().map(str::to_owned);
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            self.wire.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        Ok(ReceivedRequest {
            method,
            path,
            headers,
            body: Vec::new(),
            connection: self.number,
            at: Instant::now(),
        })
    }

    fn body(&mut self, body_read: BodyRead, request: &mut ReceivedRequest) -> io::Result<()> {
        let length = request.header("content-length").parse().unwrap_or(0);
        request.body = vec![0; length];
        match body_read {
            BodyRead::Whole => self.wire.read_exact(&mut request.body)?,
            BodyRead::Slowly(bytes, pause) => {
                for chunk in request.body.chunks_mut(bytes) {
                    thread::sleep(pause);
                    self.wire.read_exact(chunk)?;
                }
            }
            BodyRead::ResetAfter(bytes) => {
                self.wire.read_exact(&mut request.body[..bytes.min(length)])?;
                return self.reset();
            }
            BodyRead::Never => {
                while !self.shared.lock().closed {
                    thread::sleep(Duration::from_millis(20));
                }
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        }
        request.at = Instant::now();
        Ok(())
    }

    fn respond(&mut self, reply: Reply) -> io::Result<()> {
        match reply {
            Reply::Status(status, headers, body) => {
                let mut text =
                    format!("HTTP/1.1 {status} Status\r\nContent-Length: {}\r\n", body.len());
                headers
                    .iter()
                    .for_each(|(name, value)| text.push_str(&format!("{name}: {value}\r\n")));
                self.write(format!("{text}\r\n{body}").as_bytes())
            }
            Reply::Raw(bytes) => {
                self.write(&bytes)?;
                self.close()
            }
            Reply::Endless(bytes) => {
                self.write(&bytes)?;
                loop {
                    self.write(&[b'x'; 4096])?;
                }
            }
            Reply::Close => self.close(),
            Reply::Reset => self.reset(),
            Reply::Hang => self.wire.read(&mut [0]).map(drop),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let wire = self.wire.get_mut();
        wire.write_all(bytes)?;
        wire.flush()
    }

    /// Closes the connection gracefully.
    fn close(&self) -> io::Result<()> {
        self.socket.shutdown(std::net::Shutdown::Both)?;
        Err(io::ErrorKind::ConnectionAborted.into())
    }

    /// Resets the connection.
    fn reset(&self) -> io::Result<()> {
        // With a linger time of zero, closing the last file descriptor sends a RST. Drop the
        // duplicate in `open` first.
        set_socket_linger(&self.socket, Some(Duration::ZERO))?;
        let own = self.socket.peer_addr()?;
        self.shared.lock().open.retain(|other| other.peer_addr().is_ok_and(|peer| peer != own));
        Err(io::ErrorKind::ConnectionReset.into())
    }
}
