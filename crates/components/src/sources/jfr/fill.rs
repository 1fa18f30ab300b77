//! Metrics and log events of a range that are not emitted yet.

use super::catalog::{ERROR_THROW, EXCEPTION_THROW, Kind};
use super::tags::TagSetId;
use crate::sources::points::log_events::LogEvent;
use millstream_model::limits::{BATCH_ROWS_MAX, BLOCK_BYTES};
use millstream_model::{Cursor, Now};
use millstream_series::Sketch;
use std::collections::HashMap;

/// Maximum number of rows in a distribution: minimum, maximum, average, sum, count, percentiles.
const DISTRIBUTION_ROWS: usize = 16;

/// Maximum size, in bytes, of a row without its tags: name, value, id.
const ROW_BYTES: usize = 192;

/// Size in bytes at which a fill is full. The last event may exceed it.
const BYTES_MAX: usize = 4 * BLOCK_BYTES;

/// Number of rows at which a fill is full, with space for the rows of the last event.
const ROWS_MAX: usize = BATCH_ROWS_MAX - 4 * DISTRIBUTION_ROWS;

/// Window number: the start of a time window divided by its length.
pub type Window = i64;

/// The aggregated values of the events with the same [`ValueKey`].
#[derive(Debug, Default)]
pub struct Values {
    /// Durations in milliseconds.
    pub durations: Option<Box<Sketch>>,
    /// Sum of the amounts.
    pub amount: f64,
    /// Number of events.
    pub count: u64,
    /// Latest value of each gauge, with the end time of its event.
    pub gauges: [Option<(u64, f64)>; 3],
}

/// The values that one event adds.
pub struct Added<'a> {
    /// End time of the event, in nanoseconds since 1970.
    pub end_ns: u64,
    /// Duration of the event, if the event type has a duration distribution.
    pub duration_ms: Option<f64>,
    /// Amount of the event.
    pub amount: f64,
    /// Gauge values of the event.
    pub gauges: &'a [Option<f64>],
    /// Maximum length of the tags as JSON, in bytes.
    pub tag_bytes: usize,
}

/// Returns the maximum number of bytes that the tags take as JSON. Quotes and backslashes are
/// escaped, and values contain no control characters.
pub fn tag_bytes<'t>(tags: impl Iterator<Item = &'t (&'static str, String)>) -> usize {
    tags.map(|(key, value)| key.len() + 2 * value.len() + 6).sum()
}

/// The key by which the values of a fill are grouped. Values are emitted in the order of their
/// keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueKey {
    /// Window of the events.
    pub window: Window,
    /// Index of the event kind.
    pub kind: usize,
    /// Tags of the events.
    pub tags: TagSetId,
}

/// The metrics and log events of a range.
pub struct Fill {
    /// Cursor that the fill is for. After the fill is emitted, the cursor moves to `end`.
    pub cursor: Cursor,
    /// Offset of the next event to read.
    pub end: u64,
    /// Time at which the fill was started.
    pub begun: Now,
    /// Whether the events are new and all belong to one window, which is emitted when the period
    /// ends.
    pub is_live: bool,
    /// Log events with their offsets.
    pub logs: Vec<(u64, LogEvent)>,
    values: HashMap<ValueKey, Values>,
    /// Number of events that were added to the metrics.
    pub events: u64,
    bytes: usize,
    rows: usize,
}

impl Fill {
    /// Starts a fill at the position of a cursor.
    pub fn new(cursor: Cursor, begun: Now, is_live: bool) -> Fill {
        Fill {
            cursor,
            end: cursor.position,
            begun,
            is_live,
            logs: Vec::new(),
            values: HashMap::new(),
            events: 0,
            bytes: 0,
            rows: 0,
        }
    }

    /// Adds an event of a kind.
    pub fn add(&mut self, key: ValueKey, kind: &Kind, added: &Added<'_>) {
        let rows = &mut self.rows;
        let bytes = &mut self.bytes;
        let values = self.values.entry(key).or_insert_with(|| {
            let new_rows = rows_of(kind);
            *rows += new_rows;
            *bytes += new_rows * (ROW_BYTES + added.tag_bytes);
            Values::default()
        });
        if let Some(ms) = added.duration_ms {
            values.durations.get_or_insert_default().add(ms, 1.0);
        }
        values.amount += added.amount;
        values.count += 1;
        self.events += 1;
        for (last, new) in values.gauges.iter_mut().zip(added.gauges) {
            let is_newer = last.is_none_or(|(at, _)| at <= added.end_ns);
            if let Some(value) = new.filter(|_| is_newer) {
                *last = Some((added.end_ns, value));
            }
        }
    }

    /// Adds a log event.
    pub fn add_log(&mut self, offset: u64, log_event: LogEvent) {
        self.rows += 1;
        self.bytes += log_event.bytes();
        self.logs.push((offset, log_event));
    }

    /// Returns whether the fill must be emitted before more events are added.
    pub fn is_full(&self) -> bool {
        self.bytes >= BYTES_MAX || self.rows >= ROWS_MAX
    }

    /// Returns whether the fill has nothing to emit.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Returns the maximum number of bytes that the fill needs in a block.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether other events in the fill already count these occurrences: an error causes
    /// both a `jdk.JavaErrorThrow` event and `jdk.JavaExceptionThrow` events.
    pub fn is_counted_twice(&self, key: ValueKey) -> bool {
        key.kind == EXCEPTION_THROW
            && self.values.contains_key(&ValueKey { kind: ERROR_THROW, ..key })
    }

    /// Returns all values in the order of their keys, so by window first.
    pub fn values(&self) -> Vec<(ValueKey, &Values)> {
        let mut all: Vec<_> = self.values.iter().map(|(key, values)| (*key, values)).collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        all
    }
}

fn rows_of(kind: &Kind) -> usize {
    let distribution = if kind.duration.is_some() { DISTRIBUTION_ROWS } else { 0 };
    let sums = usize::from(kind.amount.is_some()) + usize::from(kind.count.is_some());
    distribution + sums + kind.gauges.len()
}
