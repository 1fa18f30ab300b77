//! The `host_metrics` source emits kernel statistics of the host as metric events.

mod config;

pub use config::HostMetricsConfig;

use crate::sources::points::numbers::{Number, Numbers};
use crate::util::period::Period;
use millstream_host::{Fault, Host, Reading, Reason};
use millstream_model::{Polled, Source, SourceCx};
use std::collections::HashSet;
use std::time::Duration;

/// Maximum number of errors that are logged per collection, because every process may have one.
const LOGGED_MAX: usize = 10;

/// A running `host_metrics` source.
struct HostMetrics {
    host: Host,
    /// Period of the collection that is in progress; `None` between collections.
    begun: Option<Period>,
    numbers: Numbers<&'static str>,
    /// Errors from the last collection.
    errors: HashSet<Fault>,
}

impl HostMetrics {
    fn new(host: Host, numbers: Numbers<&'static str>) -> HostMetrics {
        HostMetrics { host, begun: None, numbers, errors: HashSet::new() }
    }

    /// Takes the result of the collection, or waits if it is not complete because a file system is
    /// slow.
    fn finish(&mut self, period: Period, cx: &SourceCx<'_>) -> Polled {
        self.numbers.count_lost(cx);
        let readings = match self.host.finish(cx.now.since_start.uptime()) {
            Ok(readings) => readings,
            Err(left) => return Polled::Wait(left),
        };
        self.begun = None;
        self.report(readings.faults, cx);
        self.numbers.set(period, readings.numbers.into_iter().map(number));
        Polled::Wait(Duration::ZERO)
    }

    /// Counts errors and logs new ones. A statistic that the kernel does not provide is counted
    /// only once.
    fn report(&mut self, errors: Vec<Fault>, cx: &SourceCx<'_>) {
        let mut logged = 0;
        for error in &errors {
            let (is_new, reason) = (!self.errors.contains(error), error.reason.name());
            if is_new && logged < LOGGED_MAX {
                logged += 1;
                log::warn!("source {}: {reason}: {}", cx.info.id, error.text);
            }
            if is_new || error.reason != Reason::Missing {
                cx.counters.error(reason);
            }
        }
        self.errors = errors.into_iter().collect();
    }
}

fn number(reading: Reading) -> Number<&'static str> {
    let Reading { name, labels, value, is_counter } = reading;
    Number { name, labels, value, is_counter }
}

impl Source for HostMetrics {
    fn poll(&mut self, cx: &mut SourceCx<'_>) -> Polled {
        if let Some(period) = self.begun {
            return self.finish(period, cx);
        }
        match self.numbers.poll(cx) {
            Ok(period) => {
                self.begun = Some(period);
                self.host.begin(cx.now.since_start.uptime());
                Polled::Wait(Duration::ZERO)
            }
            Err(polled) => polled,
        }
    }
}

#[cfg(test)]
mod tests;
