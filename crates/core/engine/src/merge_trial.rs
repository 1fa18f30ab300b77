//! A merge transform outside of an engine, for unit tests of a configuration.

use crate::feed_source::FeedSource;
use millstream_model::{
    Batch, BlockPool, ComponentError, Counters, EncodeCx, Encoder, EngineTime, Feed, Grant,
    InternalLogs, InternalMetrics, Lane, LaneCx, Ledger, Now, OriginId, OriginRecord, OriginStore,
    Payload, Polled, Sink, SinkIndex, SinkSet, Source, SourceCx, SourceInfo, SourceOpen,
};
use parking_lot::Mutex;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Memory for a test's results, in bytes.
const GRANT_BYTES: u64 = 1 << 30;

/// A merge transform that runs on its caller's thread, at given times, without a snapshot.
pub struct MergeTrial {
    encoder: Box<dyn Encoder>,
    lane: Box<dyn Lane>,
    source: Box<dyn Source>,
    info: Arc<SourceInfo>,
    feed: Arc<Feed>,
    ledger: Arc<Ledger>,
    counters: Arc<Counters>,
    now: Arc<Mutex<Now>>,
    grant: Arc<Grant>,
    pool: Arc<BlockPool>,
}

impl MergeTrial {
    /// Opens the transform.
    ///
    /// # Errors
    ///
    /// Returns an error if the transform's results cannot be read.
    pub fn new(
        id: &str,
        sink: &dyn Sink,
        counters: Arc<Counters>,
    ) -> Result<MergeTrial, millstream_model::BuildError> {
        let info = Arc::new(SourceInfo { id: id.to_owned(), ..SourceInfo::default() });
        let feed = Feed::of_results();
        let ledger = Ledger::new();
        let open = SourceOpen {
            info: info.clone(),
            sinks: vec![(reader(), "test".to_owned())],
            store: Arc::new(Nothing),
            held_dir: PathBuf::new(),
            ledger: ledger.clone(),
            counters: Arc::default(),
            unreadable: Arc::default(),
            wake: Arc::new(|| ()),
            internal_metrics: InternalMetrics::default(),
            internal_logs: InternalLogs::default(),
            pressure: Arc::default(),
            until_eof: true,
        };
        let source = FeedSource::open(open, feed.clone())?;
        let now = Arc::new(Mutex::new(Now { since_start: EngineTime::ZERO, unix_ns: 0 }));
        let clock = now.clone();
        let cx = LaneCx {
            now: Arc::new(move || *clock.lock()),
            feed: feed.clone(),
            ..LaneCx::outside(id, 0, counters.clone())
        };
        Ok(MergeTrial {
            encoder: sink.encoder(),
            lane: sink.lane(cx),
            source,
            info,
            feed,
            ledger,
            counters,
            now,
            grant: Grant::new(GRANT_BYTES),
            pool: BlockPool::new(),
        })
    }

    /// Adds a batch at the time `now`.
    ///
    /// # Errors
    ///
    /// Returns an error if the batch is rejected.
    pub fn add(&mut self, now: Now, batch: &Batch) -> Result<(), ComponentError> {
        *self.now.lock() = now;
        let Some(mut permit) = self.grant.try_take(0) else { return Ok(()) };
        let mut payload = Payload::new(batch.events() as u64);
        let mut cx = EncodeCx {
            pool: &self.pool,
            permit: &mut permit,
            counters: &self.counters,
            refused: None,
        };
        self.encoder.encode(batch, &mut payload, &mut cx)?;
        let delivered = wait(self.lane.deliver(&payload));
        delivered.map(|_| ()).map_err(|error| ComponentError::new(error.kind, error.message))
    }

    /// Returns the results that are due at the time `now`, or all results if the input has ended.
    pub fn results(&mut self, now: Now, has_ended: bool) -> Vec<Batch> {
        *self.now.lock() = now;
        if has_ended {
            self.feed.end_input();
        }
        self.lane.tick();
        if self.lane.wants_sync() && wait(self.lane.sync()).is_ok() {
            self.lane.tick();
        }
        std::iter::from_fn(|| self.poll(now)).collect()
    }

    fn poll(&mut self, now: Now) -> Option<Batch> {
        let sinks = SinkSet::one(reader());
        let polled = self.source.poll(&mut SourceCx {
            now,
            info: &self.info,
            sinks,
            ready: sinks,
            overflow: SinkSet::EMPTY,
            blocked: SinkSet::EMPTY,
            ledger: &self.ledger,
            counters: &Counters::default(),
            until_eof: true,
            has_input_ended: false,
            grant: &self.grant,
            pool: &self.pool,
            expansion: 0,
        });
        let Polled::Batch(batch, _) = polled else { return None };
        for segment in batch.segments.iter() {
            segment.ack.finish();
        }
        Some(*batch)
    }
}

fn reader() -> SinkIndex {
    SinkIndex::new(0)
}

/// Runs one of the lane's futures. The lane has no disk or network to wait for.
fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime without drivers needs nothing from the system").block_on(future)
}

/// A store that stores nothing.
struct Nothing;

impl OriginStore for Nothing {
    fn origins(&self) -> io::Result<(Vec<OriginRecord>, bool)> {
        Ok((Vec::new(), false))
    }

    fn has_run(&self) -> io::Result<bool> {
        Ok(false)
    }

    fn origins_after(&self, _: Option<OriginId>) -> io::Result<Vec<OriginRecord>> {
        Ok(Vec::new())
    }

    fn origin(&self, _: OriginId) -> io::Result<Option<OriginRecord>> {
        Ok(None)
    }

    fn keep(&self, _: &[(OriginId, Vec<u8>)]) -> io::Result<()> {
        Ok(())
    }

    fn note(&self, _: OriginId, _: Vec<u8>) {}

    fn committed(&self, _: OriginId) -> io::Result<Vec<(String, u64)>> {
        Ok(Vec::new())
    }

    fn forget(&self, _: &[OriginId]) -> io::Result<()> {
        Ok(())
    }
}
