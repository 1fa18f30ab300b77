//! A receiver's statistics, counted by its threads.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Totals over all of a receiver's sockets and threads since it started.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Stats {
    /// Number of messages passed to the handlers.
    pub messages: u64,
    /// Bytes of these messages, without delimiters and length prefixes.
    pub bytes: u64,
    /// Number of rounds passed to the handlers.
    pub rounds: u64,
    /// Number of pauses inserted so that one wake-up receives many datagrams.
    pub merge_pauses: u64,
    /// Number of datagrams that the kernel dropped at UDP sockets due to a full buffer or a wrong
    /// checksum. Datagrams merged by the network layer are counted as one.
    pub kernel_drops: u64,
    /// Number of datagrams and packets dropped because they exceed `message_bytes_max`.
    pub truncated: u64,
    /// Number of framing errors in streams: lines or lengths over the limit, and messages shorter
    /// than their length.
    pub framing_errors: u64,
    /// Number of connections that are open now.
    pub connections: u64,
    /// Number of connections accepted since the start.
    pub connections_accepted: u64,
    /// Number of connections that were closed immediately because `connections_max` connections
    /// were already open.
    pub connections_refused: u64,
    /// Number of connections that were closed immediately because the handler does not accept their
    /// address.
    pub connections_denied: u64,
    /// Number of connections that were closed because of a timeout.
    pub connections_timed_out: u64,
    /// Number of connections that ended with a network error such as a reset.
    pub connection_errors: u64,
    /// Number of connections that ended because of an error in TLS, such as an unknown certificate.
    pub tls_errors: u64,
    /// Number of system errors at listening sockets, such as a lack of memory or file descriptors.
    pub socket_errors: u64,
    /// Number of panics. A panic in a handler loses the messages of the round, and a panic while a
    /// connection is read closes the connection.
    pub panics: u64,
    /// Number of threads that have exited while the receiver is still running. Their sockets are no
    /// longer read.
    pub threads_ended: u64,
    /// The threads' total CPU time.
    pub cpu: std::time::Duration,
    /// The most recent error message.
    pub last_error: Option<String>,
    /// Number of error messages recorded so far. With this number, a repeated message can be
    /// distinguished from an old one.
    pub errors_recorded: u64,
}

/// The counters behind [`Stats`], shared by a receiver's threads.
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
    pub connections_denied: AtomicU64,
    pub connections_timed_out: AtomicU64,
    pub connection_errors: AtomicU64,
    pub tls_errors: AtomicU64,
    pub socket_errors: AtomicU64,
    pub panics: AtomicU64,
    pub threads_ended: AtomicU64,
    /// Number of recorded messages, and the most recent one.
    last_error: Mutex<(u64, Option<String>)>,
}

impl Counters {
    pub fn record_error(&self, text: String) {
        let mut last_error = self.last_error.lock();
        *last_error = (last_error.0 + 1, Some(text));
    }

    /// Returns all statistics except for open connections and CPU time, which are not stored here.
    pub fn read(&self) -> Stats {
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        let (errors_recorded, last_error) = self.last_error.lock().clone();
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
            connections_denied: get(&self.connections_denied),
            connections_timed_out: get(&self.connections_timed_out),
            connection_errors: get(&self.connection_errors),
            tls_errors: get(&self.tls_errors),
            socket_errors: get(&self.socket_errors),
            panics: get(&self.panics),
            threads_ended: get(&self.threads_ended),
            last_error,
            errors_recorded,
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
