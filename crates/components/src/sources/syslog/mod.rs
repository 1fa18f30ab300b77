//! The `syslog` source receives messages of devices and programs over UDP, TCP and Unix sockets.
//!
//! Receiver threads copy the messages into a queue. A poll takes a chunk of the queue, parses it
//! and emits it as a batch. While a sink is down, the queue fills up and the threads stop reading.
//! Senders over streams then wait; UDP datagrams wait in the kernel's buffer, beyond which the
//! kernel drops and counts them.

mod config;
mod handler;
mod networks;
mod queue;
mod rows;
#[cfg(test)]
mod tests;

pub use config::SyslogConfig;

use crate::util::sockets::report;
use millstream_model::{Counters, EngineTime, Leftover, Polled, Source, SourceCx};
use millstream_receiver::{Receiving, Stats};
use queue::{Queue, Waiting};
use rows::Rows;
use std::sync::Arc;
use std::time::Duration;

/// Interval at which the receiver's counters are read.
const STATS_INTERVAL: Duration = Duration::from_secs(1);

/// Interval at which a closing source checks whether the receiver has read its sockets.
const PAUSE_POLL: Duration = Duration::from_millis(1);

/// How far a source has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The source receives.
    No,
    /// The receiver must read what has arrived, and then stop.
    Requested,
    /// The receiver reads what has arrived.
    Pausing,
    /// The receiver has stopped. The queue contains the last messages.
    Draining,
}

/// A running `syslog` source.
struct SyslogSource {
    id: String,
    counters: Arc<Counters>,
    receiving: Receiving,
    queue: Arc<Queue>,
    rows: Rows,
    /// Whether the source was polled. Until then, it receives nothing, because it may be dropped.
    is_started: bool,
    ending: Ending,
    last_stats: Stats,
    stats_read: EngineTime,
}

impl SyslogSource {
    fn new(
        id: String,
        counters: Arc<Counters>,
        receiving: Receiving,
        queue: Arc<Queue>,
        rows: Rows,
    ) -> SyslogSource {
        SyslogSource {
            id,
            counters,
            receiving,
            queue,
            rows,
            is_started: false,
            ending: Ending::No,
            last_stats: Stats::default(),
            stats_read: EngineTime::ZERO,
        }
    }

    fn start(&mut self, cx: &SourceCx<'_>) {
        if !self.is_started {
            self.is_started = true;
            self.receiving.resume();
            self.receiving.sockets().iter().for_each(|socket| report(&self.id, socket));
        }
        if cx.until_eof && self.ending == Ending::No {
            self.ending = Ending::Requested;
        }
    }

    /// Continues to stop the receiver. While the queue is full, the receiver waits for the source.
    fn advance_ending(&mut self) {
        if self.ending == Ending::Requested {
            self.receiving.request_pause();
            self.ending = Ending::Pausing;
        }
        if self.ending == Ending::Pausing && self.receiving.is_paused() {
            self.ending = Ending::Draining;
        }
    }

    /// Returns the time until the next poll if nothing arrives.
    fn idle_wait(&self) -> Duration {
        match self.ending {
            Ending::No => STATS_INTERVAL,
            _ => PAUSE_POLL,
        }
    }

    /// Adds the increments of the receiver's counters to the component's counters.
    fn count_stats(&mut self, cx: &SourceCx<'_>) {
        if cx.now.since_start - self.stats_read < STATS_INTERVAL && self.ending == Ending::No {
            return;
        }
        self.stats_read = cx.now.since_start;
        let now = self.receiving.stats();
        let before = std::mem::replace(&mut self.last_stats, now.clone());
        let dropped = [
            ("kernel", now.kernel_drops - before.kernel_drops),
            ("long_message", now.truncated - before.truncated),
            ("framing", now.framing_errors - before.framing_errors),
        ];
        dropped.into_iter().for_each(|(reason, events)| cx.counters.dropped(reason, events));
        let errors = [
            ("refused", now.connections_refused - before.connections_refused),
            ("not_allowed", now.connections_denied - before.connections_denied),
            ("timeout", now.connections_timed_out - before.connections_timed_out),
            ("tls", now.tls_errors - before.tls_errors),
            ("connection", now.connection_errors - before.connection_errors),
            ("socket", now.socket_errors - before.socket_errors),
            ("receiver_ended", now.threads_ended - before.threads_ended),
            ("panic", now.panics - before.panics),
        ];
        errors.into_iter().for_each(|(kind, errors)| cx.counters.errors(kind, errors));
        cx.counters.busy(now.cpu.saturating_sub(before.cpu));
        if let Some(last_error) =
            now.last_error.filter(|_| now.errors_recorded > before.errors_recorded)
        {
            log::warn!("source {}: {last_error}", cx.info.id);
        }
    }

    /// Ends the receiver, and leaves the messages that were not emitted to the source that replaces
    /// this one. If there is none, drops and counts the messages.
    fn give_up(&mut self) {
        self.queue.stop_waiting();
        self.receiving.end();
        let lost = self.queue.leave();
        self.counters.dropped("abandoned", lost);
        if lost > 0 {
            log::error!(
                "source {}: {lost} messages are lost because they could not be emitted before the \
                 source stopped",
                self.id
            );
        }
    }
}

impl Source for SyslogSource {
    fn poll(&mut self, cx: &mut SourceCx<'_>) -> Polled {
        self.rows.emitter().count_lost(cx);
        self.start(cx);
        self.advance_ending();
        self.count_stats(cx);
        let bytes = match self.queue.waiting(self.ending != Ending::No) {
            Waiting::Chunk(bytes) => bytes,
            Waiting::Later(time) => return Polled::Wait(time),
            Waiting::Nothing if self.ending == Ending::Draining => return Polled::Ended,
            Waiting::Nothing => return Polled::Wait(self.idle_wait()),
        };
        if !cx.sinks.is_subset(cx.ready) {
            return Polled::Backpressure;
        }
        let Some((block, permit)) = cx.block(bytes) else { return Polled::Backpressure };
        let Some(chunk) = self.queue.take() else { return Polled::Wait(Duration::ZERO) };
        let batch = self.rows.batch(&chunk, block, cx);
        self.queue.give_back(chunk);
        Polled::Batch(Box::new(batch), permit)
    }

    fn is_live(&self) -> bool {
        true
    }

    fn close(&mut self, for_good: bool) -> bool {
        if for_good {
            self.receiving.stop_receiving();
        }
        if self.ending == Ending::No {
            self.ending = Ending::Requested;
        }
        true
    }

    fn reopen(&mut self) {
        if self.ending != Ending::No {
            self.ending = Ending::No;
            self.receiving.resume();
        }
    }

    fn leave(&mut self) -> Option<Leftover> {
        self.give_up();
        None
    }
}

impl Drop for SyslogSource {
    /// Ends the receiver threads, which may wait for room in the queue.
    fn drop(&mut self) {
        self.give_up();
    }
}
