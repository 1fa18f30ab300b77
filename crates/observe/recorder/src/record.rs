//! One function per event type, which records an event.
//!
//! ```
//! use millstream_recorder::record::{self, Subject};
//! use millstream_recorder::recorder;
//! use millstream_recorder::schema::EventKind;
//! use std::io::Read;
//! use std::path::Path;
//!
//! let path = Path::new("/proc/self/stat");
//! let subject = Subject::file(path); // kept beside the open file
//! let mut buffer = [0; 4096];
//! let timer = recorder::start(EventKind::FileRead);
//! let bytes = std::fs::File::open(path)?.read(&mut buffer)?;
//! record::file_read(timer, &subject, bytes, bytes == 0);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! A disabled event costs a load and a branch. If a field has 32 bits, larger numbers are recorded
//! as the maximum.

use crate::names::Part;
use crate::recorder::{self, Timer, instant, text};
use crate::schema::EventKind;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The subject of events: a file, a connection, or one or two components. It should live as long as
/// the thing that it describes, so that the names are stored once and each event refers to them.
pub struct Subject {
    texts: [Option<Box<str>>; 2],
    number: Option<u32>,
    /// Whether the subject is a connection, which is distinct from other connections with the same
    /// names.
    is_connection: bool,
    /// The reference to the stored names (32 bits), and the epoch of the reference (32 bits).
    reference: AtomicU64,
}

impl Subject {
    fn new(first: &str, second: Option<&str>, number: Option<u32>) -> Subject {
        let texts = [Some(first.into()), second.map(Into::into)];
        Subject { texts, number, is_connection: false, reference: AtomicU64::new(0) }
    }

    /// Creates the subject for a file. Bytes of the path that are not UTF-8 are replaced.
    pub fn file(path: &Path) -> Subject {
        Subject::new(&path.to_string_lossy(), None, None)
    }

    /// Creates the subject for the peer of a connection, given its configured name and its address.
    pub fn peer(host: &str, address: SocketAddr) -> Subject {
        let ip = address.ip().to_string();
        let peer = Subject::new(host, Some(&ip), Some(u32::from(address.port())));
        Subject { is_connection: true, ..peer }
    }

    /// Creates the subject for the peer of a connection for which only the name is known.
    pub fn named_peer(host: &str, port: u16) -> Subject {
        Subject::new(host, Some(""), Some(u32::from(port)))
    }

    /// Creates the subject for a peer on this host, given the path of a socket or another name.
    pub fn local_peer(name: &str) -> Subject {
        Subject::new("", Some(name), Some(0))
    }

    /// Creates the subject for a component.
    pub fn component(id: &str) -> Subject {
        Subject::new(id, None, None)
    }

    /// Creates the subject for a component and a second name: the component for which it waits, or
    /// its consumer group.
    pub fn component_with(id: &str, other: &str) -> Subject {
        Subject::new(id, Some(other), None)
    }

    /// Returns the reference to the names. Stores the names if necessary.
    #[inline(always)]
    fn reference(&self) -> u32 {
        let stored = self.reference.load(Relaxed);
        let epoch = stored as u32;
        if epoch != 0 && epoch == recorder::epoch() { (stored >> 32) as u32 } else { self.store() }
    }

    #[cold]
    fn store(&self) -> u32 {
        let texts = self.texts.iter().flatten().map(|text| Part::Text(text));
        let parts: [Option<Part<'_>>; 3] = {
            let mut all = texts.chain(self.number.map(Part::Number));
            [all.next(), all.next(), all.next()]
        };
        let count = parts.iter().flatten().count();
        let parts = parts.map(|part| part.unwrap_or(Part::Number(0)));
        let (reference, epoch) = recorder::subject(&parts[..count], self.is_connection);
        self.reference.store(u64::from(reference) << 32 | u64::from(epoch), Relaxed);
        reference
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subject").field(&self.texts).field(&self.number).finish()
    }
}

/// Records that data was read from a file.
#[inline(always)]
pub fn file_read(timer: Timer, file: &Subject, bytes: usize, end_of_file: bool) {
    let own = || [bytes as u64, u64::from(end_of_file)];
    timer.end(EventKind::FileRead, || file.reference(), own);
}

/// Records that data was written to a file.
#[inline(always)]
pub fn file_write(timer: Timer, file: &Subject, bytes: usize) {
    timer.end(EventKind::FileWrite, || file.reference(), || [bytes as u64]);
}

/// Records that a file was synced to disk.
pub fn file_sync(timer: Timer, file: &Subject) {
    timer.end(EventKind::FileSync, || file.reference(), || []);
}

/// Records that data was read from a socket.
#[inline(always)]
pub fn socket_read(timer: Timer, peer: &Subject, bytes: usize) {
    timer.end(EventKind::SocketRead, || peer.reference(), || [bytes as u64]);
}

/// Records that data was written to a socket.
#[inline(always)]
pub fn socket_write(timer: Timer, peer: &Subject, bytes: usize) {
    timer.end(EventKind::SocketWrite, || peer.reference(), || [bytes as u64]);
}

/// Records that a component processed a batch.
#[inline(always)]
pub fn batch_stage(timer: Timer, component: &Subject, rows: usize, bytes: usize) {
    let own = || [rows as u64, bytes as u64];
    timer.end(EventKind::BatchStage, || component.reference(), own);
}

/// Records that a component waited for another component to have capacity. `waits` is a
/// [`Subject::component_with`].
pub fn wait_for_capacity(timer: Timer, waits: &Subject, bytes: usize) {
    timer.end(EventKind::WaitForCapacity, || waits.reference(), || [bytes as u64]);
}

/// Records that a component emitted accumulated data. The data was due `late` before the event
/// began.
pub fn flush(timer: Timer, component: &Subject, late: Duration, rows: usize) {
    let due = timer.start_ticks().saturating_sub(recorder::to_ticks(late));
    let own = || [due, rows as u64];
    timer.end(EventKind::Flush, || component.reference(), own);
}

/// Records that a delivery failed and will be retried. `code` is an HTTP status or a negative
/// system error code.
pub fn retry(component: &Subject, reason: &str, code: i64, attempts: u32, pause: Duration) {
    let own = || {
        let pause = recorder::to_ticks(pause);
        [text(reason), code.cast_unsigned(), u64::from(attempts), pause]
    };
    instant(EventKind::Retry, || component.reference(), own);
}

/// Records that rows were rejected or dropped.
pub fn dropped(component: &Subject, reason: &str, rows: usize) {
    instant(EventKind::Drop, || component.reference(), || [text(reason), rows as u64]);
}

/// Records that checkpoints were committed to the store.
pub fn checkpoint(timer: Timer, checkpoints: usize, outcome: &str) {
    timer.end(EventKind::Checkpoint, || 0, || [checkpoints as u64, text(outcome)]);
}

/// Records that a component's state was encoded and stored.
pub fn snapshot(timer: Timer, component: &Subject, bytes: usize) {
    timer.end(EventKind::Snapshot, || component.reference(), || [bytes as u64]);
}

/// Records that payloads were appended to a disk buffer, read from it, or released.
pub fn spool(timer: Timer, component: &Subject, operation: &str, payloads: usize, bytes: usize) {
    let own = || [text(operation), payloads as u64, bytes as u64];
    timer.end(EventKind::Spool, || component.reference(), own);
}

/// Records a call to an operator or a collector in a JVM.
pub fn jvm_call(timer: Timer, component: &Subject, rows: usize, bytes: usize, outcome: &str) {
    let own = || [rows as u64, bytes as u64, text(outcome)];
    timer.end(EventKind::JvmCall, || component.reference(), own);
}

/// Records a call to a collector in a JVM that ended `ended_ago` before now.
pub fn past_jvm_call(
    ended_ago: Duration,
    took: Duration,
    component: &Subject,
    rows: u64,
    bytes: u64,
    outcome: &str,
) {
    let own = || [rows, bytes, text(outcome)];
    recorder::past(EventKind::JvmCall, ended_ago, took, || component.reference(), own);
}

/// Records a JVM garbage collection that ended `ended_ago` before now. `collector` is a
/// [`Subject::component`] with the name of the garbage collector.
pub fn collection(
    ended_ago: Duration,
    took: Duration,
    collector: &Subject,
    cause: &str,
    before: u64,
    after: u64,
) {
    let own = || [text(cause), before, after];
    recorder::past(EventKind::Collection, ended_ago, took, || collector.reference(), own);
}

/// Records that the configuration was reloaded.
pub fn reload(timer: Timer, outcome: &str, components: usize) {
    timer.end(EventKind::Reload, || 0, || [text(outcome), components as u64]);
}

/// Records that a component was slowed down to stay within a limit.
pub fn throttle(timer: Timer, component: &Subject, reason: &str, limit: f64) {
    let own = || [text(reason), limit.to_bits()];
    timer.end(EventKind::Throttle, || component.reference(), own);
}

/// Records that partitions were assigned or revoked. `member` is a [`Subject::component_with`]
/// whose second name is the consumer group.
pub fn rebalance(timer: Timer, member: &Subject, assigned: usize, revoked: usize) {
    let own = || [assigned as u64, revoked as u64];
    timer.end(EventKind::Rebalance, || member.reference(), own);
}
