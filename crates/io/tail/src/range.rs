//! Backfill: reads only events within a time range.

use millstream_framing::TimeReader;
use millstream_model::{Batch, OriginId, Selection, TIME_UNKNOWN};
use std::collections::HashMap;

/// Selects events within a time range.
pub struct Range {
    from_ns: i64,
    until_ns: i64,
    reader: Option<TimeReader>,
    /// Whether each origin's last event was selected. An event without a time is selected if the
    /// event before it was.
    last: HashMap<OriginId, bool>,
}

impl Range {
    /// Creates the range, in nanoseconds since 1970. `reader` finds the timestamps of events that
    /// have no time yet.
    pub fn new(times_ns: std::ops::Range<i64>, reader: Option<TimeReader>) -> Range {
        Range { from_ns: times_ns.start, until_ns: times_ns.end, reader, last: HashMap::new() }
    }

    /// Deselects events outside of the range; returns the number of events deselected.
    pub fn apply(&mut self, batch: &mut Batch) -> u64 {
        let before = batch.events();
        let mut kept = vec![false; batch.rows()];
        let segments = batch.segments.clone();
        for segment in segments.iter() {
            let mut chosen = self.last.get(&segment.origin.id).copied().unwrap_or(true);
            for (row, kept) in
                kept.iter_mut().enumerate().skip(segment.first_row).take(segment.rows)
            {
                let time = self.time(batch, row);
                if time != TIME_UNKNOWN {
                    chosen = (self.from_ns..self.until_ns).contains(&time);
                }
                *kept = chosen;
            }
            self.last.insert(segment.origin.id, chosen);
        }
        batch.select(Selection::from(kept));
        (before - batch.events()) as u64
    }

    fn time(&mut self, batch: &Batch, row: usize) -> i64 {
        let known = batch.time.as_ref().map_or(TIME_UNKNOWN, |times| times[row]);
        match &mut self.reader {
            Some(reader) if known == TIME_UNKNOWN => {
                reader.time(batch.text(row), batch.read_ns).unwrap_or(TIME_UNKNOWN)
            }
            _ => known,
        }
    }

    /// Returns whether a file with this modification time, in seconds since 1970, may contain
    /// events in the range.
    pub fn may_be_in(&self, modified_s: i64) -> bool {
        modified_s.saturating_add(1).saturating_mul(1_000_000_000) >= self.from_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_last_modified_before_the_range_are_skipped() {
        let range = Range::new(100_000_000_000..i64::MAX, None);
        assert_eq!([98, 99, 100].map(|second| range.may_be_in(second)), [false, true, true]);
    }
}
