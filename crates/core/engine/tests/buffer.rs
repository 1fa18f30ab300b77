//! What queues for a sink that makes no progress, and what of it is dropped.

mod common;

use common::{blueprint, settings};
use millstream_engine::{Blueprint, Buffer, Pace, Running, SourcePart, Store, WhenFull};
use millstream_model::{
    BatchBuilder, LongLine, Origin, OriginId, Polled, Source, SourceCx, SourceInfo, SourceOpen,
};
use millstream_testkit::MemoryEndpoint;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Lines that the source emits.
const LINES: u64 = 500;

/// Bytes of each line, including its end.
const LINE_BYTES: usize = 10;

/// Capacity of the buffer: fifty lines.
const BUFFER_BYTES: u64 = 500;

/// Emits numbered lines, one per poll, while its sinks are ready.
struct Numbered {
    origin: Arc<Origin>,
    given: Arc<AtomicU64>,
}

impl Source for Numbered {
    fn poll(&mut self, cx: &mut SourceCx<'_>) -> Polled {
        let number = self.given.load(Ordering::Relaxed);
        if number == LINES {
            return Polled::Ended;
        }
        if !cx.sinks.is_subset(cx.ready) {
            return Polled::Backpressure;
        }
        let Some((mut block, permit)) = cx.block(1) else { return Polled::Backpressure };
        block.memory()[..LINE_BYTES].copy_from_slice(format!("{number:09}\n").as_bytes());
        let mut builder = BatchBuilder::default();
        builder.lines(block.filled(LINE_BYTES), 0, &[LINE_BYTES as u32 - 1], 100, LongLine::Split);
        let (begin, end) = (number * LINE_BYTES as u64, (number + 1) * LINE_BYTES as u64);
        let ack = cx.ledger.issue(self.origin.id, begin..end, cx.sinks, 0, cx.now.since_start);
        builder.segment(self.origin.clone(), begin, ack);
        self.given.fetch_add(1, Ordering::Relaxed);
        let batch =
            builder.finish(block.freeze(LINE_BYTES), cx.info.clone(), cx.sinks, cx.now.unix_ns);
        Polled::Batch(Box::new(batch), permit)
    }
}

fn numbered(given: &Arc<AtomicU64>) -> SourcePart {
    let given = given.clone();
    let info = SourceInfo { id: "numbered".to_owned(), ..SourceInfo::default() };
    let open = move |open: SourceOpen| {
        let origin = Arc::new(Origin::new(OriginId(3), ""));
        open.ledger.open(&origin, open.sinks.iter().map(|(sink, _)| (*sink, 0)));
        Ok(Box::new(Numbered { origin, given }) as Box<dyn Source>)
    };
    SourcePart {
        info,
        type_name: "numbered",
        pace: Pace::default(),
        queue_bytes: 0,
        open: Box::new(open),
    }
}

fn start(
    folder: &Path,
    endpoint: &MemoryEndpoint,
    given: &Arc<AtomicU64>,
    when_full: WhenFull,
) -> Running {
    let mut parts: Blueprint = blueprint(vec![numbered(given)], endpoint);
    parts.sinks[0].buffer = Buffer { bytes_max: Some(BUFFER_BYTES), when_full };
    let store = Arc::new(Store::open(folder).unwrap());
    let built = parts.build(&settings(None, false), store).unwrap();
    built.start(&tokio::runtime::Handle::current())
}

/// Returns the numbers that arrive at a sink that is blocked at first, and how many were dropped.
async fn delivered(when_full: WhenFull) -> (Vec<u64>, u64) {
    let (folder, endpoint, given) =
        (tempfile::tempdir().unwrap(), MemoryEndpoint::default(), Arc::default());
    endpoint.stall(true);
    let running = start(folder.path(), &endpoint, &given, when_full);
    while when_full != WhenFull::Block && given.load(Ordering::Relaxed) < LINES {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    if when_full == WhenFull::Block {
        let waiting = given.load(Ordering::Relaxed) * LINE_BYTES as u64;
        assert!((BUFFER_BYTES..BUFFER_BYTES * 2).contains(&waiting), "{waiting} bytes wait");
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
        endpoint.lines().iter().map(|line| line.parse().unwrap()).collect(),
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
    // The first one may have been in flight already.
    assert!(numbers[0] <= LINES - 50, "{numbers:?}");
    assert_eq!(numbers[1..], (LINES - 49..LINES).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn buffers_that_exceed_the_memory_limit_are_rejected() {
    let check = |bytes_max| {
        let mut parts = blueprint(vec![numbered(&Arc::default())], &MemoryEndpoint::default());
        parts.sinks[0].buffer.bytes_max = Some(bytes_max);
        parts.check(&settings(None, false))
    };
    let refused = check(20 << 20).unwrap_err().to_string();
    assert!(refused.contains("raise it to 80MiB"), "{refused}");
    check(16 << 20).unwrap();
}
