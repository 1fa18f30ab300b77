//! Builds a batch from a fill.

use super::catalog::KINDS;
use super::chunk::ChunkTail;
use super::config::Settings;
use super::fill::{Fill, ValueKey, Values, Window};
use super::tags::TagSetId;
use crate::sources::points::events::MetricRows;
use crate::util::period::Period;
use millstream_model::{Choice, Now, Polled, SourceCx};
use millstream_series::{Kind, Output, Suffix, Summaries, Temporality};
use std::sync::LazyLock;
use std::time::Duration;

/// Number of bytes in a block beyond the bytes that a fill counts.
const SPARE_BYTES: usize = 4096;

/// The aggregates of a distribution, which are the same as for a timer in the `metricserver`
/// source.
static SUMMARIES: LazyLock<Summaries> =
    LazyLock::new(|| Summaries::of_pairs(&Summaries::PAIRS_FRACTIONS));

/// Emits the fill of a chunk, and moves the chunk's cursor. Returns `None` if there is nothing to
/// emit. If no memory is available, keeps the fill and reports backpressure.
pub fn emit(
    chunk: &mut ChunkTail,
    choice: &Choice,
    settings: &Settings,
    cx: &SourceCx<'_>,
) -> Option<Polled> {
    let fill = chunk.fill.take()?;
    let cursor = fill.cursor;
    let (range, now) = (cursor.position..fill.end, cx.now.since_start);
    let issue = || cx.ledger.issue(chunk.id(), range.clone(), cursor.sinks, cursor.attempt, now);
    if fill.is_empty() {
        issue().finish();
        chunk.cursors.advance(choice.index, range.end);
        return None;
    }
    let Some((block, permit)) = cx.block(fill.bytes() + SPARE_BYTES) else {
        chunk.fill = Some(fill);
        return Some(Polled::Backpressure);
    };
    let mut rows = Rows {
        metrics: MetricRows::new(block, live_period(&fill, settings.period, cx.now)),
        offset: range.end - 1,
        id_prefix: format!("{}-{}-m", chunk.origin.id, range.start),
        log_events: 0,
        count: 0,
        lost: 0,
    };
    let (end, events) = (fill.end, fill.events);
    rows.add(chunk, fill, settings.period, cx.now);
    if rows.lost > 0 {
        cx.counters.dropped("no_space", rows.lost);
    }
    let log_events = rows.log_events;
    let mut batch = rows.metrics.finish_with(|mut rows, block| {
        rows.segment(chunk.origin.clone(), range.start, issue());
        rows.finish(block, cx.info.clone(), cursor.sinks, cx.now.unix_ns)
    });
    // All metrics have the same offset. A log event is the only row at its offset.
    let metrics = 0..(batch.rows() - log_events) as u32;
    batch.ordinals = Some(std::iter::repeat_n(0, log_events).chain(metrics).collect());
    chunk.cursors.advance(choice.index, end);
    cx.counters.received(events, 0);
    cx.counters.sent(batch.rows() as u64, batch.text_bytes());
    Some(Polled::Batch(Box::new(batch), permit))
}

/// Difference in seconds below which the elapsed time counts as a whole period. The times of polls
/// cause such differences.
const JITTER_SECONDS: f64 = 1.0;

/// Returns the period of new values. It ends at the last boundary, unless there was none since the
/// fill was started.
fn live_period(fill: &Fill, length: Duration, now: Now) -> Period {
    let length_ns = length.as_nanos() as i64;
    let boundary = now.unix_ns.div_euclid(length_ns) * length_ns;
    let end_ns = if boundary > fill.begun.unix_ns { boundary } else { now.unix_ns };
    let elapsed = (now.since_start - fill.begun.since_start).as_secs_f64();
    let whole = length.as_secs_f64();
    let is_whole = (elapsed - whole).abs() < JITTER_SECONDS;
    Period { end_ns, seconds: if is_whole { whole } else { elapsed.max(1.0) } }
}

/// The rows of a batch.
struct Rows {
    metrics: MetricRows,
    /// Offset of metrics: the last offset of the range, because metrics come after the range's log
    /// events.
    offset: u64,
    /// Prefix of metric ids.
    id_prefix: String,
    log_events: usize,
    count: u64,
    lost: u64,
}

impl Rows {
    fn add(&mut self, chunk: &ChunkTail, mut fill: Fill, length: Duration, now: Now) {
        for (offset, log_event) in std::mem::take(&mut fill.logs) {
            let is_put = self.metrics.log_event(log_event, offset);
            self.log_events += usize::from(is_put);
            self.lost += u64::from(!is_put);
        }
        let is_live = fill.is_live;
        let mut current: Option<Window> = None;
        for (key, values) in fill.values() {
            if fill.is_counted_twice(key) {
                continue;
            }
            if !is_live && current != Some(key.window) {
                current = Some(key.window);
                self.metrics.set_period(period(key.window, length, now));
            }
            self.values(chunk, key, values);
        }
    }

    fn values(&mut self, chunk: &ChunkTail, key: ValueKey, values: &Values) {
        let kind = &KINDS[key.kind];
        let output =
            |suffix, value, temporality| Output { suffix, value, temporality, timestamp: None };
        let delta = |value: f64| output(Suffix::NONE, value, Temporality::Delta);
        let mut put = |name: &str, output: Output| self.number(chunk, name, key.tags, &output);
        if let (Some(name), Some(durations)) = (kind.duration, &values.durations) {
            SUMMARIES.each(Kind::Timer, durations, &mut |suffix, value, temporality| {
                put(name, output(suffix, value, temporality));
            });
        }
        if let Some((name, _)) = kind.amount {
            put(name, delta(values.amount));
        }
        if let Some(name) = kind.count {
            put(name, delta(values.count as f64));
        }
        for ((name, _), last) in kind.gauges.iter().zip(values.gauges) {
            if let Some((_, value)) = last {
                put(name, output(Suffix::NONE, value, Temporality::Gauge));
            }
        }
    }

    fn number(&mut self, chunk: &ChunkTail, name: &str, tags: TagSetId, output: &Output) {
        let tags = chunk.tag_sets.get(tags).iter().chain(&chunk.process_tags);
        let tags = tags.map(|(key, value)| (*key, value.as_str()));
        let is_put = self.metrics.number(name, tags, output);
        let id = format!("{}{}", self.id_prefix, self.count);
        self.count += 1;
        if is_put {
            self.metrics.offset(self.offset);
        }
        self.lost += u64::from(!is_put || !self.metrics.id(id.as_bytes()));
    }
}

/// Returns the period of a window. For a window that has not ended yet, the period ends now.
fn period(window: Window, length: Duration, now: Now) -> Period {
    let end_ns = window.saturating_add(1).saturating_mul(length.as_nanos() as i64);
    Period { end_ns: end_ns.min(now.unix_ns), seconds: length.as_secs_f64() }
}
