//! A far side that speaks HTTP/1.1 and does with each request what a test says.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
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
    /// Leave the connection open without an answer.
    Hang,
}

impl Reply {
    /// A status and nothing else.
    pub fn status(status: u16) -> Reply {
        Reply::Status(status, Vec::new(), String::new())
    }
}

type Handler = dyn Fn(&Seen) -> Reply + Send + Sync;

/// The far side: listens until it is dropped.
pub struct HttpServer {
    /// Its port on 127.0.0.1.
    pub port: u16,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HttpServer {
    /// Listens on a free port of 127.0.0.1.
    pub fn start(handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> HttpServer {
        HttpServer::on(0, handler)
    }

    /// Listens on this port; 0 takes a free one.
    pub fn on(port: u16, handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> HttpServer {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a port to listen on");
        let port = listener.local_addr().expect("an address").port();
        let shared =
            Arc::new(Shared { state: Mutex::default(), changed: Condvar::new(), handler: Box::new(handler) });
        let all = shared.clone();
        let listener = thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if all.lock().closed {
                    return;
                }
                let shared = all.clone();
                thread::spawn(move || drop(serve(&stream, &shared)));
            }
        });
        HttpServer { port, shared, listener: Some(listener) }
    }

    /// The address of a path there.
    pub fn uri(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
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
            let waited = self.shared.changed.wait_timeout(state, Duration::from_millis(100));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
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

fn serve(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    let connection = {
        let mut state = shared.lock();
        state.open.push(stream.try_clone()?);
        state.connections += 1;
        state.connections - 1
    };
    let mut reader = BufReader::new(stream);
    loop {
        let seen = read(&mut reader, connection)?;
        let reply = (shared.handler)(&seen);
        shared.lock().seen.push(seen);
        shared.changed.notify_all();
        match reply {
            Reply::Status(status, headers, body) => {
                let mut text = format!("HTTP/1.1 {status} Status\r\nContent-Length: {}\r\n", body.len());
                headers.iter().for_each(|(name, value)| text.push_str(&format!("{name}: {value}\r\n")));
                (&*stream).write_all(format!("{text}\r\n{body}").as_bytes())?;
            }
            Reply::Raw(bytes) => {
                (&*stream).write_all(&bytes)?;
                return stream.shutdown(std::net::Shutdown::Both);
            }
            Reply::Endless(bytes) => {
                (&*stream).write_all(&bytes)?;
                loop {
                    (&*stream).write_all(&[b'x'; 4096])?;
                }
            }
            Reply::Close => return stream.shutdown(std::net::Shutdown::Both),
            Reply::Hang => drop(reader.read(&mut [0])?),
        }
    }
}

fn read(reader: &mut impl BufRead, connection: usize) -> io::Result<Seen> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Seen { method, path, headers, body, connection, at: Instant::now() })
}
