//! The border to sockets: datagrams, packets and streams to threads, many with one call, without
//! copies.
//!
//! A separate crate because it fences `unsafe`: `recvmmsg` and the buffers it fills.
//!
//! ```text
//! Receiver::open        sockets are bound; the kernel keeps what arrives, nothing is read
//! Receiver::start       one thread per share, paused
//! Receiving::resume     recvmmsg into slots -> MessageHandler::round with views
//! Receiving::pause      what waits is read, then nothing more
//! ```
//!
//! UDP has one socket per thread on the same port, and the kernel spreads senders over them. A Unix
//! datagram socket belongs to one thread; a connection to the thread that took it.
//!
//! Two receivers of one process may have the same address open: they share its sockets, so that
//! nothing is lost while the second takes over from the first. Each message goes to one of them.

mod address;
mod connection;
mod control;
mod ends;
mod error;
mod file;
mod handler;
mod messages;
mod names;
mod pace;
mod reader;
mod receiver;
mod senders;
mod slots;
mod socket;
mod stats;
mod stream;
mod sys;
mod wait;

pub use address::Address;
pub use error::BindError;
pub use handler::MessageHandler;
pub use messages::{Iter, Message, Messages, Sender};
pub use receiver::{Bound, Receiver, Receiving};
pub use stats::Stats;

/// How the messages of a stream of bytes are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// A line is a message. A line that is too long is left out, the end of the connection ends the
    /// last one, and empty lines are no messages. What an error of the network cuts off is left
    /// out.
    Lines,
    /// Four bytes with the length, the lowest first, stand before each message. A length that is
    /// too large ends the connection: nobody could say where the next message begins.
    Length,
}

/// A place to listen at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// Where.
    pub address: Address,
    /// Rights of the socket file, such as `0o660`; those of the umask if none.
    pub mode: Option<u32>,
    /// How messages are told apart in streams; other kinds of socket ignore it.
    pub framing: Framing,
}

/// How a receiver reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Threads, and sockets of each UDP address.
    pub shares: usize,
    /// Bytes of receive buffer to ask for, per socket.
    pub receive_buffer: usize,
    /// Longest message, in bytes; longer ones are counted and left out. 16 MiB at most.
    pub message_bytes_max: usize,
    /// Connections open at the same time, over all threads.
    pub connections_max: usize,
    /// Ask Unix sockets who sent a message.
    pub credentials: bool,
    /// Wait for up to a millisecond when UDP datagrams come fast, so that one wake-up brings many.
    pub merge: bool,
}
