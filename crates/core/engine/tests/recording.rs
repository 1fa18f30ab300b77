//! Actions of the engine are recorded as events.

use crate::common::{LINE_BYTES, blueprint, numbered, settings, wait_until};
use millstream_engine::{Buffer, Store, WhenFull};
use millstream_model::limits::PAYLOAD_BYTES;
use millstream_recorder::event::{Event, Tables};
use millstream_recorder::ids::TextId;
use millstream_recorder::recorder::{self, Destination};
use millstream_recorder::schema::{EventKind, Value};
use millstream_recorder::snapshot::{Reader, SlotCounts, Snapshot};
use millstream_testkit::MemoryEndpoint;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const LINES: u64 = 500;

/// Lines that fit into the buffer.
const BUFFERED: u64 = 50;

/// Capacity of the buffer.
const BUFFER_BYTES: u64 = BUFFERED * (LINE_BYTES as u64 + PAYLOAD_BYTES);

/// A recorded event with its text fields.
struct Recorded {
    event: Event,
    texts: Vec<String>,
}

/// Returns the recorded events of a type, and the number of events that were omitted because the
/// type was over its rate limit.
fn recorded(kind: EventKind) -> (Vec<Recorded>, u64) {
    let snapshot = Snapshot::parse(&recorder::copy(&SlotCounts::new()).unwrap()).unwrap();
    let mut found = Vec::new();
    Reader::default().read(&snapshot, |event, names| {
        let fields = event.kind.spec().fields.iter().zip(event.values);
        let text = |id: TextId| names.text(id).unwrap_or("?").to_owned();
        let texts = fields.filter_map(|(field, bits)| match Value::from_bits(field.kind, bits) {
            Value::Text(id) => Some(text(id)),
            _ => None,
        });
        if event.kind == kind {
            found.push(Recorded { event: *event, texts: texts.collect() });
        }
    });
    (found, snapshot.over_rate(kind))
}

/// Runs a source of numbered lines into a sink that stalls for a while; returns the number of
/// dropped events.
async fn run(when_full: WhenFull, stall: Duration) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = MemoryEndpoint::default();
    let given: Arc<AtomicU64> = Arc::default();
    endpoint.stall(true);
    let mut parts = blueprint(vec![numbered(&given, LINES)], &endpoint);
    parts.sinks[0].buffer = Buffer { bytes_max: Some(BUFFER_BYTES), when_full, disk: None };
    let store = Arc::new(Store::open(folder.path()).unwrap());
    let built = parts.build(&settings(None, false), store).unwrap();
    let running = built.start(&tokio::runtime::Handle::current());
    // The source may start late, so the stall begins when the buffer is full.
    let full = if when_full == WhenFull::Block { BUFFERED } else { LINES };
    wait_until(|| given.load(Ordering::Relaxed) >= full).await;
    tokio::time::sleep(stall).await;
    endpoint.stall(false);
    wait_until(|| given.load(Ordering::Relaxed) == LINES).await;
    let stopped = running.stop(Duration::from_secs(30)).await;
    assert!(stopped.drained);
    stopped.snapshot.dropped_events()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn batches_waits_retries_drops_and_checkpoints_are_events() {
    recorder::start_run(&Destination::Memory, 4 << 20, &recorder::defaults()).unwrap();
    assert_eq!(run(WhenFull::Block, Duration::from_millis(2500)).await, 0);

    let (stages, _) = recorded(EventKind::BatchStage);
    let sum = |value: usize| stages.iter().map(|stage| stage.event.values[value]).sum::<u64>();
    assert!(stages.iter().all(|stage| stage.texts == ["out"]));
    assert_eq!((sum(1), sum(2)), (LINES, LINES * (LINE_BYTES as u64 - 1)));

    let (waits, _) = recorded(EventKind::WaitForCapacity);
    let for_sink = waits.iter().filter(|wait| wait.texts == ["numbered", "out"]);
    let parts: Vec<u64> = for_sink.map(|wait| recorder::to_ns(wait.event.duration_ticks)).collect();
    assert!(parts.len() >= 2, "a long wait has parts: {parts:?}");
    assert!(parts.iter().sum::<u64>() >= 1_500_000_000, "{parts:?}");

    let (retries, _) = recorded(EventKind::Retry);
    let attempts: BTreeSet<u64> = retries.iter().map(|retry| retry.event.values[3]).collect();
    assert!(retries.iter().all(|retry| retry.texts[0] == "out"));
    assert!(attempts.contains(&1) && attempts.contains(&2), "{attempts:?}");

    let (checkpoints, _) = recorded(EventKind::Checkpoint);
    assert!(checkpoints.iter().any(|commit| commit.event.values[0] > 0));
    assert!(checkpoints.iter().all(|commit| commit.texts == ["committed"]));

    let dropped = run(WhenFull::DropNewest, Duration::from_millis(200)).await;
    let (drops, over_rate) = recorded(EventKind::Drop);
    assert!(drops.iter().all(|drop| drop.texts == ["out", "buffer_full"]));
    let rows: u64 = drops.iter().map(|drop| drop.event.values[2]).sum();
    assert!(!drops.is_empty());
    // Each of these events represents one row.
    assert_eq!(rows + over_rate, dropped);
}
