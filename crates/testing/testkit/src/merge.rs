//! A merge transform that counts lines, with a snapshot that survives the agent.

use crate::sink::FakeEncoder;
use fastrand::Rng;
use millstream_model::{
    BoxFuture, DeliverError, Delivery, Encoder, Feed, FeedEvent, Lane, LaneCx, Payload, Results,
    Sink,
};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The snapshots of a [`FakeMerge`], which survive the agent. The last one may be uncommitted.
#[derive(Clone, Default)]
pub struct MemorySnapshots(Arc<Mutex<Vec<Snapshot>>>);

#[derive(Clone, Default)]
struct Snapshot {
    counts: BTreeMap<String, u64>,
    first: u64,
    results: VecDeque<String>,
}

/// A merge transform that counts equal lines in windows that end at random times. Each result is
/// the text `LINE COUNT`.
pub struct FakeMerge {
    /// The state that survives the agent.
    pub snapshots: MemorySnapshots,
    /// Times and faults of the transform.
    pub behavior: MergeBehavior,
    /// Seed of the windows and faults.
    pub seed: u64,
}

/// The behavior of a [`FakeMerge`].
#[derive(Clone, Copy, Debug, Default)]
pub struct MergeBehavior {
    /// Maximum time between two ticks. About one tick in four ends the window.
    pub window: Duration,
    /// Duration of each delivery.
    pub delay: Duration,
    /// Duration of each sync.
    pub sync_delay: Duration,
    /// Time between a delivery and the next sync.
    pub sync_interval: Duration,
    /// One delivery in this many panics; 0 for never.
    pub panics_one_in: u64,
}

impl Sink for FakeMerge {
    fn encoder(&self) -> Box<dyn Encoder> {
        Box::new(FakeEncoder)
    }

    fn payload_format(&self) -> String {
        "merge/1".to_owned()
    }

    fn payload_bytes_max(&self, block_bytes: u64, rows: u64) -> u64 {
        block_bytes + rows
    }

    fn lane(&self, cx: LaneCx) -> Box<dyn Lane> {
        let number = |state: Vec<u8>| state.try_into().ok().map(u64::from_le_bytes);
        let saved = cx.state.clone().and_then(number);
        let mut snapshots = self.snapshots.0.lock();
        snapshots.truncate(saved.unwrap_or(0) as usize);
        let Snapshot { counts, first, results } = snapshots.last().cloned().unwrap_or_default();
        Box::new(CountLane {
            snapshots: self.snapshots.clone(),
            counts,
            results: Results::open(&cx, results, first),
            feed: cx.feed.clone(),
            random: Rng::with_seed(self.seed ^ fastrand::u64(..)),
            behavior: self.behavior,
        })
    }
}

struct CountLane {
    snapshots: MemorySnapshots,
    counts: BTreeMap<String, u64>,
    results: Results<String>,
    feed: Arc<Feed>,
    random: Rng,
    behavior: MergeBehavior,
}

impl CountLane {
    fn end_window(&mut self) {
        for (line, count) in std::mem::take(&mut self.counts) {
            self.results.push(format!("{line} {count}"));
        }
    }
}

fn event(number: u64, result: &String) -> FeedEvent {
    let text = format!("{number} {result}").into_bytes();
    let message = 0..text.len();
    FeedEvent {
        id: None,
        time_ns: 0,
        text,
        message,
        is_shown: true,
        fields: Vec::new(),
        hold: None,
    }
}

impl Lane for CountLane {
    fn deliver<'a>(
        &'a mut self,
        payload: &'a Payload,
    ) -> BoxFuture<'a, Result<Delivery, DeliverError>> {
        Box::pin(async move {
            if !self.behavior.delay.is_zero() {
                tokio::time::sleep(self.behavior.delay).await;
            }
            let one_in = self.behavior.panics_one_in;
            assert!(one_in == 0 || self.random.u64(..one_in) > 0, "injected into a count");
            for line in String::from_utf8_lossy(&payload.parts.concat()).lines() {
                *self.counts.entry(line.to_owned()).or_default() += 1;
            }
            Ok(Delivery::Taken)
        })
    }

    fn tick(&mut self) -> Option<Duration> {
        let has_ended = self.feed.has_input_ended();
        if has_ended || self.random.u64(..4) == 0 {
            self.end_window();
        }
        let has_all = self.results.pass_on(event);
        if has_ended && has_all {
            self.feed.finish();
        }
        Some(self.behavior.window.mul_f64(self.random.f64()))
    }

    fn sync_interval(&self) -> Duration {
        self.behavior.sync_interval
    }

    fn wants_sync(&self) -> bool {
        self.results.are_unsaved()
    }

    fn sync(&mut self) -> BoxFuture<'_, Result<Option<Vec<u8>>, DeliverError>> {
        Box::pin(async move {
            let (first, results) = self.results.unsettled();
            let (counts, results) = (self.counts.clone(), results.clone());
            self.snapshots.0.lock().push(Snapshot { counts, first, results });
            let number = self.snapshots.0.lock().len() as u64;
            // A kill may come between a snapshot and its commit.
            tokio::time::sleep(self.behavior.sync_delay).await;
            self.results.saved();
            Ok(Some(number.to_le_bytes().to_vec()))
        })
    }
}
