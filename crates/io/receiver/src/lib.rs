//! Receives datagrams, packets and streams on threads, many per system call, without copies.
//!
//! A separate crate because it fences `unsafe`: `recvmmsg` and the buffers it fills.
//!
//! ```text
//! Receiver::open        binds the sockets; the kernel buffers data, nothing is read
//! Receiver::start       spawns one thread per share, paused
//! Receiving::resume     recvmmsg into buffers -> MessageHandler::round with views
//! Receiving::pause      reads the buffered data, then stops
//! ```
//!
//! UDP has one socket per thread on the same port, and the kernel distributes senders over these
//! sockets. A Unix datagram socket belongs to one thread, and a connection belongs to the thread
//! that accepted it.
//!
//! Two receivers in one process may open the same address. They share its sockets, so nothing is
//! lost while the second takes over from the first. Each message goes to one of them.

mod address;
mod connection;
mod connection_limit;
mod control;
mod dns_cache;
mod epoll;
mod error;
mod file;
mod handler;
mod merge_pacer;
mod messages;
mod reader;
mod receive_buffers;
mod receiver;
mod senders;
mod socket;
mod stats;
mod stream;
mod sys;
mod tls;
mod wake;

pub use address::Address;
pub use error::BindError;
pub use handler::MessageHandler;
pub use messages::{Iter, Message, Messages, Sender};
pub use receiver::{Bound, Receiver, Receiving};
pub use senders::container_of;
pub use stats::Stats;
pub use tls::TlsConfigs;

use std::time::Duration;

/// How messages are delimited in a byte stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// One message per line. Lines over the limit are dropped, the end of the connection ends the
    /// last line, and empty lines are ignored. A line that is truncated by a network error is
    /// dropped.
    Lines,
    /// A length prefix before each message: four bytes, little-endian. A length over the limit
    /// closes the connection, because the next message boundary is unknown.
    Length,
    /// The framing of syslog (RFC 6587): a decimal length and a space before each message, or a
    /// line feed or NUL after it. The start of the connection decides. An invalid length closes
    /// the connection. Empty messages are ignored.
    Syslog,
}

/// An address to listen on, with its socket options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// Address of the socket.
    pub address: Address,
    /// Permissions of the socket file, such as `0o660`; `None` to use the umask.
    pub mode: Option<u32>,
    /// How messages are delimited in byte streams; ignored for other socket types.
    pub framing: Framing,
    /// TLS on TCP connections; `None` for plain text. Connections of another receiver that this one
    /// takes over stay as they are.
    pub tls: Option<TlsConfigs>,
}

/// What a connection speaks.
#[derive(Debug, Clone)]
struct Protocol {
    framing: Framing,
    tls: Option<TlsConfigs>,
}

impl Listen {
    fn protocol(&self) -> Protocol {
        let tls = self.tls.clone().filter(|_| matches!(self.address, Address::Tcp(_)));
        Protocol { framing: self.framing, tls }
    }
}

/// A receiver's options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Number of threads, and number of sockets per UDP address.
    pub shares: usize,
    /// Requested receive buffer size per socket, in bytes.
    pub receive_buffer: usize,
    /// Maximum message size in bytes, at most 16 MiB. Longer messages are counted and dropped.
    pub message_bytes_max: usize,
    /// Maximum number of open connections across all threads.
    pub connections_max: usize,
    /// Whether a message over the limit is truncated instead of dropped. Only datagrams, packets
    /// and [`Framing::Syslog`] support this.
    pub truncates: bool,
    /// Whether to request the sender's credentials on Unix sockets.
    pub credentials: bool,
    /// Whether to report the network address of each message's sender.
    pub addresses: bool,
    /// Time without data after which a connection is closed.
    pub idle_timeout: Option<Duration>,
    /// Time after which a connection is closed if it has begun a message but not completed one.
    pub message_timeout: Option<Duration>,
    /// Whether to wait for up to a millisecond under a high rate of UDP datagrams, so that each
    /// wake-up receives many.
    pub merge: bool,
}
