//! An endpoint that speaks HTTP/1.1, plain or with TLS, and does with each request what a test
//! says.

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

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers by lower-case name.
    pub headers: BTreeMap<String, String>,
    /// The body, as it was sent.
    pub body: Vec<u8>,
    /// Which connection it came over, from 0.
    pub connection: usize,
    /// When it was read.
    pub at: Instant,
}

impl Seen {
    /// A header, or nothing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// What to do with a request that was read.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Answer with this status, these headers and this body.
    Status(u16, Vec<(&'static str, String)>, String),
    /// Write these bytes, then close the connection.
    Raw(Vec<u8>),
    /// Write these bytes, then more without end.
    Endless(Vec<u8>),
    /// Close the connection without an answer.
    Close,
    /// Break the connection off: the sender gets an error, not an end.
    Reset,
    /// Leave the connection open without an answer.
    Hang,
}

impl Reply {
    /// A status and nothing else.
    pub fn status(status: u16) -> Reply {
        Reply::Status(status, Vec::new(), String::new())
    }
}

/// How the body of a request is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// As it comes.
    #[default]
    Whole,
    /// So many bytes at a time, with a pause before each.
    Slowly(usize, Duration),
    /// So many bytes; then the connection is broken off.
    ResetAfter(usize),
    /// Not at all, while the connection is open.
    Never,
}

/// How an endpoint listens.
pub struct HttpOptions {
    /// On this port of 127.0.0.1; 0 takes a free one.
    pub port: u16,
    /// With TLS.
    pub tls: Option<Arc<ServerConfig>>,
    /// Decides by the head of a request how its body is read; the body is empty then.
    pub reading: Box<dyn Fn(&Seen) -> Reading + Send + Sync>,
}

impl Default for HttpOptions {
    fn default() -> HttpOptions {
        HttpOptions { port: 0, tls: None, reading: Box::new(|_| Reading::Whole) }
    }
}

type Handler = dyn Fn(&Seen) -> Reply + Send + Sync;

/// The endpoint: listens until it is dropped.
pub struct HttpServer {
    /// Its port on 127.0.0.1.
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
    seen: Vec<Seen>,
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
    /// Listens on a free port of 127.0.0.1.
    pub fn start(handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> HttpServer {
        HttpServer::on(0, handler)
    }

    /// Listens on this port; 0 takes a free one.
    pub fn on(port: u16, handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> HttpServer {
        HttpServer::with(HttpOptions { port, ..HttpOptions::default() }, handler)
    }

    /// Listens as the options say.
    pub fn with(
        options: HttpOptions,
        handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
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
                thread::spawn(move || drop(Visit::new(stream, shared).and_then(Visit::serve)));
            }
        });
        HttpServer { port, has_tls, shared, listener: Some(listener) }
    }

    /// The address of a path there.
    pub fn uri(&self, path: &str) -> String {
        let scheme = if self.has_tls { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}{path}", self.port)
    }

    /// The requests so far, in the order in which they were read.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.lock().seen.clone()
    }

    /// Waits until the requests so far are as wanted; what there is after 60 s all the same.
    pub fn wait(&self, wanted: impl Fn(&[Seen]) -> bool) -> Vec<Seen> {
        let end = Instant::now() + Duration::from_secs(60);
        let mut state = self.shared.lock();
        while !wanted(&state.seen) && Instant::now() < end {
            self.shared.changed.wait_for(&mut state, Duration::from_millis(100));
        }
        state.seen.clone()
    }
}

/// Closes the port and all connections.
impl Drop for HttpServer {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        state.open.drain(..).for_each(|stream| drop(stream.shutdown(std::net::Shutdown::Both)));
        drop(state);
        // Wakes the listener, which sees that it is over and gives the port back.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        drop(self.listener.take().map(JoinHandle::join));
    }
}

/// One connection.
struct Visit {
    number: usize,
    socket: TcpStream,
    wire: BufReader<Box<dyn Wire>>,
    shared: Arc<Shared>,
}

impl Visit {
    fn new(socket: TcpStream, shared: Arc<Shared>) -> io::Result<Visit> {
        let number = {
            let mut state = shared.lock();
            state.open.push(socket.try_clone()?);
            state.connections += 1;
            state.connections - 1
        };
        let wire = wire(&socket, shared.options.tls.as_ref())?;
        Ok(Visit { number, socket, wire: BufReader::new(wire), shared })
    }

    fn serve(mut self) -> io::Result<()> {
        loop {
            let mut seen = self.head()?;
            let reading = (self.shared.options.reading)(&seen);
            self.body(reading, &mut seen)?;
            let reply = (self.shared.handler)(&seen);
            self.shared.lock().seen.push(seen);
            self.shared.changed.notify_all();
            self.answer(reply)?;
        }
    }

    fn head(&mut self) -> io::Result<Seen> {
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
        Ok(Seen {
            method,
            path,
            headers,
            body: Vec::new(),
            connection: self.number,
            at: Instant::now(),
        })
    }

    fn body(&mut self, reading: Reading, seen: &mut Seen) -> io::Result<()> {
        let length = seen.header("content-length").parse().unwrap_or(0);
        seen.body = vec![0; length];
        match reading {
            Reading::Whole => self.wire.read_exact(&mut seen.body)?,
            Reading::Slowly(bytes, pause) => {
                for piece in seen.body.chunks_mut(bytes) {
                    thread::sleep(pause);
                    self.wire.read_exact(piece)?;
                }
            }
            Reading::ResetAfter(bytes) => {
                self.wire.read_exact(&mut seen.body[..bytes.min(length)])?;
                return self.reset();
            }
            Reading::Never => {
                while !self.shared.lock().closed {
                    thread::sleep(Duration::from_millis(20));
                }
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        }
        seen.at = Instant::now();
        Ok(())
    }

    fn answer(&mut self, reply: Reply) -> io::Result<()> {
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

    /// Ends the connection in order.
    fn close(&self) -> io::Result<()> {
        self.socket.shutdown(std::net::Shutdown::Both)?;
        Err(io::ErrorKind::ConnectionAborted.into())
    }

    /// Breaks the connection off.
    fn reset(&self) -> io::Result<()> {
        // Without time to linger the last handle that closes the socket sends a reset; another
        // handle is kept for the end of the endpoint, and goes first.
        set_socket_linger(&self.socket, Some(Duration::ZERO))?;
        let own = self.socket.peer_addr()?;
        self.shared.lock().open.retain(|other| other.peer_addr().is_ok_and(|peer| peer != own));
        Err(io::ErrorKind::ConnectionReset.into())
    }
}
