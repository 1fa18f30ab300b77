//! Numbers that were taken at the end of a period and wait to be given out.

use super::events::MetricRows;
use super::metric_emitter::MetricEmitter;
use super::period::{Period, Periods};
use millstream_model::limits::BLOCK_BYTES;
use millstream_model::{Polled, SourceCx};
use millstream_series::{Output, Suffix, Temporality};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// A number with its name and labels, whose names are of type `N`.
pub struct Number<N> {
    /// Its name.
    pub name: N,
    /// Its labels, in no order.
    pub labels: Arc<[(N, String)]>,
    /// The number. One that is not finite is not given out: JSON has none.
    pub value: f64,
    /// Whether it counts since a start long ago; else it is a state.
    pub is_counter: bool,
}

/// The numbers of one period after the other.
pub struct Numbers<N> {
    waiting: VecDeque<Number<N>>,
    /// That of what waits.
    period: Period,
    metric_emitter: MetricEmitter,
    length: Duration,
    /// From the first poll on.
    periods: Option<Periods>,
    has_ended: bool,
}

impl<N: AsRef<str>> Numbers<N> {
    /// None yet. Periods are of this length, a whole number of seconds.
    pub fn new(length: Duration, metric_emitter: MetricEmitter) -> Numbers<N> {
        let period = Period { end_ns: 0, seconds: 0.0 };
        Numbers {
            waiting: VecDeque::new(),
            period,
            metric_emitter,
            length,
            periods: None,
            has_ended: false,
        }
    }

    /// These are of this period.
    pub fn take(&mut self, period: Period, numbers: impl Iterator<Item = Number<N>>) {
        self.period = period;
        self.waiting.extend(numbers.filter(|number| number.value.is_finite()));
    }

    /// Counts what a sink lost; for a source that waits for something else than [`Numbers::poll`].
    pub fn count_lost(&self, cx: &SourceCx<'_>) {
        self.metric_emitter.count_lost(cx);
    }

    /// A period that has ended, for its numbers to be taken; or what the source has to say until
    /// then: what waits is given out first.
    pub fn poll(&mut self, cx: &SourceCx<'_>) -> Result<Period, Polled> {
        self.count_lost(cx);
        if !self.waiting.is_empty() {
            return Err(self.give(cx));
        }
        if self.has_ended {
            return Err(Polled::Ended);
        }
        let periods = self.periods.get_or_insert_with(|| Periods::new(self.length, cx.now));
        let left = periods.left(cx.now);
        if !left.is_zero() && !cx.until_eof {
            return Err(Polled::Wait(left));
        }
        if !cx.sinks.is_subset(cx.ready) {
            return Err(Polled::Backpressure);
        }
        self.has_ended = cx.until_eof;
        Ok(periods.end(cx.now))
    }

    /// Gives out as many as fit into a batch, if every sink has room.
    fn give(&mut self, cx: &SourceCx<'_>) -> Polled {
        if !cx.sinks.is_subset(cx.ready) {
            return Polled::Backpressure;
        }
        let Some((block, permit)) = cx.block(BLOCK_BYTES) else { return Polled::Backpressure };
        let mut rows = MetricRows::new(block, self.period);
        while let Some(next) = self.waiting.front() {
            let temporality =
                if next.is_counter { Temporality::Cumulative } else { Temporality::Gauge };
            let output =
                Output { suffix: Suffix::NONE, value: next.value, temporality, timestamp: None };
            let labels = next.labels.iter().map(|(key, value)| (key.as_ref(), value.as_str()));
            if !rows.number(next.name.as_ref(), labels, &output) {
                break;
            }
            self.waiting.pop_front();
        }
        if rows.is_empty() {
            // Longer than a block: no such label is ours.
            self.waiting.pop_front();
            cx.counters.dropped("too_long", 1);
            return Polled::Wait(Duration::ZERO);
        }
        let batch = rows.finish(&mut self.metric_emitter, cx);
        cx.counters.received(batch.rows() as u64, batch.block.len() as u64);
        Polled::Batch(Box::new(batch), permit)
    }
}
