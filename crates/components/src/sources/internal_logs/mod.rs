//! The `internal_logs` source emits the records of the agent's log as events.
//!
//! The log limits the records of a call site before it passes them on, so that a sink that fails
//! because of these events cannot cause an endless loop.

mod config;

pub use config::InternalLogsConfig;

use crate::sources::points::batch_emitter::BatchEmitter;
use crate::sources::points::log_events::{LogEvent, LogEventRows};
use config::EmittedLevel;
use millstream_model::{
    BuildError, Counters, Leftover, LogReader, LogRecord, Polled, Source, SourceCx, SourceOpen,
};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pause between two checks for new records. No wake-up is used, because a wake-up would take locks
/// while any part of the program writes to the log.
const PAUSE: Duration = Duration::from_millis(200);

/// A running `internal_logs` source.
struct InternalLogsSource {
    id: String,
    /// Reader of the log; `None` after the source was closed for a shutdown. Until the first poll,
    /// the predecessor with the same id receives the records.
    reader: Option<LogReader>,
    rows: LogEventRows,
    /// Number of records in `rows`.
    waiting: u64,
    emitter: BatchEmitter,
    counters: Arc<Counters>,
    /// Whether the source has stopped accepting records. Without this flag, the source would never
    /// finish, because the agent also logs while it shuts down.
    is_closing: bool,
}

impl InternalLogsSource {
    fn open(open: SourceOpen, level: EmittedLevel) -> Result<InternalLogsSource, BuildError> {
        let emitter = BatchEmitter::new(&open)?;
        let id = open.info.id.clone();
        Ok(InternalLogsSource {
            reader: Some(open.internal_logs.reader(&id, level.name())),
            id,
            rows: LogEventRows::default(),
            waiting: 0,
            emitter,
            counters: open.counters,
            is_closing: false,
        })
    }

    /// Counts the records that were dropped because the queue was full.
    fn count_dropped(&mut self) {
        let dropped = self.reader.as_mut().map_or(0, LogReader::take_dropped);
        self.counters.dropped("queue_full", dropped);
    }

    /// Takes the waiting records from the queue.
    fn take(&mut self) {
        let records = self.reader.as_mut().map(LogReader::take).unwrap_or_default();
        let events: Vec<LogEvent> = records.into_iter().map(event).collect();
        let bytes = events.iter().map(LogEvent::bytes).sum::<usize>();
        self.counters.received(events.len() as u64, bytes as u64);
        self.waiting += events.len() as u64;
        self.rows.add(events);
    }

    /// Counts the records that were taken but not emitted as lost.
    fn give_up(&mut self) {
        let lost = std::mem::take(&mut self.waiting);
        if lost > 0 {
            self.rows = LogEventRows::default();
            self.counters.dropped("abandoned", lost);
            log::warn!(
                "source {}: {lost} log records are lost because they could not be emitted before \
                 the source stopped",
                self.id
            );
        }
    }
}

impl Source for InternalLogsSource {
    fn poll(&mut self, cx: &mut SourceCx<'_>) -> Polled {
        self.emitter.count_lost(cx);
        let is_ready = cx.sinks.is_subset(cx.ready);
        if !self.is_closing {
            self.count_dropped();
            if is_ready && self.rows.is_empty() {
                self.take();
            }
        }
        if self.is_closing && self.rows.is_empty() {
            return Polled::Ended;
        }
        if !is_ready {
            return Polled::Backpressure;
        }
        if self.rows.is_empty() {
            return if cx.until_eof { Polled::Ended } else { Polled::Wait(PAUSE) };
        }
        let Some((block, permit)) = cx.block(self.rows.bytes()) else {
            return Polled::Backpressure;
        };
        let batch = self.rows.batch(block, &mut self.emitter, cx);
        self.waiting -= batch.rows() as u64;
        Polled::Batch(Box::new(batch), permit)
    }

    fn close(&mut self, for_good: bool) -> bool {
        self.count_dropped();
        self.take();
        self.is_closing = true;
        if for_good {
            self.reader = None;
        }
        // After a reload, the successor receives all later records.
        !self.rows.is_empty()
    }

    fn reopen(&mut self) {
        self.is_closing = false;
    }

    /// If the source could not be closed in time, takes the waiting records, so that they are
    /// counted as lost.
    fn hold(&mut self, _: Instant) {
        if !self.is_closing {
            self.count_dropped();
            self.take();
        }
    }

    fn leave(&mut self) -> Option<Leftover> {
        self.give_up();
        None
    }
}

impl Drop for InternalLogsSource {
    fn drop(&mut self) {
        self.give_up();
    }
}

fn event(record: LogRecord) -> LogEvent {
    let component = component(&record.message).to_owned();
    LogEvent::new(record.unix_ns, record.message.into_bytes())
        .set("level", record.level.as_bytes())
        .set("target", record.target.as_bytes())
        .set("component", component.as_bytes())
}

/// Returns the id of the component that a message is about, which is at the beginning of the
/// message, as in `sink out: ...`. Returns an empty string if there is no id.
fn component(message: &str) -> &str {
    let rest =
        ["source ", "transform ", "sink "].iter().find_map(|kind| message.strip_prefix(kind));
    let id = rest.and_then(|rest| Some(rest.split_once(':')?.0)).unwrap_or_default();
    if id.contains(char::is_whitespace) { "" } else { id }
}

#[cfg(test)]
mod tests;
