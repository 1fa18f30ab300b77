//! Events about the activity of JVMs.

use crate::support::{Java, Mode, jvm, mode, options};
use millstream_jvm::{Chunk, Collector, CollectorSpec, Deliver, RuleSource, Taken};
use millstream_recorder::event::Tables;
use millstream_recorder::ids::TextId;
use millstream_recorder::recorder::{self, Destination, defaults, start_run};
use millstream_recorder::schema::{EventKind, FieldKind};
use millstream_recorder::snapshot::{Reader, SlotCounts, Snapshot};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

const RECORDING_BYTES: u64 = 4 << 20;

/// Maximum time until an event is recorded, sufficient for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);

/// Maximum time by which an event may seem to begin too early, because Java reports milliseconds.
const INEXACT: Duration = Duration::from_millis(10);

/// A recorded event: the numbers and texts in its fields, in order.
#[derive(Debug)]
struct Recorded {
    start_ticks: u64,
    end_ticks: u64,
    numbers: Vec<u64>,
    texts: Vec<String>,
}

/// Starts recording at the first call.
fn start() {
    static STARTED: OnceLock<()> = OnceLock::new();
    STARTED.get_or_init(|| {
        start_run(&Destination::Memory, RECORDING_BYTES, &defaults()).expect("no other recording");
    });
}

fn recorded(kind: EventKind) -> Vec<Recorded> {
    let snapshot = Snapshot::parse(&recorder::copy(&SlotCounts::new()).unwrap()).unwrap();
    let mut found = Vec::new();
    Reader::default().read(&snapshot, |event, names| {
        if event.kind != kind {
            return;
        }
        let values = kind.spec().fields.iter().map(|field| field.kind).zip(event.values);
        let (texts, numbers): (Vec<_>, Vec<_>) =
            values.partition(|value| value.0 == FieldKind::Text);
        let text = |id: u64| names.text(TextId(id as u32)).unwrap_or("?").to_owned();
        found.push(Recorded {
            start_ticks: event.start_ticks,
            end_ticks: event.start_ticks + event.duration_ticks,
            numbers: numbers.into_iter().map(|value| value.1).collect(),
            texts: texts.into_iter().map(|value| text(value.1)).collect(),
        });
    });
    found
}

/// Queries the JVM until the event has been recorded; returns the event.
fn wait_for(
    kind: EventKind,
    ask: impl Fn(&Java),
    is_expected: impl Fn(&Recorded) -> bool,
) -> Recorded {
    let begin = Instant::now();
    loop {
        ask(&jvm());
        let mut found = recorded(kind);
        if let Some(position) = found.iter().position(&is_expected) {
            return found.swap_remove(position);
        }
        assert!(begin.elapsed() < PATIENCE, "{found:?}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Collects garbage, and checks the event that `ask` records.
fn check_collection(ask: impl Fn(&Java)) {
    start();
    let java = jvm();
    let begin = recorder::now_ticks().saturating_sub(recorder::to_ticks(INEXACT));
    java.tighten_heap().unwrap();
    let is_whole = |event: &Recorded| event.texts[1] == "System.gc()" && event.numbers[0] > 0;
    let is_expected = |event: &Recorded| event.start_ticks >= begin && is_whole(event);
    let event = wait_for(EventKind::Collection, ask, is_expected);
    assert!(event.end_ticks <= recorder::now_ticks(), "{event:?}");
    let is_heap = |bytes: &u64| (1..=options().heap_bytes).contains(bytes);
    assert!(event.numbers.len() == 2 && event.numbers.iter().all(is_heap), "{event:?}");
    let collector = match mode() {
        Mode::Inside => event.texts[0].as_str(),
        Mode::Process => event.texts[0].strip_prefix("test: ").expect("the name of the process"),
    };
    assert!(!collector.is_empty() && !collector.contains(':'), "{event:?}");
    if options().options.is_empty() {
        assert_eq!(collector, "MarkSweepCompact");
    }
}

#[test]
#[ignore = "run by every_java"]
fn a_collection_is_recorded_with_the_numbers_about_the_jvm() {
    check_collection(|java| _ = java.stats().unwrap());
}

#[test]
#[ignore = "run by every_java"]
fn a_collection_is_recorded_when_the_heap_is_relaxed() {
    check_collection(|java| _ = java.relax_heap().unwrap());
}

/// Accepts every chunk.
struct Sink;

impl Deliver for Sink {
    fn offer(&self, _: Chunk, taken: Taken) {
        taken(true);
    }

    fn refused(&self, events: u64, reason: &str) {
        panic!("{events} events: {reason}");
    }
}

/// Starts a collector that calls a script once an hour.
fn collect(component: &str, script: &str, timeout_ms: u64) -> Collector {
    let spec = CollectorSpec {
        component: component.to_owned(),
        language: "groovy".to_owned(),
        rules: vec![RuleSource { name: "script".to_owned(), text: script.to_owned() }],
        interval_ms: 3_600_000,
        timeout_ms,
        threads: 4,
        ..CollectorSpec::default()
    };
    let collector = jvm().collector(&spec, Arc::new(Sink)).unwrap();
    collector.start();
    collector
}

/// Returns the recorded call of a collector: the outcome, the number of events, and their size in
/// bytes.
fn call_of(component: &str) -> (String, [u64; 2]) {
    let ask = |java: &Java| _ = java.collector_stats().unwrap();
    let event = wait_for(EventKind::JvmCall, ask, |event| event.texts[0] == component);
    let [rows, bytes] = event.numbers[..] else { panic!("{event:?}") };
    (event.texts[1].clone(), [rows, bytes])
}

#[test]
#[ignore = "run by every_java"]
fn calls_of_collectors_are_recorded_with_their_outcome() {
    start();
    let begin = recorder::now_ticks().saturating_sub(recorder::to_ticks(INEXACT));
    let _done = collect("done", "events.add('abc'); events.add('de', [n: 1])", 0);
    assert_eq!(call_of("done"), ("done".to_owned(), [2, 10]));
    let _failed = collect("failed", "events.add('abc'); throw new IllegalStateException('no')", 0);
    assert_eq!(call_of("failed"), ("failed".to_owned(), [1, 3]));
    let _late = collect("late", "while (true) {}", 50);
    assert_eq!(call_of("late"), ("timeout".to_owned(), [0, 0]));
    let stopped = collect("stopped", "while (true) {}", 0);
    let runs = || {
        jvm()
            .collector_stats()
            .unwrap()
            .collectors
            .iter()
            .any(|collector| collector.running_ms >= 0)
    };
    let waiting = Instant::now();
    while !runs() {
        assert!(waiting.elapsed() < PATIENCE);
    }
    drop(stopped);
    assert_eq!(call_of("stopped"), ("stopped".to_owned(), [0, 0]));
    let calls = recorded(EventKind::JvmCall);
    assert_eq!(calls.len(), 4, "{calls:?}");
    let is_within =
        |event: &Recorded| event.start_ticks >= begin && event.end_ticks <= recorder::now_ticks();
    assert!(calls.iter().all(is_within), "{calls:?}");
    let late = calls.iter().find(|event| event.texts[0] == "late").unwrap();
    let took_ns = recorder::to_ns(late.end_ticks - late.start_ticks);
    assert!(took_ns >= 49_000_000, "{late:?}");
}
