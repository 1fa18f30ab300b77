//! Source `internal_metrics`: the agent's own metrics, those of `/metrics`, as metric events.

mod config;

pub use config::InternalMetricsConfig;

use crate::metrics::config::Distributions;
use crate::metrics::events::MetricRows;
use crate::metrics::outlet::Outlet;
use crate::metrics::period::{Period, Periods};
use millstream_model::limits::BLOCK_BYTES;
use millstream_model::{OwnMetrics, Polled, Source, SourceCx};
use millstream_series::{Output, Temporality};
use std::collections::VecDeque;
use std::time::Duration;

/// A metric that waits to be given out.
struct Waiting {
    name: String,
    labels: Vec<(String, String)>,
    output: Output,
}

/// The source.
struct InternalMetrics {
    own: OwnMetrics,
    length: Duration,
    periods: Option<Periods>,
    period: Period,
    waiting: VecDeque<Waiting>,
    has_ended: bool,
    outlet: Outlet,
}

impl InternalMetrics {
    fn new(own: OwnMetrics, length: Duration, outlet: Outlet) -> InternalMetrics {
        let period = Period { end_ns: 0, seconds: length.as_secs_f64() };
        let waiting = VecDeque::new();
        InternalMetrics { own, length, periods: None, period, waiting, has_ended: false, outlet }
    }

    /// Takes all metrics as they are at the end of the period.
    fn take(&mut self) {
        let waiting = &mut self.waiting;
        self.own.each(|metric| {
            let temporality = if metric.is_counter { Temporality::Cumulative } else { Temporality::Gauge };
            let output = Output { suffix: "", value: metric.value, temporality, timestamp: None };
            let labels = metric.labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            // What is not known, or has no bound, is no number that JSON has.
            if metric.value.is_finite() {
                waiting.push_back(Waiting { name: metric.name.to_owned(), labels: labels.collect(), output });
            }
        });
    }

    fn give(&mut self, cx: &SourceCx<'_>) -> Polled {
        if !cx.sinks.is_subset(cx.room) {
            return Polled::NoRoom;
        }
        let Some((block, permit)) = cx.block(BLOCK_BYTES) else { return Polled::NoRoom };
        let mut rows = MetricRows::new(block, self.period, Distributions::Numbers);
        while let Some(next) = self.waiting.front() {
            let labels = next.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
            if !rows.number(&next.name, labels, &next.output) {
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
        let batch = rows.finish(&mut self.outlet, cx);
        cx.counters.received(batch.rows() as u64, batch.block.len() as u64);
        Polled::Batch(Box::new(batch), permit)
    }
}

impl Source for InternalMetrics {
    fn poll(&mut self, cx: &mut SourceCx<'_>) -> Polled {
        self.outlet.count_lost(cx);
        if !self.waiting.is_empty() {
            return self.give(cx);
        }
        if self.has_ended {
            return Polled::Ended;
        }
        let periods = self.periods.get_or_insert_with(|| Periods::new(self.length, cx.now));
        let left = periods.left(cx.now);
        if !left.is_zero() && !cx.until_eof {
            return Polled::Wait(left);
        }
        if !cx.sinks.is_subset(cx.room) {
            return Polled::NoRoom;
        }
        self.period = periods.end(cx.now);
        self.has_ended = cx.until_eof;
        self.take();
        Polled::Wait(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::OwnMetric;
    use millstream_testkit::SourceRig;

    #[test]
    fn metrics_are_given_out_at_the_end_of_each_period() {
        let mut rig = SourceRig::new(&["out"]);
        let own = OwnMetrics::new(|each| {
            each(&OwnMetric {
                name: "a_total",
                labels: &[("x", "1"), ("b", "2")],
                is_counter: true,
                value: 5.0,
            });
            each(&OwnMetric { name: "share", labels: &[], is_counter: false, value: 0.5 });
            each(&OwnMetric { name: "unknown", labels: &[], is_counter: false, value: f64::NAN });
        });
        let outlet = Outlet::new(&rig.open()).unwrap();
        let mut source = InternalMetrics::new(own, Duration::from_secs(10), outlet);
        let Polled::Wait(left) = rig.poll(&mut source) else { panic!("nothing yet") };
        assert!(left <= Duration::from_secs(10));
        rig.advance(left);
        assert!(matches!(rig.poll(&mut source), Polled::Wait(Duration::ZERO)));
        let Polled::Batch(batch, _) = rig.poll(&mut source) else { panic!("the metrics") };
        let texts: Vec<_> = (0..batch.rows()).map(|row| String::from_utf8_lossy(batch.text(row))).collect();
        assert_eq!(texts, ["a_total {\"b\":\"2\",\"x\":\"1\"} 5", "share {} 0.5"]);
        assert!(matches!(rig.poll(&mut source), Polled::Wait(left) if left == Duration::from_secs(10)));
        rig.until_eof = true;
        assert!(matches!(rig.poll(&mut source), Polled::Wait(Duration::ZERO)));
        assert!(matches!(rig.poll(&mut source), Polled::Batch(batch, _) if batch.rows() == 2));
        assert!(matches!(rig.poll(&mut source), Polled::Ended));
    }
}
