//! A connection accepted from a listening socket.

use crate::messages::Batch;
use crate::receive_buffers::{Ancillary, ReceiveBuffers};
use crate::senders::Senders;
use crate::stream::{Desynchronized, READ_BYTES, Stream};
use crate::sys::{self, Mapping};
use crate::tls::{CIPHERTEXT_BYTES, TlsStream};
use crate::{Address, Options, Protocol, TlsConfigs};
use millstream_recorder::record::{self, Subject};
use millstream_recorder::recorder;
use millstream_recorder::schema::EventKind;
use rustix::io::Errno;
use rustix::net::sockopt;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

/// Maximum number of packets read from a connection per turn, so that it does not starve other
/// connections.
const PACKETS_MAX: usize = 64;

/// A connection and the parser state of its stream.
#[derive(Debug)]
pub struct Connection {
    pub fd: OwnedFd,
    kind: Kind,
    /// Process id of the peer, if credentials are enabled and available.
    pid: Option<u32>,
    /// Network address of the peer, if addresses are enabled and it has one.
    address: Option<SocketAddr>,
    /// The peer as the subject of recorded reads.
    peer: Arc<Subject>,
    /// When the connection last completed a message, or began one after it was idle.
    active: Instant,
}

#[derive(Debug)]
enum Kind {
    Packets,
    Stream(Stream, Option<TlsStream>),
}

/// The outcome of one read. The messages are in the batch.
#[derive(Debug, Default)]
pub struct ReadOutcome {
    pub truncated: usize,
    pub framing_errors: usize,
    /// Bytes read. An empty packet is counted as one byte.
    pub bytes: usize,
    /// Whether more data may be waiting.
    pub is_more: bool,
    /// Whether a length in the stream is invalid, so that the next message cannot be found.
    pub is_desynchronized: bool,
    /// The reason why TLS has failed.
    pub tls_error: Option<String>,
    /// Whether the peer has ended the TLS session, so that the next read ends the stream.
    pub is_closing: bool,
    /// Whether the connection must be closed, because the peer closed it or the stream is unusable.
    pub is_finished: bool,
    pub error: Option<Errno>,
}

impl Connection {
    /// Creates a connection from `address` that `listener` has accepted. Its reads are recorded
    /// with the subject `peer`.
    ///
    /// # Errors
    /// Returns the reason why TLS is not available.
    pub fn new(
        fd: OwnedFd,
        address: Option<SocketAddr>,
        peer: Arc<Subject>,
        listener: &Address,
        protocol: &Protocol,
        options: &Options,
    ) -> Result<Connection, String> {
        if matches!(listener, Address::Tcp(_)) {
            // Keepalive detects a peer that vanished without closing the connection.
            let _ = sockopt::set_socket_keepalive(&fd, true);
        }
        let pid = peer_pid(&fd, listener, options);
        let kind = match listener.is_stream() {
            true => {
                let tls = protocol.tls.as_ref().map(TlsConfigs::accept).transpose()?;
                Kind::Stream(Stream::new(protocol.framing, options), tls)
            }
            false => Kind::Packets,
        };
        Ok(Connection { fd, kind, pid, address, peer, active: Instant::now() })
    }

    /// Applies the options of another receiver. Returns the number of framing errors that this
    /// causes.
    pub fn apply_options(
        &mut self,
        listener: &Address,
        options: &Options,
    ) -> Result<usize, Desynchronized> {
        self.pid = peer_pid(&self.fd, listener, options);
        match &mut self.kind {
            Kind::Packets => Ok(0),
            Kind::Stream(stream, _) => stream.apply_options(options),
        }
    }

    /// Returns the network address of the peer, if it has one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Returns whether the connection has been idle, or within one message, for too long.
    pub fn is_timed_out(&self, now: Instant, options: &Options) -> bool {
        let timeout = match &self.kind {
            Kind::Stream(_, Some(tls)) if tls.is_handshaking() => options.message_timeout,
            Kind::Stream(stream, _) if stream.is_partial() => options.message_timeout,
            _ => options.idle_timeout,
        };
        timeout.is_some_and(|timeout| now.duration_since(self.active) >= timeout)
    }

    /// Adds the peer to the batch, and returns its index.
    fn add_origin(&self, senders: &mut Senders, batch: &mut Batch, options: &Options) -> u32 {
        match self.address.filter(|_| options.addresses) {
            Some(address) => batch.add_address(Some(address)),
            None => batch.add_sender(self.pid.map(|pid| senders.get(pid))),
        }
    }

    /// Returns the number of bytes waiting in the socket's receive buffer.
    pub fn waiting(&self) -> usize {
        let bytes = rustix::io::ioctl_fionread(&self.fd).unwrap_or(0);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    pub fn is_packets(&self) -> bool {
        matches!(self.kind, Kind::Packets)
    }

    /// Reads packets into the buffers. `is_hung_up` means that the peer is known to have closed the
    /// connection.
    pub fn packets(
        &mut self,
        buffers: &mut ReceiveBuffers,
        senders: &mut Senders,
        batch: &mut Batch,
        is_hung_up: bool,
        options: &Options,
    ) -> ReadOutcome {
        self.active = Instant::now();
        let sender = self.add_origin(senders, batch, options);
        let ancillary = Ancillary::Plain(sender);
        match buffers.receive(self.fd.as_fd(), PACKETS_MAX, ancillary, &self.peer, batch) {
            // The end of the connection looks like an empty packet, but a peer may also send empty
            // packets.
            Ok(received) => ReadOutcome {
                truncated: received.truncated,
                bytes: batch.bytes.max(received.buffers),
                is_more: received.buffers == PACKETS_MAX && received.empty == 0,
                is_finished: received.buffers == 0 || (is_hung_up && received.empty > 0),
                ..ReadOutcome::default()
            },
            Err(error) => ReadOutcome::failed(error),
        }
    }

    /// Reads one chunk of the stream into `memory`, which must be at least [`Stream::memory_bytes`]
    /// large.
    pub fn stream(
        &mut self,
        memory: &mut Mapping,
        senders: &mut Senders,
        batch: &mut Batch,
        options: &Options,
    ) -> ReadOutcome {
        let sender = self.add_origin(senders, batch, options);
        let Kind::Stream(stream, tls) = &mut self.kind else { return ReadOutcome::default() };
        let memory = memory.bytes_mut();
        let was_partial =
            stream.is_partial() || tls.as_ref().is_some_and(TlsStream::is_handshaking);
        let partial = stream.restore(memory);
        let chunk = &mut memory[partial..partial + READ_BYTES];
        let (read, plain) = match receive(&self.fd, tls.as_mut(), chunk, &self.peer) {
            Ok(received) => received,
            Err(error) if error.is_transient() => return ReadOutcome::default(),
            Err(error) => {
                let framing_errors = stream.abort();
                return ReadOutcome { framing_errors, ..error.outcome() };
            }
        };
        if read == 0 {
            let framing_errors = stream.finish(&memory[..partial], batch, sender);
            return ReadOutcome { framing_errors, is_finished: true, ..ReadOutcome::default() };
        }
        let parsed = stream.parse(&memory[..partial + plain], batch, sender);
        if !was_partial || batch.messages > 0 {
            self.active = Instant::now();
        }
        match parsed {
            Ok(framing_errors) => ReadOutcome {
                framing_errors,
                bytes: read,
                is_closing: tls.as_ref().is_some_and(TlsStream::is_closed),
                is_more: read == if tls.is_some() { CIPHERTEXT_BYTES } else { READ_BYTES },
                ..ReadOutcome::default()
            },
            Err(Desynchronized) => ReadOutcome::desynchronized(),
        }
    }

    /// Ends the stream before its peer does. `memory` is that of [`Connection::stream`]. Returns
    /// the number of framing errors.
    pub fn finish(
        &mut self,
        memory: &mut Mapping,
        senders: &mut Senders,
        batch: &mut Batch,
        options: &Options,
    ) -> usize {
        let sender = self.add_origin(senders, batch, options);
        let Kind::Stream(stream, _) = &mut self.kind else { return 0 };
        let memory = memory.bytes_mut();
        let partial = stream.restore(memory);
        stream.finish(&memory[..partial], batch, sender)
    }
}

impl ReadOutcome {
    fn desynchronized() -> ReadOutcome {
        let framing_errors = 1;
        let (is_desynchronized, is_finished) = (true, true);
        ReadOutcome { framing_errors, is_desynchronized, is_finished, ..ReadOutcome::default() }
    }

    fn failed(error: Errno) -> ReadOutcome {
        if is_transient(error) {
            return ReadOutcome::default();
        }
        ReadOutcome { is_finished: true, error: Some(error), ..ReadOutcome::default() }
    }
}

/// Reads from a connection with one call. Decrypts what was read, if there is TLS. Returns the
/// number of bytes that were read, which is 0 at the end of the stream, and the number of bytes in
/// `chunk`.
fn receive(
    fd: &OwnedFd,
    tls: Option<&mut TlsStream>,
    chunk: &mut [u8],
    peer: &Subject,
) -> Result<(usize, usize), ReceiveError> {
    let Some(tls) = tls else {
        return read(fd, chunk, peer).map(|read| (read, read)).map_err(ReceiveError::Socket);
    };
    if tls.is_closed() {
        return Ok((0, 0));
    }
    let mut ciphertext = [0; CIPHERTEXT_BYTES];
    let read = read(fd, &mut ciphertext, peer).map_err(ReceiveError::Socket)?;
    let plain = tls.decrypt(&ciphertext[..read], chunk);
    // The handshake, or an alert that says what is wrong.
    tls.flush(|bytes| Ok(rustix::io::write(fd, bytes)?));
    plain.map(|plain| (read, plain)).map_err(ReceiveError::Tls)
}

/// The reason why a stream cannot be read.
enum ReceiveError {
    Socket(Errno),
    Tls(rustls::Error),
}

impl ReceiveError {
    fn is_transient(&self) -> bool {
        matches!(self, ReceiveError::Socket(error) if is_transient(*error))
    }

    fn outcome(self) -> ReadOutcome {
        match self {
            ReceiveError::Socket(error) => ReadOutcome::failed(error),
            ReceiveError::Tls(error) => ReadOutcome {
                tls_error: Some(error.to_string()),
                is_finished: true,
                ..ReadOutcome::default()
            },
        }
    }
}

/// Reads from a connection with one call, and records it. Returns 0 at the end of the stream.
fn read(fd: &OwnedFd, buffer: &mut [u8], peer: &Subject) -> Result<usize, Errno> {
    let timer = recorder::start(EventKind::SocketRead);
    let bytes = rustix::io::read(fd, buffer)?;
    record::socket_read(timer, peer, bytes);
    Ok(bytes)
}

/// Returns the process id of the peer, if credentials are enabled and available.
fn peer_pid(fd: &OwnedFd, listener: &Address, options: &Options) -> Option<u32> {
    let is_known = options.credentials && !matches!(listener, Address::Tcp(_));
    is_known.then(|| sys::peer(fd.as_fd())).flatten()
}

/// Returns whether an error only means that the call should be retried later.
pub fn is_transient(error: Errno) -> bool {
    matches!(error, Errno::AGAIN | Errno::INTR)
}
