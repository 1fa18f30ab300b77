//! Sources of lines, and an engine that runs them.

#![allow(dead_code, missing_docs)]

use millstream_engine::{
    Blueprint, Buffer, Clock, Pace, Running, Settings, SinkPart, SourcePart, Store,
};
use millstream_model::{
    BatchBuilder, InternalLogs, InternalMetrics, LongLine, Origin, OriginId, Polled, Source,
    SourceCx, SourceInfo, SourceOpen,
};
use millstream_testkit::{FakeSink, MemoryEndpoint};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A source that always has lines, and uses CPU time for `work` in each poll.
struct Busy {
    origin: Arc<Origin>,
    offset: u64,
    work: Duration,
    bytes: usize,
}

impl Source for Busy {
    fn poll(&mut self, cx: &mut SourceCx<'_>) -> Polled {
        if !cx.sinks.is_subset(cx.ready) {
            return Polled::Backpressure;
        }
        let Some((mut block, permit)) = cx.block(1) else { return Polled::Backpressure };
        let begun = Instant::now();
        while begun.elapsed() < self.work {
            std::hint::spin_loop();
        }
        block.memory()[..self.bytes].fill(b'x');
        block.memory()[self.bytes - 1] = b'\n';
        let mut builder = BatchBuilder::default();
        builder.lines(
            block.filled(self.bytes),
            0,
            &[self.bytes as u32 - 1],
            1 << 20,
            LongLine::Split,
        );
        let end = self.offset + self.bytes as u64;
        let ack =
            cx.ledger.issue(self.origin.id, self.offset..end, cx.sinks, 0, cx.now.since_start);
        builder.segment(self.origin.clone(), self.offset, ack);
        self.offset = end;
        self.origin.state.read(self.bytes as u64, end);
        cx.counters.received(1, self.bytes as u64);
        let batch =
            builder.finish(block.freeze(self.bytes), cx.info.clone(), cx.sinks, cx.now.unix_ns);
        Polled::Batch(Box::new(batch), permit)
    }
}

/// Returns a source that keeps emitting lines of `bytes` bytes, including the line ending, each
/// after `work`.
pub fn busy(id: &str, work: Duration, bytes: usize, pace: Pace) -> SourcePart {
    let info = SourceInfo { id: id.to_owned(), ..SourceInfo::default() };
    let open = move |open: SourceOpen| {
        let origin = Arc::new(Origin::new(OriginId(7), open.info.id.clone()));
        open.ledger.open(&origin, open.sinks.iter().map(|(sink, _)| (*sink, 0)));
        Ok(Box::new(Busy { origin, offset: 0, work, bytes }) as Box<dyn Source>)
    };
    SourcePart { info, type_name: "busy", pace, queue_bytes: 0, open: Box::new(open) }
}

/// Bytes of each numbered line, including the line ending.
pub const LINE_BYTES: usize = 10;

/// A source of numbered lines, one per poll, while its sinks are ready.
struct Numbered {
    origin: Arc<Origin>,
    given: Arc<AtomicU64>,
    lines: u64,
    bytes: usize,
}

impl Source for Numbered {
    fn poll(&mut self, cx: &mut SourceCx<'_>) -> Polled {
        let number = self.given.load(Ordering::Relaxed);
        if number == self.lines {
            return Polled::Ended;
        }
        if !cx.sinks.is_subset(cx.ready) {
            return Polled::Backpressure;
        }
        let Some((mut block, permit)) = cx.block(1) else { return Polled::Backpressure };
        let bytes = self.bytes;
        let line = format!("{number:>0$}\n", bytes - 1);
        block.memory()[..bytes].copy_from_slice(line.as_bytes());
        let mut builder = BatchBuilder::default();
        builder.lines(block.filled(bytes), 0, &[bytes as u32 - 1], 1 << 20, LongLine::Split);
        let begin = number * bytes as u64;
        let end = (number + 1) * bytes as u64;
        let ack = cx.ledger.issue(self.origin.id, begin..end, cx.sinks, 0, cx.now.since_start);
        builder.segment(self.origin.clone(), begin, ack);
        self.given.fetch_add(1, Ordering::Relaxed);
        let batch = builder.finish(block.freeze(bytes), cx.info.clone(), cx.sinks, cx.now.unix_ns);
        Polled::Batch(Box::new(batch), permit)
    }
}

/// Returns a source of numbered lines from `given` up to `lines`. It cannot reread lines.
pub fn numbered(given: &Arc<AtomicU64>, lines: u64) -> SourcePart {
    numbered_of(given, lines, LINE_BYTES)
}

/// Returns a source of numbered lines of this length. It cannot reread lines.
pub fn numbered_of(given: &Arc<AtomicU64>, lines: u64, bytes: usize) -> SourcePart {
    let given = given.clone();
    let info = SourceInfo { id: "numbered".to_owned(), ..SourceInfo::default() };
    let open = move |open: SourceOpen| {
        let origin = Arc::new(Origin::new(OriginId(3), ""));
        open.ledger.open(&origin, open.sinks.iter().map(|(sink, _)| (*sink, 0)));
        Ok(Box::new(Numbered { origin, given, lines, bytes }) as Box<dyn Source>)
    };
    SourcePart {
        info,
        type_name: "numbered",
        pace: Pace::default(),
        queue_bytes: 0,
        open: Box::new(open),
    }
}

/// Waits until a condition is true; fails after half a minute.
pub async fn wait_until(mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "the condition does not come true");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Returns a blueprint of these sources and one sink that writes to the endpoint.
pub fn blueprint(sources: Vec<SourcePart>, endpoint: &MemoryEndpoint) -> Blueprint {
    let inputs = sources.iter().map(|source| (source.info.id.clone(), 0)).collect();
    let sink = Arc::new(FakeSink::new(endpoint));
    let sinks = vec![SinkPart {
        id: "out".to_owned(),
        type_name: "fake",
        inputs,
        buffer: Buffer::default(),
        sink,
    }];
    Blueprint { sources, sinks, ..Blueprint::default() }
}

/// Returns settings with two workers and 64 MiB.
pub fn settings(cpu: Option<f64>, until_eof: bool) -> Settings {
    Settings {
        threads: 2,
        offload_threads: 2,
        memory_bytes: 64 << 20,
        reserved_bytes: 0,
        memory_host: None,
        cpu,
        sink_bytes_max: 4 << 20,
        until_eof,
        clock: Clock::System,
        internal_metrics: InternalMetrics::default(),
        taps: millstream_model::tap::Taps::default(),
        internal_logs: InternalLogs::default(),
    }
}

/// Starts an engine that runs these sources into one endpoint.
pub fn start(
    sources: Vec<SourcePart>,
    cpu: Option<f64>,
    until_eof: bool,
    folder: &Path,
) -> (Running, MemoryEndpoint) {
    let endpoint = MemoryEndpoint::default();
    let store = Arc::new(Store::open(folder).unwrap());
    let built = blueprint(sources, &endpoint).build(&settings(cpu, until_eof), store).unwrap();
    (built.start(&tokio::runtime::Handle::current()), endpoint)
}
