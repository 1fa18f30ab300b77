//! An endpoint for the frames of the `tcp` sink with acknowledgements (docs/formats/tcp-frames.md).
//! A test decides how the endpoint reacts to each message.

use crate::unpack::unpack;
use crate::wire::{Wire, wire};
use parking_lot::{Mutex, MutexGuard};
use rustix::net::sockopt::set_socket_linger;
use rustls::ServerConfig;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The reaction to a data message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Store the message and acknowledge it.
    Keep,
    /// Store the message and all later messages of the connection without acknowledgements.
    KeepWithoutAck,
    /// Store the message, then reset the connection without an acknowledgement.
    KeepThenReset,
    /// Discard the message and all later messages of the connection.
    Discard,
    /// Reset the connection.
    Reset,
    /// Stop reading from the connection.
    Stall,
    /// Reject the message permanently, for this reason.
    Reject(&'static str),
    /// Respond with these bytes. Discard the message and all later messages of the connection.
    Write(Vec<u8>),
    /// Store the message and acknowledge it after this delay.
    AckAfter(Duration),
}

/// A received data message.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Index of the connection, from 0.
    pub connection: usize,
    /// Number of earlier messages on all connections.
    pub nth: usize,
    /// Sequence number of the message in the session.
    pub number: u64,
}

/// A stored batch.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Session id.
    pub session: [u8; 16],
    /// Sequence number in the session.
    pub number: u64,
    /// Number of events in the message header.
    pub events: u32,
    /// Decompressed batch: lines with their line endings.
    pub body: Vec<u8>,
    /// Number of times that the batch was received.
    pub times: usize,
}

/// An endpoint that listens until it is dropped.
pub struct FrameServer {
    /// Port on 127.0.0.1.
    pub port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    tls: Option<Arc<ServerConfig>>,
    act: Box<dyn Fn(Message) -> Act + Send + Sync>,
}

#[derive(Default)]
struct State {
    kept: Vec<Batch>,
    connections: usize,
    messages: usize,
    closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl FrameServer {
    /// Starts an endpoint on a free port of 127.0.0.1.
    pub fn start(act: impl Fn(Message) -> Act + Send + Sync + 'static) -> FrameServer {
        FrameServer::with(None, act)
    }

    /// Starts an endpoint, with TLS if there is a configuration.
    pub fn with(
        tls: Option<Arc<ServerConfig>>,
        act: impl Fn(Message) -> Act + Send + Sync + 'static,
    ) -> FrameServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port to listen on");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared { state: Mutex::default(), tls, act: Box::new(act) });
        let all = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut state = all.lock();
                if state.closed {
                    return;
                }
                state.connections += 1;
                let connection = state.connections - 1;
                drop(state);
                let shared = all.clone();
                thread::spawn(move || Connection::new(stream, shared, connection)?.serve());
            }
        });
        FrameServer { port, shared }
    }

    /// Returns all stored batches, concatenated without repeats.
    pub fn bytes(&self) -> Vec<u8> {
        self.kept().into_iter().flat_map(|batch| batch.body).collect()
    }

    /// Returns all stored batches as a string, without repeats.
    pub fn text(&self) -> String {
        String::from_utf8(self.bytes()).expect("text")
    }

    /// Returns the stored batches in the order of their first arrival.
    pub fn kept(&self) -> Vec<Batch> {
        self.shared.lock().kept.clone()
    }

    /// Returns the number of connections accepted so far.
    pub fn connections(&self) -> usize {
        self.shared.lock().connections
    }
}

/// Closes the port.
impl Drop for FrameServer {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

/// How to treat the next messages on a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Normal,
    WithoutAck,
    Discard,
}

/// One connection.
struct Connection {
    socket: TcpStream,
    wire: Box<dyn Wire>,
    shared: Arc<Shared>,
    number: usize,
}

impl Connection {
    fn new(socket: TcpStream, shared: Arc<Shared>, number: usize) -> io::Result<Connection> {
        let wire = wire(&socket, shared.tls.as_ref())?;
        Ok(Connection { socket, wire, shared, number })
    }

    fn serve(mut self) -> io::Result<()> {
        let hello = self.frame()?;
        let session = hello[4..20].try_into().expect("16 bytes");
        let compression = ["", "gzip", "deflate", "zstd", "snappy", "lz4"][usize::from(hello[2])];
        self.respond(b'A', self.last_number(session), "")?;
        let mut mode = Mode::Normal;
        loop {
            let frame = self.frame()?;
            assert_eq!(frame[0], b'D', "a data message");
            let number = u64::from_be_bytes(frame[1..9].try_into().expect("8 bytes"));
            if mode == Mode::Discard {
                continue;
            }
            let act =
                if mode == Mode::WithoutAck { Act::KeepWithoutAck } else { self.decide(number) };
            let stores = matches!(
                act,
                Act::Keep | Act::KeepWithoutAck | Act::KeepThenReset | Act::AckAfter(_)
            );
            if stores {
                let body = unpack(compression, &frame[13..])?;
                self.store(
                    session,
                    number,
                    u32::from_be_bytes(frame[9..13].try_into().expect("4 bytes")),
                    body,
                );
            }
            mode = self.perform(act, number)?;
        }
    }

    fn decide(&self, number: u64) -> Act {
        let mut state = self.shared.lock();
        let message = Message { connection: self.number, nth: state.messages, number };
        state.messages += 1;
        drop(state);
        (self.shared.act)(message)
    }

    fn perform(&mut self, act: Act, number: u64) -> io::Result<Mode> {
        match act {
            Act::Keep => self.respond(b'A', number, "")?,
            Act::KeepWithoutAck => return Ok(Mode::WithoutAck),
            Act::Discard => return Ok(Mode::Discard),
            Act::Reset | Act::KeepThenReset => return self.reset(),
            Act::Stall => {
                while !self.shared.lock().closed {
                    thread::sleep(Duration::from_millis(20));
                }
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            Act::Reject(reason) => self.respond(b'R', number, reason)?,
            Act::Write(bytes) => {
                self.write(&bytes)?;
                return Ok(Mode::Discard);
            }
            Act::AckAfter(delay) => {
                thread::sleep(delay);
                self.respond(b'A', number, "")?;
            }
        }
        Ok(Mode::Normal)
    }

    fn reset(&self) -> io::Result<Mode> {
        set_socket_linger(&self.socket, Some(Duration::ZERO))?;
        Err(io::ErrorKind::ConnectionReset.into())
    }

    fn last_number(&self, session: [u8; 16]) -> u64 {
        let state = self.shared.lock();
        let in_session = state.kept.iter().filter(|batch| batch.session == session);
        in_session.map(|batch| batch.number).max().unwrap_or(0)
    }

    fn store(&self, session: [u8; 16], number: u64, events: u32, body: Vec<u8>) {
        let mut state = self.shared.lock();
        let mut known = state
            .kept
            .iter_mut()
            .filter(|batch| (batch.session, batch.number) == (session, number));
        match known.next() {
            Some(batch) => batch.times += 1,
            None => state.kept.push(Batch { session, number, events, body, times: 1 }),
        }
    }

    fn frame(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.wire.read_exact(&mut length)?;
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.wire.read_exact(&mut frame)?;
        Ok(frame)
    }

    fn respond(&mut self, kind: u8, number: u64, reason: &str) -> io::Result<()> {
        let length = u32::try_from(9 + reason.len()).expect("a short reason");
        let mut frame = length.to_be_bytes().to_vec();
        frame.push(kind);
        frame.extend_from_slice(&number.to_be_bytes());
        frame.extend_from_slice(reason.as_bytes());
        self.write(&frame)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.wire.write_all(bytes)?;
        self.wire.flush()
    }
}
