//! The `internal_metrics` source emits the agent's metrics, which are also on `/metrics`, as metric
//! events.

mod config;

pub use config::InternalMetricsConfig;

use crate::sources::points::numbers::{Number, Numbers};
use millstream_model::{InternalMetric, InternalMetrics, Polled, Source, SourceCx};
use std::time::Duration;

/// A running `internal_metrics` source.
struct InternalMetricsSource {
    metrics: InternalMetrics,
    numbers: Numbers<String>,
}

impl InternalMetricsSource {
    /// Reads the current values of all metrics.
    fn read(&self) -> Vec<Number<String>> {
        let mut numbers = Vec::new();
        self.metrics.each(|metric: &InternalMetric<'_>| {
            let labels =
                metric.labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            let (name, labels) = (metric.name.to_owned(), labels.collect());
            numbers.push(Number {
                name,
                labels,
                value: metric.value,
                is_counter: metric.is_counter,
            });
        });
        numbers
    }
}

impl Source for InternalMetricsSource {
    fn poll(&mut self, cx: &mut SourceCx<'_>) -> Polled {
        match self.numbers.poll(cx) {
            Ok(period) => {
                self.numbers.set(period, self.read().into_iter());
                Polled::Wait(Duration::ZERO)
            }
            Err(polled) => polled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_testkit::SourceRig;

    #[test]
    fn metrics_are_emitted_at_the_end_of_each_period() {
        let mut rig = SourceRig::new(&["out"]);
        let metrics = InternalMetrics::new(|each| {
            each(&InternalMetric {
                name: "a_total",
                labels: &[("x", "1"), ("b", "2")],
                is_counter: true,
                value: 5.0,
            });
            each(&InternalMetric { name: "share", labels: &[], is_counter: false, value: 0.5 });
            each(&InternalMetric {
                name: "unknown",
                labels: &[],
                is_counter: false,
                value: f64::NAN,
            });
        });
        let numbers = Numbers::new(&rig.open(), Duration::from_secs(10)).unwrap();
        let mut source = InternalMetricsSource { metrics, numbers };
        let Polled::Wait(left) = rig.poll(&mut source) else { panic!("nothing yet") };
        assert!(left <= Duration::from_secs(10));
        rig.advance(left);
        assert!(matches!(rig.poll(&mut source), Polled::Wait(Duration::ZERO)));
        let Polled::Batch(batch, _) = rig.poll(&mut source) else { panic!("the metrics") };
        let texts: Vec<_> =
            (0..batch.rows()).map(|row| String::from_utf8_lossy(batch.text(row))).collect();
        assert_eq!(texts, ["a_total {\"b\":\"2\",\"x\":\"1\"} 5", "share {} 0.5"]);
        assert!(
            matches!(rig.poll(&mut source), Polled::Wait(left) if left == Duration::from_secs(10))
        );
        rig.until_eof = true;
        assert!(matches!(rig.poll(&mut source), Polled::Wait(Duration::ZERO)));
        assert!(matches!(rig.poll(&mut source), Polled::Batch(batch, _) if batch.rows() == 2));
        assert!(matches!(rig.poll(&mut source), Polled::Ended));
    }
}
