//! Queue of the numbers that a source collects at the end of a period.

use super::batch_emitter::BatchEmitter;
use super::events::MetricRows;
use crate::util::period::{Period, Periods};
use millstream_model::limits::BLOCK_BYTES;
use millstream_model::{BuildError, Polled, SourceCx, SourceOpen};
use millstream_series::{Output, Suffix, Temporality};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// A number with its name and labels. Names and label keys are of type `N`.
pub struct Number<N> {
    /// Name of the number.
    pub name: N,
    /// Labels in any order.
    pub labels: Arc<[(N, String)]>,
    /// The number. It is not emitted unless it is finite, because JSON cannot represent other
    /// values.
    pub value: f64,
    /// Whether the number is a counter. Otherwise, it is a gauge.
    pub is_counter: bool,
}

/// Collects numbers in aligned periods, and emits them.
pub struct Numbers<N> {
    waiting: VecDeque<Number<N>>,
    /// Period of the waiting numbers.
    period: Period,
    batch_emitter: BatchEmitter,
    length: Duration,
    /// Periods, which start at the first poll.
    periods: Option<Periods>,
    has_ended: bool,
}

impl<N: AsRef<str>> Numbers<N> {
    /// Creates an empty queue for periods of `length`, a whole number of seconds.
    ///
    /// # Errors
    /// Returns an error if the system provides no random numbers.
    pub fn new(open: &SourceOpen, length: Duration) -> Result<Numbers<N>, BuildError> {
        Ok(Numbers {
            waiting: VecDeque::new(),
            period: Period { end_ns: 0, seconds: 0.0 },
            batch_emitter: BatchEmitter::new(open)?,
            length,
            periods: None,
            has_ended: false,
        })
    }

    /// Adds the numbers of this period to the queue.
    pub fn set(&mut self, period: Period, numbers: impl Iterator<Item = Number<N>>) {
        self.period = period;
        self.waiting.extend(numbers.filter(|number| number.value.is_finite()));
    }

    /// Counts and settles ranges that a sink abandoned, as [`Numbers::poll`] also does.
    pub fn count_lost(&self, cx: &SourceCx<'_>) {
        self.batch_emitter.count_lost(cx);
    }

    /// Returns the period that has just ended, whose numbers the caller must collect. Before the
    /// period ends and while numbers are queued, returns the result of the poll as `Err`.
    pub fn poll(&mut self, cx: &SourceCx<'_>) -> Result<Period, Polled> {
        self.count_lost(cx);
        if !self.waiting.is_empty() {
            return Err(self.emit(cx));
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

    /// Emits a batch of as many numbers as fit, if every sink is ready.
    fn emit(&mut self, cx: &SourceCx<'_>) -> Polled {
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
            // The number does not fit even into an empty block, which cannot happen with the
            // agent's labels.
            self.waiting.pop_front();
            cx.counters.dropped("too_long", 1);
            return Polled::Wait(Duration::ZERO);
        }
        let batch = rows.finish(&mut self.batch_emitter, cx);
        cx.counters.received(batch.rows() as u64, batch.block.len() as u64);
        Polled::Batch(Box::new(batch), permit)
    }
}
