//! Drives the lane of a merge transform like the engine does, for tests.

use super::lane::EMIT_PAUSE;
use crate::component::{BuildCx, TransformComponent};
use millstream_model::snapshot::TaskSnapshot;
use millstream_model::{
    Batch, BlockPool, CellKind, ColumnBuilder, Counters, EngineTime, Feed, FeedEvent, Grant, Lane,
    LaneCx, Ledger, MemoryPressure, Now, Payload, Sink, Transform,
};
use millstream_testkit::{Rows, batch};
use parking_lot::Mutex;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// A second within an hour, in nanoseconds since 1970.
pub const BEGIN_NS: i64 = 1_795_291_200_000_000_000;

/// Returns events with the fields `status` and `bytes`; `-` is an absent field.
pub fn events(rows: &[(&str, &str)]) -> Batch {
    let text = "x\n".repeat(rows.len());
    let parts = [Rows { name: "/a.log", text: text.as_bytes() }];
    let mut batch = batch(&parts, 1000, &Grant::new(1 << 30), &Ledger::new());
    for (name, values) in [
        ("status", rows.iter().map(|row| row.0).collect::<Vec<_>>()),
        ("bytes", rows.iter().map(|row| row.1).collect()),
    ] {
        let mut column = ColumnBuilder::new(rows.len());
        for (row, value) in values.iter().enumerate().filter(|(_, value)| **value != "-") {
            let cell = column.push(CellKind::Text, value.as_bytes());
            column.set(row, cell);
        }
        batch.fields.set(column.finish(name.into()));
    }
    batch
}

/// Builds a merge transform from its options.
pub type Build = fn(Value) -> Arc<dyn Sink>;

/// Returns the merge transform of valid options.
pub fn merge<C: TransformComponent>(config: &C) -> Arc<dyn Sink> {
    assert_eq!(config.check(), []);
    let Transform::Merge(sink) = config.build(&BuildCx::default()).unwrap() else {
        panic!("not a merge transform")
    };
    sink
}

/// The engine's part of a lane, across restarts.
pub struct Rig {
    build: Build,
    pub options: Value,
    folder: TempDir,
    /// The content of the store, and the content that a commit would add.
    committed: Option<Vec<u8>>,
    noted: Option<Vec<u8>>,
    is_committed: Arc<AtomicBool>,
    now: Arc<Mutex<Now>>,
    pub feed: Arc<Feed>,
    pub counters: Arc<Counters>,
    pub pressure: Arc<MemoryPressure>,
    sink: Option<Arc<dyn Sink>>,
    lane: Option<Box<dyn Lane>>,
}

impl Rig {
    pub fn new(build: Build, options: Value) -> Rig {
        let now = Now { since_start: EngineTime::ZERO, unix_ns: BEGIN_NS };
        let mut rig = Rig {
            build,
            options,
            folder: tempfile::tempdir().unwrap(),
            committed: None,
            noted: None,
            is_committed: Arc::new(AtomicBool::new(true)),
            now: Arc::new(Mutex::new(now)),
            feed: Feed::of_results(),
            counters: Arc::default(),
            pressure: Arc::default(),
            sink: None,
            lane: None,
        };
        rig.start(0);
        rig
    }

    /// Reopens the lane with the committed state. A sink has settled all results with numbers below
    /// `number_min`.
    pub fn start(&mut self, number_min: u64) {
        self.lane = None;
        self.noted = None;
        self.is_committed.store(true, Ordering::Relaxed);
        self.feed = Feed::of_results();
        self.feed.attach(number_min, Arc::new(|| ()));
        let (now, is_committed) = (self.now.clone(), self.is_committed.clone());
        let cx = LaneCx {
            state: self.committed.clone(),
            now: Arc::new(move || *now.lock()),
            is_committed: Arc::new(move || is_committed.load(Ordering::Relaxed)),
            folder: Some(self.path()),
            feed: self.feed.clone(),
            pressure: self.pressure.clone(),
            ..LaneCx::outside("web", 0, self.counters.clone())
        };
        let sink = (self.build)(self.options.clone());
        self.lane = Some(sink.lane(cx));
        self.sink = Some(sink);
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("web")
    }

    pub fn segments(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path()) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Returns the task that the API lists first.
    pub fn task(&self) -> TaskSnapshot {
        self.sink.as_ref().unwrap().tasks().swap_remove(0)
    }

    /// Returns the number of windows whose delay is known, and the sum of the delays in seconds.
    pub fn delays(&self) -> (u64, f64) {
        let delays = self.counters.snapshot().emit_delay.unwrap();
        (delays.count(), delays.sum_seconds)
    }

    pub fn lane(&mut self) -> &mut dyn Lane {
        &mut **self.lane.as_mut().unwrap()
    }

    pub async fn add(&mut self, rows: &[(&str, &str)]) {
        self.add_batch(&events(rows)).await;
    }

    pub async fn add_batch(&mut self, batch: &Batch) {
        let (mut payload, pool) = (Payload::new(batch.events() as u64), BlockPool::new());
        let mut permit = Grant::new(1 << 20).try_take(1 << 16).unwrap();
        let counters = self.counters.clone();
        let mut cx = millstream_model::EncodeCx {
            pool: &pool,
            permit: &mut permit,
            counters: &counters,
            refused: None,
        };
        let encoder = (self.build)(self.options.clone()).encoder();
        { encoder }.encode(batch, &mut payload, &mut cx).unwrap();
        if !payload.is_empty() {
            self.lane().deliver(&payload).await.unwrap();
        }
    }

    pub fn advance(&mut self, seconds: u64) {
        let mut now = self.now.lock();
        now.since_start += Duration::from_secs(seconds);
        now.unix_ns += seconds as i64 * 1_000_000_000;
    }

    pub async fn sync(&mut self) {
        self.noted = self.lane().sync().await.unwrap();
        self.is_committed.store(false, Ordering::Relaxed);
    }

    pub fn commit(&mut self) {
        self.committed = self.noted.take().or(self.committed.take());
        self.is_committed.store(true, Ordering::Relaxed);
    }

    /// Lets the lane work until it needs no sync, and commits after each sync.
    pub async fn settle(&mut self) {
        self.tick();
        while self.lane().wants_sync() {
            self.sync().await;
            self.commit();
            self.tick();
        }
    }

    /// Lets the lane work until it may wait.
    fn tick(&mut self) {
        let is_soon = |pause: Option<Duration>| pause.is_some_and(|pause| pause <= EMIT_PAUSE);
        while is_soon(self.lane().tick()) {}
    }

    /// Returns the events in the feed with their numbers.
    pub fn results(&self) -> Vec<String> {
        let mut results = Vec::new();
        self.feed.visit(0, |number, event| {
            results.push(format!("{number}: {}", text(event)));
            true
        });
        results
    }
}

/// Returns the fields of an event as `name tags value type temporality interval at seconds`.
fn text(event: &FeedEvent) -> String {
    let value = |name: &str| {
        let field = event.fields.iter().find(|field| *field.name == *name);
        let text = field.map_or(&b"-"[..], |field| &event.text[field.value.clone()]);
        String::from_utf8(text.to_vec()).unwrap()
    };
    let fields = ["name", "tags", "value", "type", "temporality", "interval"].map(value);
    let at = (i128::from(event.time_ns) - i128::from(BEGIN_NS)) / 1_000_000_000;
    format!("{} at {at}", fields.join(" "))
}
