use super::*;
use millstream_model::{InternalLogs, SinkSet};
use millstream_testkit::SourceRig;
use std::collections::BTreeMap;

fn publish(logs: &InternalLogs, level: &'static str, message: &str) {
    let (target, message) = ("millstream::lane".to_owned(), message.to_owned());
    logs.publish(|| LogRecord { unix_ns: 1_700_000_000_000_000_000, level, target, message });
}

fn source(rig: &SourceRig, level: EmittedLevel) -> InternalLogsSource {
    InternalLogsSource::open(rig.open(), level).unwrap()
}

/// Returns a source that has started to read.
fn reading(rig: &SourceRig) -> InternalLogsSource {
    let mut source = source(rig, EmittedLevel::Info);
    assert!(matches!(rig.poll(&mut source), Polled::Wait(PAUSE)));
    source
}

/// Delivers batches until no more arrive. Returns the messages, and whether the source has ended.
fn emitted(rig: &SourceRig, source: &mut InternalLogsSource) -> (Vec<String>, bool) {
    let mut messages = Vec::new();
    loop {
        match rig.poll(source) {
            Polled::Batch(batch, _) => {
                let text = |row| String::from_utf8_lossy(batch.text(row)).into_owned();
                messages.extend((0..batch.rows()).map(text));
                batch.segments.iter().for_each(|segment| segment.ack.finish());
            }
            polled => return (messages, matches!(polled, Polled::Ended)),
        }
    }
}

fn dropped(rig: &SourceRig) -> BTreeMap<&'static str, u64> {
    rig.counters.snapshot().dropped_events
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
    let mut source = reading(&rig);
    (0..2000).for_each(|_| publish(&rig.internal_logs, "info", "sink out: again"));
    assert!(matches!(rig.poll(&mut source), Polled::Batch(..)));
    let dropped = dropped(&rig);
    assert!(dropped.get("queue_full").is_some_and(|dropped| *dropped >= 900), "{dropped:?}");
}

#[test]
fn records_below_the_level_do_not_displace_others() {
    let mut rig = SourceRig::new(&["out"]);
    let mut source = source(&rig, EmittedLevel::Warn);
    assert!(matches!(rig.poll(&mut source), Polled::Wait(PAUSE)));
    let all = std::mem::replace(&mut rig.ready, SinkSet::EMPTY);
    (0..2000).for_each(|_| publish(&rig.internal_logs, "debug", "a detail"));
    publish(&rig.internal_logs, "warn", "sink out: it is full");
    assert!(matches!(rig.poll(&mut source), Polled::Backpressure));
    rig.ready = all;
    assert_eq!(emitted(&rig, &mut source), (vec!["sink out: it is full".to_owned()], false));
    assert_eq!(dropped(&rig), BTreeMap::new());
}

#[test]
fn a_stop_emits_what_waits_and_takes_no_more() {
    let mut rig = SourceRig::new(&["out"]);
    let mut source = reading(&rig);
    let all = std::mem::replace(&mut rig.ready, SinkSet::EMPTY);
    publish(&rig.internal_logs, "info", "first");
    assert!(matches!(rig.poll(&mut source), Polled::Backpressure));
    publish(&rig.internal_logs, "info", "last");
    assert!(source.close(true));
    rig.internal_logs.publish(|| panic!("it is no longer read"));
    assert!(matches!(rig.poll(&mut source), Polled::Backpressure));
    rig.ready = all;
    assert_eq!(emitted(&rig, &mut source), (vec!["first".to_owned(), "last".to_owned()], true));
    assert!(source.leave().is_none());
    drop(source);
    assert_eq!(dropped(&rig), BTreeMap::new());
    let counters = rig.counters.snapshot();
    assert_eq!((counters.received_events, counters.sent_events), (2, 2));
}

#[test]
fn a_stop_before_the_first_poll_emits_what_was_logged() {
    let mut rig = SourceRig::new(&["out"]);
    rig.internal_logs = InternalLogs::keeping();
    publish(&rig.internal_logs, "info", "started");
    let mut source = source(&rig, EmittedLevel::Info);
    assert!(source.close(true));
    assert_eq!(emitted(&rig, &mut source), (vec!["started".to_owned()], true));
    assert!(!source.close(true));
}

#[test]
fn what_a_stop_gives_up_is_counted_once() {
    let mut rig = SourceRig::new(&["out"]);
    let mut source = reading(&rig);
    rig.ready = SinkSet::EMPTY;
    (0..800).for_each(|_| publish(&rig.internal_logs, "info", "again"));
    assert!(source.close(true));
    assert!(matches!(rig.poll(&mut source), Polled::Backpressure));
    source.hold(Instant::now());
    assert!(source.leave().is_none());
    drop(source);
    assert_eq!(dropped(&rig), BTreeMap::from([("abandoned", 800)]));
    assert_eq!(rig.counters.snapshot().received_events, 800);
}

#[test]
fn what_a_source_that_could_not_be_closed_gives_up_is_counted() {
    let rig = SourceRig::new(&["out"]);
    let mut source = reading(&rig);
    (0..2000).for_each(|_| publish(&rig.internal_logs, "info", "again"));
    source.hold(Instant::now());
    drop(source);
    assert_eq!(dropped(&rig), BTreeMap::from([("abandoned", 1024), ("queue_full", 976)]));
}

#[test]
fn a_replaced_source_emits_what_waits_and_its_successor_the_rest() {
    let rig = SourceRig::new(&["out"]);
    let mut old = reading(&rig);
    publish(&rig.internal_logs, "info", "before");
    assert!(old.close(false));
    publish(&rig.internal_logs, "info", "during");
    assert_eq!(emitted(&rig, &mut old), (vec!["before".to_owned()], true));
    let mut next = source(&rig, EmittedLevel::Info);
    publish(&rig.internal_logs, "info", "opened");
    drop(old);
    publish(&rig.internal_logs, "info", "after");
    let rest = ["during", "opened", "after"].map(str::to_owned).to_vec();
    assert_eq!(emitted(&rig, &mut next), (rest, false));
    assert_eq!(dropped(&rig), BTreeMap::new());
}

#[test]
fn what_a_replaced_source_gives_up_is_counted() {
    let mut rig = SourceRig::new(&["out"]);
    let mut old = reading(&rig);
    let all = std::mem::replace(&mut rig.ready, SinkSet::EMPTY);
    (0..800).for_each(|_| publish(&rig.internal_logs, "info", "again"));
    assert!(old.close(false));
    assert!(matches!(rig.poll(&mut old), Polled::Backpressure));
    let mut next = source(&rig, EmittedLevel::Info);
    drop(old);
    rig.ready = all;
    assert_eq!(emitted(&rig, &mut next), (vec![], false));
    assert_eq!(dropped(&rig), BTreeMap::from([("abandoned", 800)]));
}

#[test]
fn a_refused_reload_loses_nothing() {
    let mut rig = SourceRig::new(&["out"]);
    let mut source = reading(&rig);
    let all = std::mem::replace(&mut rig.ready, SinkSet::EMPTY);
    publish(&rig.internal_logs, "info", "before");
    assert!(source.close(false));
    drop(self::source(&rig, EmittedLevel::Error));
    publish(&rig.internal_logs, "info", "during");
    source.reopen();
    publish(&rig.internal_logs, "info", "after");
    rig.ready = all;
    let all = ["before", "during", "after"].map(str::to_owned).to_vec();
    assert_eq!(emitted(&rig, &mut source), (all, false));
    assert_eq!(dropped(&rig), BTreeMap::new());
}

#[test]
fn levels_and_components_are_known() {
    assert_eq!((EmittedLevel::Error.name(), EmittedLevel::Trace.name()), ("error", "trace"));
    assert_eq!((component("sink out: a: b"), component("source in: x")), ("out", "in"));
    assert_eq!((component("sink is full: x"), component("stopped; x: y")), ("", ""));
}
