//! A connection somebody made to a socket that is listened at.

use crate::messages::Batch;
use crate::senders::Senders;
use crate::slots::{Notes, Slots};
use crate::socket::Socket;
use crate::stream::{Broken, READ_BYTES, Stream};
use crate::sys::{self, Area};
use crate::{Address, Framing, Options};
use rustix::io::Errno;
use rustix::net::sockopt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Packets read from a connection at once, so that it does not keep the others waiting.
const PACKETS: usize = 64;

/// A connection with what is known of its stream.
#[derive(Debug)]
pub struct Connection {
    pub fd: OwnedFd,
    kind: Kind,
    /// The process at the other end, if it is to be known.
    pid: Option<u32>,
}

#[derive(Debug)]
enum Kind {
    Packets,
    Stream(Stream),
}

/// What reading a connection came to; messages are in the batch.
#[derive(Debug, Default)]
pub struct Reading {
    pub truncated: usize,
    pub framing_errors: usize,
    /// Bytes taken from the connection; a packet without any counts as one.
    pub bytes: usize,
    /// There may be more.
    pub is_more: bool,
    /// It is to be closed, because it has ended or cannot go on.
    pub is_over: bool,
    pub error: Option<Errno>,
}

impl Connection {
    pub fn new(
        fd: OwnedFd,
        listener: &Arc<Socket>,
        framing: Framing,
        options: &Options,
    ) -> Connection {
        if matches!(listener.address, Address::Tcp(_)) {
            // A peer that vanished without a word is noticed some time.
            let _ = sockopt::set_socket_keepalive(&fd, true);
        }
        let pid = peer(&fd, listener, options);
        let kind = match listener.address.is_stream() {
            true => Kind::Stream(Stream::new(framing, options)),
            false => Kind::Packets,
        };
        Connection { fd, kind, pid }
    }

    /// Goes on under the options of another receiver. Returns how many faults in the stream that
    /// makes.
    pub fn adapt(&mut self, listener: &Socket, options: &Options) -> Result<usize, Broken> {
        self.pid = peer(&self.fd, listener, options);
        match &mut self.kind {
            Kind::Packets => Ok(0),
            Kind::Stream(stream) => stream.adapt(options.message_bytes_max),
        }
    }

    /// Bytes that wait to be read.
    pub fn waiting(&self) -> usize {
        let bytes = rustix::io::ioctl_fionread(&self.fd).unwrap_or(0);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    pub fn is_packets(&self) -> bool {
        matches!(self.kind, Kind::Packets)
    }

    /// Reads packets into the slots. `is_hung_up` says that the other end is known to be closed.
    pub fn packets(
        &mut self,
        slots: &mut Slots,
        senders: &mut Senders,
        batch: &mut Batch,
        is_hung_up: bool,
    ) -> Reading {
        let sender = batch.sender(self.pid.map(|pid| senders.get(pid)));
        match slots.receive(self.fd.as_fd(), PACKETS, Notes::Plain(sender), batch) {
            // The end looks like packets without a byte, which may as well be sent.
            Ok(received) => Reading {
                truncated: received.truncated,
                bytes: batch.bytes.max(received.slots),
                is_more: received.slots == PACKETS && received.empty == 0,
                is_over: received.slots == 0 || (is_hung_up && received.empty > 0),
                ..Reading::default()
            },
            Err(error) => Reading::failed(error),
        }
    }

    /// Reads a part of the stream into the memory, of [`Stream::memory_bytes`] at least.
    pub fn stream(
        &mut self,
        memory: &mut Area,
        senders: &mut Senders,
        batch: &mut Batch,
    ) -> Reading {
        let Kind::Stream(stream) = &mut self.kind else { return Reading::default() };
        let memory = memory.bytes_mut();
        let open = stream.begin(memory);
        let sender = batch.sender(self.pid.map(|pid| senders.get(pid)));
        let read = match rustix::io::read(&self.fd, &mut memory[open..open + READ_BYTES]) {
            Ok(read) => read,
            Err(error) if is_passing(error) => return Reading::default(),
            Err(error) => {
                let framing_errors = stream.break_off();
                return Reading { framing_errors, ..Reading::failed(error) };
            }
        };
        if read == 0 {
            let framing_errors = stream.end(&memory[..open], batch, sender);
            return Reading { framing_errors, is_over: true, ..Reading::default() };
        }
        match stream.take(&memory[..open + read], batch, sender) {
            Ok(framing_errors) => Reading {
                framing_errors,
                bytes: read,
                is_more: read == READ_BYTES,
                ..Reading::default()
            },
            Err(_) => Reading { framing_errors: 1, is_over: true, ..Reading::default() },
        }
    }
}

impl Reading {
    fn failed(error: Errno) -> Reading {
        if is_passing(error) {
            return Reading::default();
        }
        Reading { is_over: true, error: Some(error), ..Reading::default() }
    }
}

/// The process at the other end, if it is to be known and can be.
fn peer(fd: &OwnedFd, listener: &Socket, options: &Options) -> Option<u32> {
    let is_known = options.credentials && !matches!(listener.address, Address::Tcp(_));
    is_known.then(|| sys::peer(fd.as_fd())).flatten()
}

/// True for errors that only say "not now".
pub fn is_passing(error: Errno) -> bool {
    matches!(error, Errno::AGAIN | Errno::INTR)
}
