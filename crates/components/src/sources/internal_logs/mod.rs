//! Source `internal_logs`: emits the records of the agent's own log as events.
//!
//! The log limits the records of one call site before it passes them on, so that a sink which fails
//! with these events cannot cause ever more of them.

mod config;

pub use config::InternalLogsConfig;

use crate::sources::points::log_events::{LogEvent, LogEventRows};
use crate::sources::points::metric_emitter::MetricEmitter;
use config::EmittedLevel;
use millstream_model::{InternalLogs, LogReader, LogRecord, Polled, Source, SourceCx};
use std::time::Duration;

/// Pause between two looks for new records. Nothing wakes the source: a wake would take locks while
/// any part of the program writes to the log.
const PAUSE: Duration = Duration::from_millis(200);

/// The source.
struct InternalLogsSource {
    logs: InternalLogs,
    /// Set at the first poll: until then the source that this one replaces gets the records.
    reader: Option<LogReader>,
    level: EmittedLevel,
    rows: LogEventRows,
    emitter: MetricEmitter,
}

impl InternalLogsSource {
    fn new(logs: InternalLogs, level: EmittedLevel, emitter: MetricEmitter) -> InternalLogsSource {
        InternalLogsSource { logs, reader: None, level, rows: LogEventRows::default(), emitter }
    }

    /// Takes the records that wait.
    fn take(&mut self, cx: &SourceCx<'_>) {
        let reader = self.reader.get_or_insert_with(|| self.logs.read());
        let dropped = reader.take_dropped();
        if dropped > 0 {
            cx.counters.dropped("queue_full", dropped);
        }
        if self.rows.is_empty() && cx.sinks.is_subset(cx.ready) {
            let records = reader.take().into_iter();
            let emitted = records.filter(|record| self.level.includes(record.level));
            let events: Vec<LogEvent> = emitted.map(event).collect();
            let bytes = events.iter().map(LogEvent::bytes).sum::<usize>();
            cx.counters.received(events.len() as u64, bytes as u64);
            self.rows.add(events);
        }
    }
}

impl Source for InternalLogsSource {
    fn poll(&mut self, cx: &mut SourceCx<'_>) -> Polled {
        self.emitter.count_lost(cx);
        self.take(cx);
        if !cx.sinks.is_subset(cx.ready) {
            return Polled::Backpressure;
        }
        if self.rows.is_empty() {
            return if cx.until_eof { Polled::Ended } else { Polled::Wait(PAUSE) };
        }
        let Some((block, permit)) = cx.block(self.rows.bytes()) else {
            return Polled::Backpressure;
        };
        let batch = self.rows.batch(block, &mut self.emitter, cx);
        Polled::Batch(Box::new(batch), permit)
    }
}

fn event(record: LogRecord) -> LogEvent {
    let component = component(&record.message).to_owned();
    LogEvent::new(record.unix_ns, record.message.into_bytes())
        .set("level", record.level.as_bytes())
        .set("target", record.target.as_bytes())
        .set("component", component.as_bytes())
}

/// Returns the id of the component that a message is about, which is at its beginning, as in
/// `sink out: ...`; empty for other messages.
fn component(message: &str) -> &str {
    let rest =
        ["source ", "transform ", "sink "].iter().find_map(|kind| message.strip_prefix(kind));
    let id = rest.and_then(|rest| Some(rest.split_once(':')?.0)).unwrap_or_default();
    if id.contains(char::is_whitespace) { "" } else { id }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_testkit::SourceRig;

    fn publish(logs: &InternalLogs, level: &'static str, message: &str) {
        let (target, message) = ("millstream::lane".to_owned(), message.to_owned());
        logs.publish(|| LogRecord { unix_ns: 1_700_000_000_000_000_000, level, target, message });
    }

    fn source(rig: &SourceRig, level: EmittedLevel) -> InternalLogsSource {
        let emitter = MetricEmitter::new(&rig.open()).unwrap();
        InternalLogsSource::new(rig.internal_logs.clone(), level, emitter)
    }

    #[test]
    fn records_become_events_with_fields() {
        let mut rig = SourceRig::new(&["out"]);
        rig.internal_logs = InternalLogs::keeping();
        let logs = rig.internal_logs.clone();
        publish(&logs, "info", "started");
        publish(&logs, "debug", "a detail");
        publish(&logs, "error", "sink out: it is full");
        let mut source = source(&rig, EmittedLevel::Info);
        let Polled::Batch(batch, _) = rig.poll(&mut source) else { panic!("the records") };
        let texts: Vec<_> =
            (0..batch.rows()).map(|row| String::from_utf8_lossy(batch.text(row))).collect();
        assert_eq!(texts, ["started", "sink out: it is full"]);
        let names: Vec<&str> = batch.fields.iter().map(|column| &*column.name).collect();
        assert_eq!(names, ["level", "target", "component"]);
        assert!(matches!(rig.poll(&mut source), Polled::Wait(PAUSE)));
        publish(&logs, "warn", "more");
        assert!(matches!(rig.poll(&mut source), Polled::Batch(batch, _) if batch.rows() == 1));
        rig.until_eof = true;
        assert!(matches!(rig.poll(&mut source), Polled::Ended));
    }

    #[test]
    fn what_a_full_queue_drops_is_counted() {
        let rig = SourceRig::new(&["out"]);
        let mut source = source(&rig, EmittedLevel::Info);
        assert!(matches!(rig.poll(&mut source), Polled::Wait(PAUSE)));
        (0..2000).for_each(|_| publish(&rig.internal_logs, "info", "sink out: again"));
        assert!(matches!(rig.poll(&mut source), Polled::Batch(..)));
        let dropped = rig.counters.snapshot().dropped_events;
        assert!(dropped.get("queue_full").is_some_and(|dropped| *dropped >= 900), "{dropped:?}");
    }

    #[test]
    fn levels_and_components_are_known() {
        assert!(EmittedLevel::Error.includes("error") && !EmittedLevel::Error.includes("warn"));
        assert!(EmittedLevel::Trace.includes("trace") && !EmittedLevel::Trace.includes("other"));
        assert_eq!((component("sink out: a: b"), component("source in: x")), ("out", "in"));
        assert_eq!((component("sink is full: x"), component("stopped; x: y")), ("", ""));
    }
}
