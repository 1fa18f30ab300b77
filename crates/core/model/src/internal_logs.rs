//! The agent's log records, for the sources that emit them.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Maximum number of records that may wait for a source, or for the first source to start reading.
pub const RECORDS_MAX: usize = 1024;

/// Maximum total bytes of the waiting messages.
const BYTES_MAX: usize = 1 << 20;

/// Record levels, the most severe first.
const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

/// Returns the index of a level in [`LEVELS`]. An unknown level is placed after all known levels.
fn place(level: &str) -> usize {
    LEVELS.iter().position(|name| *name == level).unwrap_or(LEVELS.len())
}

/// A record in the agent's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// Time of the record in nanoseconds since 1970.
    pub unix_ns: i64,
    /// `error`, `warn`, `info`, `debug` or `trace`.
    pub level: &'static str,
    /// The part of the program that wrote the record.
    pub target: String,
    /// The message, on one line.
    pub message: String,
}

/// Records that are waiting for one reader.
struct Queue {
    waiting: Mutex<(VecDeque<LogRecord>, usize)>,
    dropped: AtomicU64,
    /// Index in [`LEVELS`] of the least severe level that is queued.
    least: AtomicUsize,
}

impl Default for Queue {
    /// Creates a queue for all levels.
    fn default() -> Queue {
        let least = AtomicUsize::new(LEVELS.len());
        Queue { waiting: Mutex::default(), dropped: AtomicU64::new(0), least }
    }
}

impl Queue {
    /// Queues a record, or counts it as dropped if the queue is full. Ignores a record below the
    /// queue's level.
    fn push(&self, record: &LogRecord) {
        if place(record.level) > self.least.load(Relaxed) {
            return;
        }
        let mut waiting = self.waiting.lock();
        let (records, bytes) = &mut *waiting;
        if records.len() >= RECORDS_MAX || *bytes + record.message.len() > BYTES_MAX {
            drop(waiting);
            self.dropped.fetch_add(1, Relaxed);
            return;
        }
        *bytes += record.message.len();
        records.push_back(record.clone());
    }

    /// Limits the queue to records up to level index `least`, and removes all other records.
    fn limit(&self, least: usize) {
        self.least.store(least, Relaxed);
        let (records, bytes) = &mut *self.waiting.lock();
        records.retain(|record| place(record.level) <= least);
        *bytes = records.iter().map(|record| record.message.len()).sum();
    }
}

/// Subscribes a source to future records up to a level index.
fn subscribed(
    readers: &mut Vec<Subscription>,
    id: &str,
    queue: Arc<Queue>,
    least: usize,
) -> Arc<Queue> {
    queue.limit(least);
    readers.push(Subscription { id: id.to_owned(), queue: Arc::downgrade(&queue) });
    queue
}

/// The queue of a source that reads log records.
struct Subscription {
    /// Id of the source.
    id: String,
    queue: Weak<Queue>,
}

/// Connects the log to the readers of its records.
#[derive(Default)]
struct Hub {
    /// Whether there is a reader, or an early queue, that takes records.
    is_read: AtomicBool,
    readers: Mutex<Vec<Subscription>>,
    /// Records from before the first reader; `None` once a reader has taken them or no reader will
    /// appear.
    early: Mutex<Option<Arc<Queue>>>,
}

/// Passes the agent's log records to sources. Publishing never waits, and only costs checking a
/// flag while there is no reader.
#[derive(Clone, Default)]
pub struct InternalLogs(Arc<Hub>);

impl InternalLogs {
    /// Creates a provider that keeps records for the first reader.
    pub fn keeping() -> InternalLogs {
        let logs = InternalLogs::default();
        *logs.0.early.lock() = Some(Arc::new(Queue::default()));
        logs.0.is_read.store(true, Relaxed);
        logs
    }

    /// Stops keeping records for a first reader.
    pub fn forget(&self) {
        *self.0.early.lock() = None;
        self.update();
    }

    /// Passes a record to all readers. `record` creates the record and is not called if there is no
    /// reader.
    pub fn publish(&self, record: impl FnOnce() -> LogRecord) {
        if !self.0.is_read.load(Relaxed) {
            return;
        }
        let record = record();
        let readers = self.0.readers.lock();
        self.0.early.lock().iter().for_each(|early| early.push(&record));
        let queues = readers.iter().filter_map(|reader| reader.queue.upgrade());
        queues.for_each(|queue| queue.push(&record));
    }

    /// Opens the reader for the source `id`, for future records of `level` and above. The first
    /// reader also gets the earlier records. If a source with this id is still running, the new
    /// reader continues where the old one stops.
    pub fn reader(&self, id: &str, level: &str) -> LogReader {
        let mut readers = self.0.readers.lock();
        let running = readers.iter().find(|reader| reader.id == id);
        let mut queue = running.and_then(|reader| reader.queue.upgrade());
        let (logs, id, least) = (self.clone(), id.to_owned(), place(level));
        // The first reader gets the early records on its first call, because a reader may belong
        // only to a configuration check.
        if queue.is_none() && self.0.early.lock().is_none() {
            queue = Some(subscribed(&mut readers, &id, Arc::default(), least));
        }
        drop(readers);
        logs.update();
        LogReader { queue, has_begun: false, least, id, logs }
    }

    fn update(&self) {
        let mut readers = self.0.readers.lock();
        readers.retain(|reader| reader.queue.strong_count() > 0);
        let has_early = self.0.early.lock().is_some();
        self.0.is_read.store(has_early || !readers.is_empty(), Relaxed);
    }
}

impl fmt::Debug for InternalLogs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InternalLogs")
    }
}

/// Reads records from a bounded queue. If the queue is full, new records are dropped and counted.
pub struct LogReader {
    /// Before the first read, this may be the queue of the source that this reader replaces, with
    /// that source's level.
    queue: Option<Arc<Queue>>,
    /// Whether the reader has started reading.
    has_begun: bool,
    /// Index of the least severe level that the reader wants.
    least: usize,
    /// Id of the source.
    id: String,
    logs: InternalLogs,
}

impl LogReader {
    /// Takes all waiting records.
    pub fn take(&mut self) -> VecDeque<LogRecord> {
        let (records, _) = std::mem::take(&mut *self.queue().waiting.lock());
        records
    }

    /// Returns how many records were dropped since the last call.
    pub fn take_dropped(&mut self) -> u64 {
        self.queue().dropped.swap(0, Relaxed)
    }

    /// Returns the queue. The first call subscribes the queue to new records.
    fn queue(&mut self) -> Arc<Queue> {
        match &self.queue {
            Some(queue) if self.has_begun => queue.clone(),
            _ => self.begin(),
        }
    }

    fn begin(&mut self) -> Arc<Queue> {
        // Holding the lock keeps records from being published in the meantime.
        let mut readers = self.logs.0.readers.lock();
        let queue = match self.queue.take() {
            Some(queue) => queue,
            None => {
                let early = self.logs.0.early.lock().take().unwrap_or_default();
                subscribed(&mut readers, &self.id, early, self.least)
            }
        };
        queue.limit(self.least);
        drop(readers);
        (self.queue, self.has_begun) = (Some(queue.clone()), true);
        self.logs.update();
        queue
    }
}

impl Drop for LogReader {
    fn drop(&mut self) {
        drop(self.queue.take());
        self.logs.update();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_level(level: &'static str, message: &str) -> LogRecord {
        let (target, message) = ("t".to_owned(), message.to_owned());
        LogRecord { unix_ns: 1, level, target, message }
    }

    fn record(message: &str) -> LogRecord {
        at_level("info", message)
    }

    /// Opens a reader for all levels, and starts reading immediately.
    fn reader(logs: &InternalLogs) -> LogReader {
        let mut reader = logs.reader("log", "trace");
        reader.begin();
        reader
    }

    fn messages(reader: &mut LogReader) -> Vec<String> {
        reader.take().into_iter().map(|record| record.message).collect()
    }

    #[test]
    fn nothing_is_made_while_nothing_reads() {
        let logs = InternalLogs::default();
        logs.publish(|| panic!("nothing reads it"));
        let mut reader = logs.reader("log", "info");
        logs.publish(|| record("a"));
        assert_eq!(messages(&mut reader), ["a"], "from its opening on");
        drop(reader);
        logs.publish(|| panic!("it is no longer read"));
    }

    #[test]
    fn the_first_reader_gets_what_was_before_and_each_gets_all_after() {
        let logs = InternalLogs::keeping();
        logs.publish(|| record("a"));
        let (mut first, mut second) = (reader(&logs), logs.reader("other", "trace"));
        second.begin();
        logs.publish(|| record("b"));
        assert_eq!(
            (messages(&mut first), messages(&mut second)),
            (vec!["a".into(), "b".into()], vec!["b".into()])
        );
        let logs = InternalLogs::keeping();
        logs.forget();
        logs.publish(|| panic!("nothing is kept"));
    }

    #[test]
    fn a_full_queue_drops_and_counts() {
        let logs = InternalLogs::default();
        let mut reader = reader(&logs);
        (0..RECORDS_MAX + 7).for_each(|_| logs.publish(|| record("a")));
        assert_eq!(
            (reader.take().len(), reader.take_dropped(), reader.take_dropped()),
            (RECORDS_MAX, 7, 0)
        );
        let long = "x".repeat(BYTES_MAX / 2 + 1);
        (0..2).for_each(|_| logs.publish(|| record(&long)));
        assert_eq!((reader.take().len(), reader.take_dropped()), (1, 1));
        logs.publish(|| record("a"));
        assert_eq!(reader.take().len(), 1);
    }

    #[test]
    fn records_below_the_level_take_no_place_and_are_not_lost() {
        let logs = InternalLogs::keeping();
        let long = "x".repeat(BYTES_MAX - 10);
        logs.publish(|| at_level("debug", &long));
        logs.publish(|| at_level("warn", "early"));
        let mut reader = logs.reader("log", "warn");
        assert_eq!(messages(&mut reader), ["early"]);
        (0..2 * RECORDS_MAX).for_each(|_| logs.publish(|| at_level("debug", "a detail")));
        logs.publish(|| at_level("unknown", "a"));
        logs.publish(|| at_level("warn", "b"));
        logs.publish(|| at_level("error", "c"));
        assert_eq!(
            (messages(&mut reader), reader.take_dropped()),
            (vec!["b".into(), "c".into()], 0)
        );
    }

    #[test]
    fn the_bytes_of_early_records_below_the_level_are_free_again() {
        let logs = InternalLogs::keeping();
        let long = "x".repeat(BYTES_MAX - 10);
        logs.publish(|| at_level("debug", &long));
        let mut reader = logs.reader("log", "warn");
        assert_eq!(reader.take_dropped(), 0);
        logs.publish(|| at_level("warn", &long));
        assert_eq!((reader.take_dropped(), reader.take().len()), (0, 1));
    }

    #[test]
    fn a_successor_continues_where_the_running_source_ends() {
        let logs = InternalLogs::default();
        let mut old = reader(&logs);
        logs.publish(|| record("a"));
        assert_eq!(messages(&mut old), ["a"]);
        let refused = logs.reader("log", "error");
        drop(refused);
        let (mut next, mut other) = (logs.reader("log", "warn"), logs.reader("other", "trace"));
        logs.publish(|| at_level("warn", "b"));
        drop(old);
        logs.publish(|| at_level("info", "c"));
        logs.publish(|| at_level("error", "d"));
        assert_eq!(messages(&mut next), ["b", "d"]);
        assert_eq!(messages(&mut other), ["b", "c", "d"], "a new source: from its opening on");
        logs.publish(|| at_level("info", "e"));
        assert_eq!((messages(&mut next), messages(&mut other)), (vec![], vec!["e".to_owned()]));
        drop((next, other));
        logs.publish(|| panic!("it is no longer read"));
    }
}
