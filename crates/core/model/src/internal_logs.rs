//! The agent's own log records, for the sources that emit them.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Most records that wait for a source, and that are kept until the first one reads.
pub const RECORDS_MAX: usize = 1024;

/// Most bytes of their messages.
const BYTES_MAX: usize = 1 << 20;

/// A record of the agent's own log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// Its time in nanoseconds since 1970.
    pub unix_ns: i64,
    /// `error`, `warn`, `info`, `debug` or `trace`.
    pub level: &'static str,
    /// The part of the program that wrote it.
    pub target: String,
    /// The message, on one line.
    pub message: String,
}

/// Records that wait for one reader.
#[derive(Default)]
struct Queue {
    waiting: Mutex<(VecDeque<LogRecord>, usize)>,
    dropped: AtomicU64,
}

impl Queue {
    fn push(&self, record: LogRecord) {
        let mut waiting = self.waiting.lock();
        let (records, bytes) = &mut *waiting;
        if records.len() >= RECORDS_MAX || *bytes + record.message.len() > BYTES_MAX {
            drop(waiting);
            self.dropped.fetch_add(1, Relaxed);
            return;
        }
        *bytes += record.message.len();
        records.push_back(record);
    }
}

/// Where records go to.
#[derive(Default)]
struct Hub {
    /// Whether anything takes records.
    is_read: AtomicBool,
    readers: Mutex<Vec<Weak<Queue>>>,
    /// The records before the first reader, until it is known that there is none.
    early: Mutex<Option<Arc<Queue>>>,
}

/// The agent's own log records. Publishing one waits for nothing, and costs a look at a flag while
/// nothing reads them.
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

    /// No longer keeps records for a first reader.
    pub fn forget(&self) {
        *self.0.early.lock() = None;
        self.update();
    }

    /// Passes a record to all readers, if there are any.
    pub fn publish(&self, record: impl FnOnce() -> LogRecord) {
        if !self.0.is_read.load(Relaxed) {
            return;
        }
        let record = record();
        let readers = self.0.readers.lock();
        self.0.early.lock().iter().for_each(|early| early.push(record.clone()));
        let queues = readers.iter().filter_map(Weak::upgrade);
        queues.for_each(|queue| queue.push(record.clone()));
    }

    /// Reads the records from now on; the first reader also gets those before.
    pub fn read(&self) -> LogReader {
        let mut readers = self.0.readers.lock();
        let queue = self.0.early.lock().take().unwrap_or_default();
        readers.push(Arc::downgrade(&queue));
        drop(readers);
        self.update();
        LogReader { queue, logs: self.clone() }
    }

    fn update(&self) {
        let mut readers = self.0.readers.lock();
        readers.retain(|queue| queue.strong_count() > 0);
        let has_early = self.0.early.lock().is_some();
        self.0.is_read.store(has_early || !readers.is_empty(), Relaxed);
    }
}

impl fmt::Debug for InternalLogs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InternalLogs")
    }
}

/// Reads records. The queue behind it is bounded: what finds it full is dropped and counted.
pub struct LogReader {
    queue: Arc<Queue>,
    logs: InternalLogs,
}

impl LogReader {
    /// Takes the records that wait.
    pub fn take(&self) -> VecDeque<LogRecord> {
        let (records, _) = std::mem::take(&mut *self.queue.waiting.lock());
        records
    }

    /// Returns how many records were dropped since the last call.
    pub fn take_dropped(&self) -> u64 {
        self.queue.dropped.swap(0, Relaxed)
    }
}

impl Drop for LogReader {
    fn drop(&mut self) {
        let queue = std::mem::take(&mut self.queue);
        drop(queue);
        self.logs.update();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(message: &str) -> LogRecord {
        let (target, message) = ("t".to_owned(), message.to_owned());
        LogRecord { unix_ns: 1, level: "info", target, message }
    }

    fn messages(reader: &LogReader) -> Vec<String> {
        reader.take().into_iter().map(|record| record.message).collect()
    }

    #[test]
    fn nothing_is_made_while_nothing_reads() {
        let logs = InternalLogs::default();
        logs.publish(|| panic!("it is not read"));
        let reader = logs.read();
        logs.publish(|| record("a"));
        assert_eq!(messages(&reader), ["a"]);
        drop(reader);
        logs.publish(|| panic!("it is no longer read"));
    }

    #[test]
    fn the_first_reader_gets_what_was_before_and_each_gets_all_after() {
        let logs = InternalLogs::keeping();
        logs.publish(|| record("a"));
        let (first, second) = (logs.read(), logs.read());
        logs.publish(|| record("b"));
        assert_eq!(
            (messages(&first), messages(&second)),
            (vec!["a".into(), "b".into()], vec!["b".into()])
        );
        let logs = InternalLogs::keeping();
        logs.forget();
        logs.publish(|| panic!("nothing is kept"));
    }

    #[test]
    fn a_full_queue_drops_and_counts() {
        let logs = InternalLogs::default();
        let reader = logs.read();
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
}
