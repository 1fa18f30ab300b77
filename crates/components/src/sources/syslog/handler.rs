//! Message handler of a receiver thread. It adds the messages to the queue.

use super::networks::Network;
use super::queue::Queue;
use millstream_model::Counters;
use millstream_receiver::{MessageHandler, Messages};
use std::net::SocketAddr;
use std::sync::Arc;

/// The handler.
pub struct SyslogHandler {
    /// Queue that the source empties.
    pub queue: Arc<Queue>,
    /// Networks from which messages are accepted; empty for all.
    pub networks: Arc<[Network]>,
    /// Counters of the source.
    pub counters: Arc<Counters>,
}

impl SyslogHandler {
    fn is_allowed(&self, address: SocketAddr) -> bool {
        self.networks.is_empty()
            || self.networks.iter().any(|network| network.contains(address.ip()))
    }
}

impl MessageHandler for SyslogHandler {
    fn round(&mut self, messages: &Messages<'_>) {
        let _entered = self.counters.enter();
        let (mut events, mut bytes, mut denied, mut lost) = (0, 0, 0, 0);
        let mut adding = self.queue.begin(messages.received_ns());
        for message in messages {
            if message.address.is_some_and(|address| !self.is_allowed(address)) {
                denied += 1;
                continue;
            }
            let text = trimmed(message.bytes);
            if text.is_empty() {
                continue;
            }
            (events, bytes) = (events + 1, bytes + text.len() as u64);
            lost += u64::from(!adding.push(text, message.address, message.is_truncated));
        }
        drop(adding);
        self.counters.received(events, bytes);
        self.counters.dropped("not_allowed", denied);
        self.counters.dropped("abandoned", lost);
    }

    fn notified(&mut self) {}

    fn accepts(&mut self, address: SocketAddr) -> bool {
        self.is_allowed(address)
    }
}

/// Removes the line feeds and NULs that some senders add to each message.
fn trimmed(message: &[u8]) -> &[u8] {
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r' | 0);
    let len = message.iter().rposition(|byte| !is_end(byte)).map_or(0, |last| last + 1);
    &message[..len]
}
