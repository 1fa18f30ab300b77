//! What one round of receives gave: views into the receiver's memory.

use std::sync::Arc;

/// The process that sent a message over a Unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    /// Its process id, as the agent's pid namespace has it.
    pub pid: u32,
    /// The container it runs in, if its cgroup names one.
    pub container: Option<Arc<str>>,
}

/// One message: a datagram, a packet, or a message of a stream without its delimiter.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// Its bytes, in the receiver's memory.
    pub bytes: &'a [u8],
    /// Who sent it; only Unix sockets know, and only if they were asked to.
    pub sender: Option<&'a Sender>,
}

/// The messages of one round of receives, in the order of their arrival on each socket.
#[derive(Debug)]
pub struct Messages<'a> {
    pub(crate) memory: &'a [u8],
    pub(crate) batch: &'a Batch,
    pub(crate) received_ns: u64,
}

impl<'a> Messages<'a> {
    /// The messages, one after the other.
    pub fn iter(&self) -> Iter<'a> {
        Iter {
            memory: self.memory,
            spans: self.batch.spans.iter(),
            senders: &self.batch.senders,
            rest: &[],
            segment: 0,
            sender: None,
        }
    }

    /// When the round was read: nanoseconds since 1970 by the clock of the host.
    pub fn received_ns(&self) -> u64 {
        self.received_ns
    }

    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.batch.messages
    }

    /// True if there are none; a receiver never hands on such a round.
    pub fn is_empty(&self) -> bool {
        self.batch.messages == 0
    }

    /// Bytes of all messages together.
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

/// The messages of a round, one after the other.
#[derive(Debug, Clone)]
pub struct Iter<'a> {
    memory: &'a [u8],
    spans: std::slice::Iter<'a, Span>,
    senders: &'a [Sender],
    /// What is left of a slot that holds several datagrams, and the length of each.
    rest: &'a [u8],
    segment: usize,
    sender: Option<&'a Sender>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Message<'a>;

    #[inline]
    fn next(&mut self) -> Option<Message<'a>> {
        if self.rest.is_empty() {
            let span = self.spans.next()?;
            let bytes = &self.memory[span.start as usize..][..span.len as usize];
            self.sender = self.senders.get(span.sender as usize);
            if span.segment == 0 {
                return Some(Message { bytes, sender: self.sender });
            }
            (self.rest, self.segment) = (bytes, span.segment as usize);
        }
        let (bytes, rest) = self.rest.split_at(self.segment.min(self.rest.len()));
        self.rest = rest;
        Some(Message { bytes, sender: self.sender })
    }
}

/// Marks a span without a sender.
const NOBODY: u32 = u32::MAX;

/// Where a message lies in the memory; several datagrams of one length if `segment` is not 0.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: u32,
    len: u32,
    segment: u32,
    sender: u32,
}

/// The spans of one round; used again for the next.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    spans: Vec<Span>,
    senders: Vec<Sender>,
    pub messages: usize,
    pub bytes: usize,
}

impl Batch {
    pub fn clear(&mut self) {
        self.spans.clear();
        self.senders.clear();
        (self.messages, self.bytes) = (0, 0);
    }

    /// Notes the sender of the messages pushed with the index it returns.
    pub fn sender(&mut self, sender: Option<&Sender>) -> u32 {
        let Some(sender) = sender else { return NOBODY };
        // Messages of one process mostly follow each other.
        if self.senders.last() != Some(sender) {
            self.senders.push(sender.clone());
        }
        self.senders.len() as u32 - 1
    }

    /// `segment` is 0 for a single message, else the length of each datagram but the last.
    #[inline]
    pub fn push(&mut self, start: usize, len: usize, segment: usize, sender: u32) {
        let is_single = segment == 0 || segment >= len;
        let segment = if is_single { 0 } else { segment };
        self.messages += if is_single { 1 } else { len.div_ceil(segment) };
        self.bytes += len;
        // The memory of a thread is less than 4 GiB: Slots::new and Stream::new see to that.
        self.spans.push(Span {
            start: start as u32,
            len: len as u32,
            segment: segment as u32,
            sender,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_of_one_slot_come_apart() {
        let mut batch = Batch::default();
        let sender = Sender { pid: 7, container: None };
        let (one, nobody) = (batch.sender(Some(&sender)), batch.sender(None));
        batch.push(0, 7, 3, one);
        batch.push(7, 0, 0, nobody);
        batch.push(8, 2, 2, nobody);
        let messages = Messages { memory: b"abcdefg.hi", batch: &batch, received_ns: 1 };
        let found: Vec<_> = messages.iter().map(|m| (m.bytes, m.sender.map(|s| s.pid))).collect();
        let expected: [(&[u8], _); 5] =
            [(b"abc", Some(7)), (b"def", Some(7)), (b"g", Some(7)), (b"", None), (b"hi", None)];
        assert_eq!(found, expected);
        assert_eq!((messages.len(), messages.bytes()), (5, 9));
    }
}
