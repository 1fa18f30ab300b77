//! An endpoint that speaks the frames of sink `tcp` with acknowledgements
//! (docs/formats/tcp-frames.md), keeps what it acknowledges, and does with each message what a test
//! says.

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

/// What to do with a data message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Keep it and acknowledge it.
    Keep,
    /// Keep it and everything behind it on this connection, without a word.
    KeepSilently,
    /// Keep it, then break the connection off without a word.
    KeepThenReset,
    /// Throw it away, with everything behind it on this connection.
    Ignore,
    /// Break the connection off.
    Reset,
    /// Read nothing more from this connection.
    Stall,
    /// Say that it will never be taken.
    Refuse(&'static str),
    /// Throw it away and write these bytes.
    Write(Vec<u8>),
    /// Keep it and acknowledge it after this time.
    Late(Duration),
}

/// A data message as it came.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Which connection it came over, from 0.
    pub connection: usize,
    /// How many messages came before, over all connections.
    pub nth: usize,
    /// Its number in its session.
    pub number: u64,
}

/// A batch that was kept.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The session.
    pub session: [u8; 16],
    /// The number in that.
    pub number: u64,
    /// Events, as the message says.
    pub events: u32,
    /// The batch, unpacked: of lines, each with its line end.
    pub body: Vec<u8>,
    /// How often it came.
    pub times: usize,
}

/// The endpoint: listens until it is dropped.
pub struct FrameServer {
    /// Its port on 127.0.0.1.
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
    /// Listens on a free port of 127.0.0.1.
    pub fn start(act: impl Fn(Message) -> Act + Send + Sync + 'static) -> FrameServer {
        FrameServer::with(None, act)
    }

    /// The same, with TLS if there is a configuration.
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
                thread::spawn(move || Visit::new(stream, shared, connection)?.serve());
            }
        });
        FrameServer { port, shared }
    }

    /// All batches so far, one behind the other, repeats left out.
    pub fn bytes(&self) -> Vec<u8> {
        self.kept().into_iter().flat_map(|batch| batch.body).collect()
    }

    /// The same as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.bytes()).expect("text")
    }

    /// The batches so far, in the order in which they were kept first.
    pub fn kept(&self) -> Vec<Batch> {
        self.shared.lock().kept.clone()
    }

    /// Connections so far.
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

/// How a connection goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mood {
    Well,
    Silent,
    Deaf,
}

/// One connection.
struct Visit {
    socket: TcpStream,
    wire: Box<dyn Wire>,
    shared: Arc<Shared>,
    connection: usize,
}

impl Visit {
    fn new(socket: TcpStream, shared: Arc<Shared>, connection: usize) -> io::Result<Visit> {
        let wire = wire(&socket, shared.tls.as_ref())?;
        Ok(Visit { socket, wire, shared, connection })
    }

    fn serve(mut self) -> io::Result<()> {
        let hello = self.frame()?;
        let session = hello[4..20].try_into().expect("16 bytes");
        let compression = ["", "gzip", "deflate", "zstd", "snappy", "lz4"][usize::from(hello[2])];
        self.answer(b'A', self.highest(session), "")?;
        let mut mood = Mood::Well;
        loop {
            let frame = self.frame()?;
            assert_eq!(frame[0], b'D', "a data message");
            let number = u64::from_be_bytes(frame[1..9].try_into().expect("8 bytes"));
            if mood == Mood::Deaf {
                continue;
            }
            let act = if mood == Mood::Silent { Act::KeepSilently } else { self.decide(number) };
            let keeps =
                matches!(act, Act::Keep | Act::KeepSilently | Act::KeepThenReset | Act::Late(_));
            if keeps {
                let body = unpack(compression, &frame[13..])?;
                self.keep(
                    session,
                    number,
                    u32::from_be_bytes(frame[9..13].try_into().expect("4 bytes")),
                    body,
                );
            }
            mood = self.go_on(act, number)?;
        }
    }

    fn decide(&self, number: u64) -> Act {
        let mut state = self.shared.lock();
        let message = Message { connection: self.connection, nth: state.messages, number };
        state.messages += 1;
        drop(state);
        (self.shared.act)(message)
    }

    fn go_on(&mut self, act: Act, number: u64) -> io::Result<Mood> {
        match act {
            Act::Keep => self.answer(b'A', number, "")?,
            Act::KeepSilently => return Ok(Mood::Silent),
            Act::Ignore => return Ok(Mood::Deaf),
            Act::Reset | Act::KeepThenReset => return self.reset(),
            Act::Stall => {
                while !self.shared.lock().closed {
                    thread::sleep(Duration::from_millis(20));
                }
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            Act::Refuse(reason) => self.answer(b'R', number, reason)?,
            Act::Write(bytes) => {
                self.write(&bytes)?;
                return Ok(Mood::Deaf);
            }
            Act::Late(pause) => {
                thread::sleep(pause);
                self.answer(b'A', number, "")?;
            }
        }
        Ok(Mood::Well)
    }

    fn reset(&self) -> io::Result<Mood> {
        set_socket_linger(&self.socket, Some(Duration::ZERO))?;
        Err(io::ErrorKind::ConnectionReset.into())
    }

    fn highest(&self, session: [u8; 16]) -> u64 {
        let state = self.shared.lock();
        let of_session = state.kept.iter().filter(|batch| batch.session == session);
        of_session.map(|batch| batch.number).max().unwrap_or(0)
    }

    fn keep(&self, session: [u8; 16], number: u64, events: u32, body: Vec<u8>) {
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

    fn answer(&mut self, kind: u8, number: u64, reason: &str) -> io::Result<()> {
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
