//! Limits how long rejected requests are split, because the samples of later periods must wait in
//! the meantime.

use millstream_encodings::prometheus::Row;

/// Minimum length of a period in milliseconds. Shorter intervals count as this length.
const PERIOD_MIN_MS: i64 = 10_000;

/// The period to which the samples of a batch belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    end_ms: i64,
    interval_ms: i64,
}

impl Period {
    /// Returns the newest period of rows, with the shortest interval; `None` if all intervals are
    /// unknown.
    pub fn newest<'a>(rows: impl Iterator<Item = &'a Row>, now_ms: i64) -> Option<Period> {
        let with_interval = rows.filter(|row| row.interval_ms > 0);
        let of_row = |row: &Row| Period {
            end_ms: row.time_ms.min(now_ms),
            interval_ms: i64::from(row.interval_ms).max(PERIOD_MIN_MS),
        };
        with_interval.map(of_row).reduce(|one, other| Period {
            end_ms: one.end_ms.max(other.end_ms),
            interval_ms: one.interval_ms.min(other.interval_ms),
        })
    }
}

/// Limits how long rejected requests are split. Splitting is always allowed until one period after
/// the samples' period has ended, and then half of the time, in turns of half a period. This finds
/// rejected series in late batches, and still lets the sink catch up.
#[derive(Default)]
pub struct SplitTime {
    /// Start of the current turn, in milliseconds since 1970.
    turn_ms: i64,
}

impl SplitTime {
    /// Returns the limit for a turn that began at this time.
    #[cfg(test)]
    pub fn since(turn_ms: i64) -> SplitTime {
        SplitTime { turn_ms }
    }

    /// Returns whether a request with samples of this period may be split now.
    pub fn may_split(&mut self, period: Option<Period>, now_ms: i64) -> bool {
        let Some(Period { end_ms, interval_ms }) = period else { return true };
        if now_ms < end_ms.saturating_add(interval_ms) {
            return true;
        }
        if !(self.turn_ms..self.turn_ms.saturating_add(interval_ms)).contains(&now_ms) {
            self.turn_ms = now_ms;
        }
        now_ms - self.turn_ms < interval_ms / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sinks::prometheus::{encoded, rows_of};
    use millstream_encodings::metric::{Kind, Metric, Temporality, Value};
    use millstream_encodings::prometheus::Distributions;

    const NOW: i64 = 1_700_000_000_000;

    /// Returns the newest period of gauges with these times, relative to now, and intervals.
    fn newest(gauges: &[(i64, f64)]) -> Option<Period> {
        let metric = |(time_ms, interval): &(i64, f64)| Metric {
            name: b"g",
            tags: b"{}",
            kind: Kind::Gauge,
            temporality: Temporality::Delta,
            value: Value::Number(1.0),
            time_ns: (NOW + time_ms) * 1_000_000,
            interval: *interval,
        };
        let metrics: Vec<Metric<'_>> = gauges.iter().map(metric).collect();
        let (routing, _) = encoded(&metrics, &Distributions::Native);
        Period::newest(rows_of(&Some(routing)).unwrap().rows().iter(), NOW)
    }

    #[test]
    fn the_newest_end_and_the_shortest_interval_count() {
        assert_eq!(newest(&[]), None);
        assert_eq!(newest(&[(-1, 0.0)]), None, "no interval is known");
        let period = |end, interval_ms| Some(Period { end_ms: NOW + end, interval_ms });
        assert_eq!(newest(&[(-30_000, 60.0), (-5000, 15.0), (-1, 0.0)]), period(-5000, 15_000));
        assert_eq!(newest(&[(9000, 1.0)]), period(0, PERIOD_MIN_MS), "it is not in the future");
    }

    #[test]
    fn requests_are_split_for_a_period_then_half_of_the_time() {
        let mut time = SplitTime::default();
        let period = Some(Period { end_ms: NOW, interval_ms: 20_000 });
        let split = (0..60).filter(|s| time.may_split(period, NOW + s * 1000));
        let expected: Vec<i64> = (0..30).chain(40..50).collect();
        assert_eq!(split.collect::<Vec<_>>(), expected);
        let newer = Some(Period { end_ms: NOW + 50_000, interval_ms: 20_000 });
        assert!(time.may_split(newer, NOW + 52_000) && !time.may_split(period, NOW + 52_000));
        assert!(time.may_split(None, NOW + 52_000), "without a period there is no limit");
        assert!(time.may_split(period, NOW - 3_600_000), "the clock was set back");
    }
}
