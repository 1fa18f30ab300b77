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
        let (mut events, mut bytes, mut denied) = (0, 0, 0);
        let mut adding = self.queue.begin(messages.received_ns());
        for message in messages {
            if message.address.is_some_and(|address| !self.is_allowed(address)) {
                denied += 1;
                continue;
            }
            let text = trimmed(without_length(message.bytes));
            if text.is_empty() {
                continue;
            }
            (events, bytes) = (events + 1, bytes + text.len() as u64);
            adding.push(text, message.address, message.is_truncated);
        }
        drop(adding);
        self.counters.received(events, bytes);
        self.counters.dropped("not_allowed", denied);
    }

    fn notified(&mut self) {}

    fn accepts(&mut self, address: SocketAddr) -> bool {
        self.is_allowed(address)
    }
}

/// Removes the length of a message, which some senders also write into datagrams, such as `logger`
/// with `--udp --octet-count`. The length must be exact, because other texts begin with digits, too.
fn without_length(message: &[u8]) -> &[u8] {
    let digits = message.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let [b' ', text @ ..] = &message[digits..] else { return message };
    let length = std::str::from_utf8(&message[..digits]).ok().and_then(|text| text.parse().ok());
    if text.first() == Some(&b'<') && length == Some(text.len()) { text } else { message }
}

/// Removes the line feeds and NULs that some senders add to each message.
fn trimmed(message: &[u8]) -> &[u8] {
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r' | 0);
    let len = message.iter().rposition(|byte| !is_end(byte)).map_or(0, |last| last + 1);
    &message[..len]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_exact_length_is_removed() {
        for (message, text) in [
            ("5 <1>ab", "<1>ab"),
            ("05 <1>ab", "<1>ab"),
            ("6 <1>ab", "6 <1>ab"),
            ("5 abcde", "5 abcde"),
            (" <1>ab", " <1>ab"),
            ("99999999999999999999999999 <1>", "99999999999999999999999999 <1>"),
            ("<1>ab", "<1>ab"),
            ("5", "5"),
            ("", ""),
        ] {
            assert_eq!(without_length(message.as_bytes()), text.as_bytes(), "{message}");
        }
    }
}
