//! The queue of a sink that is making no progress, and the events that are dropped from it.

use crate::common::{LINE_BYTES, blueprint, numbered, settings, wait_until};
use millstream_engine::{Blueprint, Buffer, Running, Store, WhenFull};
use millstream_model::limits::PAYLOAD_BYTES;
use millstream_testkit::MemoryEndpoint;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Lines that the source emits.
const LINES: u64 = 500;

/// Bytes of one line in the buffer. The source builds one batch per line.
const PAYLOAD: u64 = LINE_BYTES as u64 + PAYLOAD_BYTES;

/// Capacity of the buffer: fifty lines.
const BUFFER_BYTES: u64 = 50 * PAYLOAD;

fn start(
    folder: &Path,
    endpoint: &MemoryEndpoint,
    given: &Arc<AtomicU64>,
    when_full: WhenFull,
) -> Running {
    let mut parts: Blueprint = blueprint(vec![numbered(given, LINES)], endpoint);
    parts.sinks[0].buffer = Buffer { bytes_max: Some(BUFFER_BYTES), when_full, disk: None };
    let store = Arc::new(Store::open(folder).unwrap());
    let built = parts.build(&settings(None, false), store).unwrap();
    built.start(&tokio::runtime::Handle::current())
}

/// Returns the numbers that arrive at a sink that is blocked at first, and the number of dropped
/// events.
async fn delivered(when_full: WhenFull) -> (Vec<u64>, u64) {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = MemoryEndpoint::default();
    let given = Arc::default();
    endpoint.stall(true);
    let running = start(folder.path(), &endpoint, &given, when_full);
    if when_full == WhenFull::Block {
        wait_until(|| given.load(Ordering::Relaxed) * PAYLOAD >= BUFFER_BYTES).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let waiting = given.load(Ordering::Relaxed) * PAYLOAD;
        assert!((BUFFER_BYTES..BUFFER_BYTES * 2).contains(&waiting), "{waiting} bytes wait");
    } else {
        // The last lines count as emitted before they are queued. If the sink delivered earlier,
        // all of them would fit.
        wait_until(|| running.snapshot().dropped_events() == LINES - 50).await;
    }
    endpoint.stall(false);
    while endpoint.lines().len() < if when_full == WhenFull::Block { LINES as usize } else { 40 } {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let stopped = running.stop(Duration::from_secs(30)).await;
    assert!(stopped.drained);
    let sink = stopped.snapshot.components.iter().find(|component| component.id == "out").unwrap();
    let dropped =
        sink.counters.dropped_events.iter().filter(|(reason, _)| **reason == "buffer_full");
    (
        endpoint.lines().iter().map(|line| line.trim().parse().unwrap()).collect(),
        dropped.map(|(_, n)| n).sum(),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_full_buffer_makes_the_source_wait() {
    assert_eq!(delivered(WhenFull::Block).await, ((0..LINES).collect(), 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_full_buffer_drops_the_newest() {
    let (numbers, dropped) = delivered(WhenFull::DropNewest).await;
    assert_eq!(numbers, (0..50).collect::<Vec<_>>());
    assert_eq!(dropped, LINES - 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_full_buffer_drops_the_oldest() {
    let (numbers, dropped) = delivered(WhenFull::DropOldest).await;
    assert_eq!((numbers.len(), dropped), (50, LINES - 50));
    // The first line may have been in flight already.
    assert!(numbers[0] <= LINES - 50, "{numbers:?}");
    assert_eq!(numbers[1..], (LINES - 49..LINES).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn buffers_that_exceed_the_memory_limit_are_rejected() {
    let check = |bytes_max| {
        let mut parts =
            blueprint(vec![numbered(&Arc::default(), LINES)], &MemoryEndpoint::default());
        parts.sinks[0].buffer.bytes_max = Some(bytes_max);
        parts.check(&settings(None, false))
    };
    let refused = check(20 << 20).unwrap_err().to_string();
    assert!(refused.contains("raise limits.memory to 80MiB"), "{refused}");
    check(16 << 20).unwrap();
}
