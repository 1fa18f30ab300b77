//! The `generate` source: web server log lines with sequence numbers, for tests and demos.
//!
//! The same seed generates the same lines except for their timestamps.

mod config;
mod weblog;

pub use config::GenerateConfig;
pub use weblog::WebLog;

use crate::sources::points::batch_emitter::BatchEmitter;
use millstream_model::limits::{BATCH_ROWS_MAX, BLOCK_BYTES};
use millstream_model::{
    BatchBuilder, BuildError, EngineTime, LongLine, Polled, SinkSet, Source, SourceCx, SourceOpen,
};
use std::time::Duration;

/// Interval between batches at a limited rate.
const TICK: Duration = Duration::from_millis(50);

/// A running `generate` source.
struct Generate {
    lines: WebLog,
    /// Lines per second; `None` for unlimited.
    rate: Option<u64>,
    /// Total number of lines; `None` for no limit.
    count: Option<u64>,
    generated: u64,
    begun: Option<EngineTime>,
    emitter: BatchEmitter,
    line: Vec<u8>,
}

impl Generate {
    fn new(config: &GenerateConfig, open: &SourceOpen) -> Result<Generate, BuildError> {
        Ok(Generate {
            lines: WebLog::new(config.seed, config.size.0 as usize),
            rate: config.rate,
            count: config.count,
            generated: 0,
            begun: None,
            emitter: BatchEmitter::new(open)?,
            line: Vec::new(),
        })
    }

    /// Returns the number of lines that are due now.
    fn due(&mut self, now: EngineTime) -> u64 {
        let begun = *self.begun.get_or_insert(now);
        let by_rate = self.rate.map_or(u64::MAX, |rate| {
            let elapsed = now - begun + TICK;
            (elapsed.as_secs_f64() * rate as f64) as u64
        });
        by_rate.min(self.count.unwrap_or(u64::MAX))
    }

    fn batch(&mut self, lines: u64, cx: &SourceCx<'_>) -> Polled {
        if !cx.sinks.is_subset(cx.ready) {
            return Polled::Backpressure;
        }
        let Some((mut block, permit)) = cx.block(BLOCK_BYTES) else { return Polled::Backpressure };
        let (mut used, mut newlines) = (0, Vec::new());
        while (newlines.len() as u64) < lines.min(BATCH_ROWS_MAX as u64) {
            self.line.clear();
            self.lines.line(self.generated, cx.now.unix_ns / 1_000_000_000, &mut self.line);
            let end = used + self.line.len();
            if end > block.capacity() {
                break;
            }
            block.memory()[used..end].copy_from_slice(&self.line);
            newlines.push(end as u32 - 1);
            used = end;
            self.generated += 1;
        }
        let mut builder = BatchBuilder::with_capacity(newlines.len());
        builder.lines(block.filled(used), 0, &newlines, usize::MAX, LongLine::Truncate);
        let batch = self.emitter.batch(builder, block.freeze(used), cx);
        cx.counters.received(batch.rows() as u64, used as u64);
        Polled::Batch(Box::new(batch), permit)
    }
}

impl Source for Generate {
    fn poll(&mut self, cx: &mut SourceCx<'_>) -> Polled {
        // Lines that a sink abandoned cannot be regenerated with the same times, so they are lost.
        // The gap in the sequence numbers shows which ones.
        for lost in cx.ledger.take_rereads() {
            let sink = SinkSet::one(lost.sink);
            cx.ledger.issue(lost.origin, lost.range, sink, 0, cx.now.since_start).finish();
            cx.counters.dropped("abandoned", 1);
        }
        let lines = self.due(cx.now.since_start).saturating_sub(self.generated);
        if self.count == Some(self.generated) {
            return Polled::Ended;
        }
        if lines == 0 { Polled::Wait(TICK) } else { self.batch(lines, cx) }
    }
}
