//! Lanes of a sink learn whether data is waiting for them.

use crate::common::{LINE_BYTES, blueprint, numbered, settings, wait_until};
use millstream_engine::{Buffer, Running, Store, WhenFull};
use millstream_model::limits::PAYLOAD_BYTES;
use millstream_model::{Backpressure, Encoder, Lane, LaneCx, Sink};
use millstream_testkit::{FakeSink, MemoryEndpoint};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Lines that the source emits.
const LINES: u64 = 500;

/// Lines that fit into the buffer.
const BUFFERED: u64 = 50;

/// Capacity of the buffer.
const BUFFER_BYTES: u64 = BUFFERED * (LINE_BYTES as u64 + PAYLOAD_BYTES);

/// A sink that exposes the backpressure of its lane.
struct Watched {
    sink: FakeSink,
    backpressure: Arc<Mutex<Option<Arc<Backpressure>>>>,
}

impl Sink for Watched {
    fn encoder(&self) -> Box<dyn Encoder> {
        self.sink.encoder()
    }

    fn payload_bytes_max(&self, block_bytes: u64, rows: u64) -> u64 {
        self.sink.payload_bytes_max(block_bytes, rows)
    }

    fn payload_format(&self) -> String {
        self.sink.payload_format()
    }

    fn lane(&self, cx: LaneCx) -> Box<dyn Lane> {
        *self.backpressure.lock() = Some(cx.backpressure.clone());
        self.sink.lane(cx)
    }
}

/// A running engine with a source of numbers and a sink that is blocked at first.
struct Rig {
    running: Running,
    endpoint: MemoryEndpoint,
    given: Arc<AtomicU64>,
    backpressure: Arc<Mutex<Option<Arc<Backpressure>>>>,
}

impl Rig {
    fn start(folder: &Path, when_full: WhenFull) -> Rig {
        let endpoint = MemoryEndpoint::default();
        let given = Arc::default();
        let backpressure = Arc::default();
        endpoint.stall(true);
        let mut parts = blueprint(vec![numbered(&given, LINES)], &endpoint);
        let sink = FakeSink::new(&endpoint);
        parts.sinks[0].sink = Arc::new(Watched { sink, backpressure: Arc::clone(&backpressure) });
        parts.sinks[0].buffer = Buffer { bytes_max: Some(BUFFER_BYTES), when_full, disk: None };
        let store = Arc::new(Store::open(folder).unwrap());
        let built = parts.build(&settings(None, false), store).unwrap();
        let running = built.start(&tokio::runtime::Handle::current());
        Rig { running, endpoint, given, backpressure }
    }

    fn is_on(&self) -> bool {
        self.backpressure.lock().as_ref().is_some_and(|backpressure| backpressure.is_on())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_source_that_waits_for_a_sink_is_known_until_it_has_room() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::start(folder.path(), WhenFull::Block);
    wait_until(|| rig.is_on()).await;
    assert!(rig.given.load(Ordering::Relaxed) < LINES);
    rig.endpoint.stall(false);
    wait_until(|| rig.endpoint.lines().len() == LINES as usize && !rig.is_on()).await;
    assert!(rig.running.stop(Duration::from_secs(30)).await.drained);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn drops_are_known_until_the_sink_delivers() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::start(folder.path(), WhenFull::DropNewest);
    wait_until(|| rig.given.load(Ordering::Relaxed) == LINES).await;
    // The last lines count as emitted before they are dropped. If the sink delivered earlier, they
    // would fit.
    wait_until(|| rig.running.snapshot().dropped_events() == LINES - BUFFERED).await;
    assert!(rig.is_on());
    rig.endpoint.stall(false);
    wait_until(|| rig.endpoint.lines().len() == BUFFERED as usize && !rig.is_on()).await;
    assert!(rig.running.stop(Duration::from_secs(30)).await.drained);
}
