//! The messages of one receive round: views into the receiver's memory.

use std::net::SocketAddr;
use std::sync::Arc;

/// The process that sent a message over a Unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    /// Process id in the agent's pid namespace.
    pub pid: u32,
    /// Id of the container in which the process runs, if the process's cgroup contains one.
    pub container: Option<Arc<str>>,
}

/// One message: a datagram, a packet, or a message from a stream without its delimiter.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// The bytes, in the receiver's memory.
    pub bytes: &'a [u8],
    /// The sender; known only on Unix sockets with credentials enabled.
    pub sender: Option<&'a Sender>,
    /// The sender's network address; known only for UDP and TCP with addresses enabled.
    pub address: Option<SocketAddr>,
    /// Whether the end of the message is missing.
    pub is_truncated: bool,
}

impl<'a> Message<'a> {
    fn new(bytes: &'a [u8], origin: Option<&'a Origin>, is_truncated: bool) -> Message<'a> {
        let (sender, address) = match origin {
            Some(Origin::Process(sender)) => (Some(sender), None),
            Some(Origin::Address(address)) => (None, Some(*address)),
            None => (None, None),
        };
        Message { bytes, sender, address, is_truncated }
    }
}

/// Where a message came from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin {
    Process(Sender),
    Address(SocketAddr),
}

/// The messages of one receive round, in order of arrival per socket.
#[derive(Debug)]
pub struct Messages<'a> {
    pub(crate) memory: &'a [u8],
    pub(crate) batch: &'a Batch,
    pub(crate) received_ns: u64,
}

impl<'a> Messages<'a> {
    /// Returns an iterator over the messages.
    pub fn iter(&self) -> Iter<'a> {
        Iter {
            memory: self.memory,
            spans: self.batch.spans.iter(),
            origins: &self.batch.origins,
            rest: &[],
            segment: 0,
            origin: None,
        }
    }

    /// Returns when the round was read, in nanoseconds since the Unix epoch according to the host's
    /// clock.
    pub fn received_ns(&self) -> u64 {
        self.received_ns
    }

    /// Returns the number of messages.
    pub fn len(&self) -> usize {
        self.batch.messages
    }

    /// Returns whether there are no messages. A receiver never passes on such a round.
    pub fn is_empty(&self) -> bool {
        self.batch.messages == 0
    }

    /// Returns the total size of all messages in bytes.
    pub fn bytes(&self) -> usize {
        self.batch.bytes
    }
}

impl<'a> IntoIterator for &Messages<'a> {
    type Item = Message<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// An iterator over the messages of a round.
#[derive(Debug, Clone)]
pub struct Iter<'a> {
    memory: &'a [u8],
    spans: std::slice::Iter<'a, Span>,
    origins: &'a [Origin],
    /// The unread part of a buffer that contains several datagrams.
    rest: &'a [u8],
    /// Length of each datagram in `rest`. The last datagram may be shorter.
    segment: usize,
    origin: Option<&'a Origin>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Message<'a>;

    #[inline]
    fn next(&mut self) -> Option<Message<'a>> {
        if self.rest.is_empty() {
            let span = self.spans.next()?;
            let bytes = &self.memory[span.start as usize..][..span.len as usize];
            self.origin = self.origins.get(span.origin as usize);
            if span.segment == 0 {
                return Some(Message::new(bytes, self.origin, span.is_truncated));
            }
            (self.rest, self.segment) = (bytes, span.segment as usize);
        }
        let (bytes, rest) = self.rest.split_at(self.segment.min(self.rest.len()));
        self.rest = rest;
        Some(Message::new(bytes, self.origin, false))
    }
}

/// Marks a span whose origin is unknown.
const NO_ORIGIN: u32 = u32::MAX;

/// A message's position in the memory. A non-zero `segment` means several datagrams of that length.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: u32,
    len: u32,
    segment: u32,
    origin: u32,
    is_truncated: bool,
}

/// The spans of one round, reused for the next one.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    spans: Vec<Span>,
    origins: Vec<Origin>,
    pub messages: usize,
    pub bytes: usize,
}

impl Batch {
    pub fn clear(&mut self) {
        self.spans.clear();
        self.origins.clear();
        (self.messages, self.bytes) = (0, 0);
    }

    /// Adds a sender and returns its index, which must be passed to [`Batch::push`].
    pub fn add_sender(&mut self, sender: Option<&Sender>) -> u32 {
        let Some(sender) = sender else { return NO_ORIGIN };
        // Consecutive messages usually come from the same process.
        if !matches!(self.origins.last(), Some(Origin::Process(last)) if last == sender) {
            self.origins.push(Origin::Process(sender.clone()));
        }
        self.origins.len() as u32 - 1
    }

    /// Adds a network address and returns its index, which must be passed to [`Batch::push`].
    #[inline]
    pub fn add_address(&mut self, address: Option<SocketAddr>) -> u32 {
        let Some(address) = address else { return NO_ORIGIN };
        if !matches!(self.origins.last(), Some(Origin::Address(last)) if *last == address) {
            self.origins.push(Origin::Address(address));
        }
        self.origins.len() as u32 - 1
    }

    /// Adds a message. `segment` is 0 for a single message; otherwise, it is the length of each
    /// datagram except the last one.
    #[inline]
    pub fn push(&mut self, start: usize, len: usize, segment: usize, origin: u32) {
        let is_single = segment == 0 || segment >= len;
        let segment = if is_single { 0 } else { segment };
        self.messages += if is_single { 1 } else { len.div_ceil(segment) };
        self.bytes += len;
        // The cast is lossless, because a thread's memory is smaller than 4 GiB: see
        // ReceiveBuffers::new and Stream::new.
        self.spans.push(Span {
            start: start as u32,
            len: len as u32,
            segment: segment as u32,
            origin,
            is_truncated: false,
        });
    }

    /// Adds a message whose end is missing.
    pub fn push_truncated(&mut self, start: usize, len: usize, origin: u32) {
        self.push(start, len, 0, origin);
        if let Some(span) = self.spans.last_mut() {
            span.is_truncated = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_datagrams_are_split() {
        let mut batch = Batch::default();
        let sender = Sender { pid: 7, container: None };
        let (one, none) = (batch.add_sender(Some(&sender)), batch.add_sender(None));
        batch.push(0, 7, 3, one);
        batch.push(7, 0, 0, none);
        batch.push(8, 2, 2, none);
        let messages = Messages { memory: b"abcdefg.hi", batch: &batch, received_ns: 1 };
        let found: Vec<_> = messages.iter().map(|m| (m.bytes, m.sender.map(|s| s.pid))).collect();
        let expected: [(&[u8], _); 5] =
            [(b"abc", Some(7)), (b"def", Some(7)), (b"g", Some(7)), (b"", None), (b"hi", None)];
        assert_eq!(found, expected);
        assert_eq!((messages.len(), messages.bytes()), (5, 9));
    }
}
