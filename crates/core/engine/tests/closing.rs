//! Sources with retained data emit it when they are closed.

use crate::common::{blueprint, busy, settings, wait_until};
use millstream_engine::{Blueprint, Buffer, Pace, Running, Settings, SinkPart, SourcePart, Store};
use millstream_model::{
    BatchBuilder, BoxFuture, BuildError, DeliverError, Delivery, Encoder, Kind, Lane, LaneCx,
    LongLine, Origin, OriginId, Payload, Polled, Sink, Source, SourceCx, SourceInfo, SourceOpen,
};
use millstream_testkit::{FakeSink, MemoryEndpoint, SinkBehavior};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const HELD: u64 = 100;

/// Emits nothing until it is closed, then `HELD` lines, one per poll.
struct Holder {
    origin: Arc<Origin>,
    given: u64,
    is_closed: bool,
    was_reopened: Arc<AtomicBool>,
}

impl Source for Holder {
    fn poll(&mut self, cx: &mut SourceCx<'_>) -> Polled {
        if !self.is_closed {
            return Polled::Wait(Duration::from_secs(3600));
        }
        if self.given == HELD {
            return Polled::Ended;
        }
        if !cx.sinks.is_subset(cx.ready) {
            return Polled::Backpressure;
        }
        let Some((mut block, permit)) = cx.block(1) else { return Polled::Backpressure };
        block.memory()[..5].copy_from_slice(b"held\n");
        let mut builder = BatchBuilder::default();
        builder.lines(block.filled(5), 0, &[4], 100, LongLine::Split);
        let begin = self.given * 5;
        let ack =
            cx.ledger.issue(self.origin.id, begin..begin + 5, cx.sinks, 0, cx.now.since_start);
        builder.segment(self.origin.clone(), begin, ack);
        self.given += 1;
        let batch = builder.finish(block.freeze(5), cx.info.clone(), cx.sinks, cx.now.unix_ns);
        Polled::Batch(Box::new(batch), permit)
    }

    fn close(&mut self, _: bool) -> bool {
        self.is_closed = true;
        true
    }

    fn reopen(&mut self) {
        self.is_closed = false;
        self.was_reopened.store(true, Ordering::Relaxed);
    }
}

fn holder(was_reopened: &Arc<AtomicBool>) -> SourcePart {
    let was_reopened = was_reopened.clone();
    let info = SourceInfo { id: "holder".to_owned(), ..SourceInfo::default() };
    let open = move |open: SourceOpen| {
        let origin = Arc::new(Origin::new(OriginId(9), ""));
        open.ledger.open(&origin, open.sinks.iter().map(|(sink, _)| (*sink, 0)));
        Ok(Box::new(Holder { origin, given: 0, is_closed: false, was_reopened }) as Box<dyn Source>)
    };
    SourcePart {
        info,
        type_name: "holder",
        pace: Pace::default(),
        queue_bytes: 0,
        open: Box::new(open),
    }
}

fn plain() -> SourcePart {
    busy("busy", Duration::from_millis(1), 100, Pace::default())
}

fn start(folder: &Path, endpoint: &MemoryEndpoint, was_reopened: &Arc<AtomicBool>) -> Running {
    let store = Arc::new(Store::open(folder).unwrap());
    let first: Blueprint = blueprint(vec![plain(), holder(was_reopened)], endpoint);
    first.build(&settings(None, false), store).unwrap().start(&tokio::runtime::Handle::current())
}

fn held(endpoint: &MemoryEndpoint) -> u64 {
    endpoint.lines().iter().filter(|line| line.contains("held")).count() as u64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_stop_delivers_data_that_a_source_buffers() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = MemoryEndpoint::default();
    let running = start(folder.path(), &endpoint, &Arc::default());
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(held(&endpoint), 0);
    assert!(running.stop(Duration::from_secs(30)).await.drained);
    assert_eq!(held(&endpoint), HELD);
}

/// A dead sink prevents the source from emitting all of its retained payloads; the healthy sink is
/// still synced and closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_dead_sink_does_not_cost_a_healthy_one_the_last_events() {
    let folder = tempfile::tempdir().unwrap();
    let well = MemoryEndpoint::default();
    let dead = MemoryEndpoint::default();
    dead.stall(true);
    let store = Arc::new(Store::open(folder.path()).unwrap());
    let mut first = blueprint(vec![holder(&Arc::default())], &well);
    let part = |id: &str, endpoint: &MemoryEndpoint| {
        let sync_delay = Duration::from_millis(500);
        let behavior = SinkBehavior { syncs: true, sync_delay, ..SinkBehavior::default() };
        let sink = Arc::new(FakeSink { behavior, ..FakeSink::new(endpoint) });
        SinkPart {
            id: id.to_owned(),
            type_name: "fake",
            inputs: vec![("holder".to_owned(), 0)],
            buffer: Buffer::default(),
            sink,
        }
    };
    first.sinks = vec![part("well", &well), part("dead", &dead)];
    // The first payload fills a sink.
    let settings = Settings { sink_bytes_max: 1, ..settings(None, false) };
    let running = first.build(&settings, store).unwrap().start(&tokio::runtime::Handle::current());
    let stopped = running.stop(Duration::from_secs(6)).await;
    assert!(!stopped.drained);
    assert_eq!(stopped.snapshot.undelivered_list().split(':').next(), Some("dead"));
    assert_eq!(held(&well), HELD);
    assert_eq!((well.closed_lanes(), dead.closed_lanes()), (1, 0));
}

/// A sink whose `open` fails.
struct Shut;

impl Sink for Shut {
    fn encoder(&self) -> Box<dyn Encoder> {
        FakeSink::new(&MemoryEndpoint::default()).encoder()
    }

    fn payload_format(&self) -> String {
        "shut/1".to_owned()
    }

    fn payload_bytes_max(&self, block_bytes: u64, rows: u64) -> u64 {
        block_bytes + rows
    }

    fn lane(&self, _: LaneCx) -> Box<dyn Lane> {
        Box::new(Shut)
    }
}

impl Lane for Shut {
    fn start(&mut self) -> BoxFuture<'_, Result<(), DeliverError>> {
        Box::pin(async { Err(DeliverError::retry("fake", "the port is taken")) })
    }

    fn deliver<'a>(&'a mut self, _: &'a Payload) -> BoxFuture<'a, Result<Delivery, DeliverError>> {
        Box::pin(async { Ok(Delivery::Durable) })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_sink_that_does_not_open_does_not_block_a_stop() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = blueprint(vec![plain()], &MemoryEndpoint::default());
    first.sinks[0].sink = Arc::new(Shut);
    let store = Arc::new(Store::open(folder.path()).unwrap());
    let built = first.build(&settings(None, false), store).unwrap();
    let running = built.start(&tokio::runtime::Handle::current());
    tokio::time::sleep(Duration::from_millis(100)).await;
    let begun = std::time::Instant::now();
    assert!(!running.stop(Duration::from_secs(1)).await.drained);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_reload_delivers_data_that_a_removed_source_buffers() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = MemoryEndpoint::default();
    let mut running = start(folder.path(), &endpoint, &Arc::default());
    let next = blueprint(vec![plain()], &endpoint);
    let stays = |kind: Kind, id: &str| kind == Kind::Sink || id == "busy";
    running.reload(next, &settings(None, false), &stays, Duration::from_secs(5)).await.unwrap();
    let before = endpoint.lines().len();
    // The other source continues.
    wait_until(|| endpoint.lines().len() > before).await;
    wait_until(|| held(&endpoint) == HELD).await;
    assert!(running.stop(Duration::from_secs(30)).await.drained);
    assert_eq!(held(&endpoint), HELD);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_summary_of_a_stop_has_what_removed_sinks_have_delivered() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = MemoryEndpoint::default();
    let mut running = start(folder.path(), &endpoint, &Arc::default());
    let kept = |kind: Kind, _: &str| kind == Kind::Source;
    for id in ["second", "third", "second"] {
        let before = endpoint.lines().len();
        wait_until(|| endpoint.lines().len() > before).await;
        let mut next = blueprint(vec![plain(), holder(&Arc::default())], &endpoint);
        next.sinks[0].id = id.to_owned();
        let drain = Duration::from_secs(30);
        running.reload(next, &settings(None, false), &kept, drain).await.unwrap();
    }
    let stopped = running.stop(Duration::from_secs(30)).await;
    assert!(stopped.drained);
    assert_eq!(stopped.snapshot.delivered_events(), endpoint.lines().len() as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_source_continues_after_a_rejected_reload() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = MemoryEndpoint::default();
    let was_reopened = Arc::default();
    let mut running = start(folder.path(), &endpoint, &was_reopened);
    let open = Box::new(|_: SourceOpen| Err(BuildError::Listen("the port is taken".into())));
    let info = SourceInfo { id: "refused".to_owned(), ..SourceInfo::default() };
    let refused =
        SourcePart { info, type_name: "refused", pace: Pace::default(), queue_bytes: 0, open };
    let next = blueprint(vec![plain(), refused], &endpoint);
    let stays = |kind: Kind, id: &str| kind == Kind::Sink || id == "busy";
    let reload = running.reload(next, &settings(None, false), &stays, Duration::from_secs(5)).await;
    assert!(reload.unwrap_err().to_string().contains("the port is taken"));
    assert!(was_reopened.load(Ordering::Relaxed));
    let before = endpoint.lines().len();
    // The other source continues.
    wait_until(|| endpoint.lines().len() > before).await;
    assert!(running.stop(Duration::from_secs(30)).await.drained);
    assert_eq!(held(&endpoint), HELD);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_stop_during_a_barrier_delivers_data_that_a_source_buffers() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = MemoryEndpoint::default();
    let running = start(folder.path(), &endpoint, &Arc::default());
    running.barrier(Duration::from_secs(30)).await.unwrap();
    assert!(running.stop(Duration::from_secs(10)).await.drained);
    assert_eq!(held(&endpoint), HELD);
}
