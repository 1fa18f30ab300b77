//! What a receiver has done, counted by its threads.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Sums over all sockets and threads of a receiver since it was started.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Stats {
    /// Messages handed to the handlers.
    pub messages: u64,
    /// Bytes of these messages, without delimiters and lengths.
    pub bytes: u64,
    /// Rounds handed to the handlers.
    pub rounds: u64,
    /// Pauses made so that one wake-up brings many datagrams.
    pub merge_pauses: u64,
    /// Datagrams the kernel dropped at UDP sockets, because a buffer was full or a checksum was
    /// wrong. What the network layer had merged into one packet counts once.
    pub kernel_drops: u64,
    /// Datagrams and packets left out because they were longer than `message_bytes_max`.
    pub truncated: u64,
    /// Faults in streams: lines that were too long, lengths that were too large, messages that
    /// ended before their length.
    pub framing_errors: u64,
    /// Connections open now.
    pub connections: u64,
    /// Connections taken since the start.
    pub connections_accepted: u64,
    /// Connections closed at once because `connections_max` were open.
    pub connections_refused: u64,
    /// Connections that ended with an error of the network, such as a reset.
    pub connection_errors: u64,
    /// Errors of the system at sockets that are listened at: no memory, no more open files.
    pub socket_errors: u64,
    /// Panics of a handler, whose round is lost, and of what reads a connection, which is closed.
    pub panics: u64,
    /// Threads that have ended although the receiver goes on: what belonged to them is not read.
    pub threads_ended: u64,
    /// CPU time of the threads.
    pub cpu: std::time::Duration,
    /// The last error, as text; it stays until there is another one.
    pub last_error: Option<String>,
    /// Errors that had a text, so that the same text twice can be told from one that stays.
    pub unreadable: u64,
}

/// The counters behind [`Stats`], shared by the threads of a receiver.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub messages: AtomicU64,
    pub bytes: AtomicU64,
    pub rounds: AtomicU64,
    pub merge_pauses: AtomicU64,
    pub kernel_drops: AtomicU64,
    pub truncated: AtomicU64,
    pub framing_errors: AtomicU64,
    pub connections_accepted: AtomicU64,
    pub connections_refused: AtomicU64,
    pub connection_errors: AtomicU64,
    pub socket_errors: AtomicU64,
    pub panics: AtomicU64,
    pub threads_ended: AtomicU64,
    /// How many there were, and the text of the last.
    last_error: Mutex<(u64, Option<String>)>,
}

impl Counters {
    pub fn record_error(&self, text: String) {
        let mut last_error = self.last_error.lock();
        *last_error = (last_error.0 + 1, Some(text));
    }

    /// All but the connections that are open and the CPU time, which are counted elsewhere.
    pub fn read(&self) -> Stats {
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        let (unreadable, last_error) = self.last_error.lock().clone();
        Stats {
            messages: get(&self.messages),
            bytes: get(&self.bytes),
            rounds: get(&self.rounds),
            merge_pauses: get(&self.merge_pauses),
            kernel_drops: get(&self.kernel_drops),
            truncated: get(&self.truncated),
            framing_errors: get(&self.framing_errors),
            connections_accepted: get(&self.connections_accepted),
            connections_refused: get(&self.connections_refused),
            connection_errors: get(&self.connection_errors),
            socket_errors: get(&self.socket_errors),
            panics: get(&self.panics),
            threads_ended: get(&self.threads_ended),
            last_error,
            unreadable,
            ..Stats::default()
        }
    }
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, n: usize) {
    if n > 0 {
        counter.fetch_add(n as u64, Relaxed);
    }
}
