//! Source `host_metrics`: what the kernel says of the host, as metric events.

mod config;

pub use config::HostMetricsConfig;

use crate::metrics::numbers::{Number, Numbers};
use crate::metrics::period::Period;
use millstream_host::{Fault, Host, Reading, Reason};
use millstream_model::{Polled, Source, SourceCx};
use std::collections::HashSet;
use std::time::Duration;

/// Faults of one collection that are logged: a fault of each of a thousand processes is said often
/// enough with ten.
const LOGGED_MAX: usize = 10;

/// The source.
struct HostMetrics {
    host: Host,
    /// The period whose collection has begun.
    begun: Option<Period>,
    numbers: Numbers<&'static str>,
    /// What could not be read last time.
    faults: HashSet<Fault>,
}

impl HostMetrics {
    fn new(host: Host, numbers: Numbers<&'static str>) -> HostMetrics {
        HostMetrics { host, begun: None, numbers, faults: HashSet::new() }
    }

    /// Takes what the collection came to, or waits for file systems.
    fn finish(&mut self, period: Period, cx: &SourceCx<'_>) -> Polled {
        self.numbers.count_lost(cx);
        let readings = match self.host.finish(cx.now.since_start) {
            Ok(readings) => readings,
            Err(left) => return Polled::Wait(left),
        };
        self.begun = None;
        self.report(readings.faults, cx);
        self.numbers.take(period, readings.numbers.into_iter().map(number));
        Polled::Wait(Duration::ZERO)
    }

    /// Counts faults and logs those that are new. What the kernel does not have is counted once: it
    /// will not come.
    fn report(&mut self, faults: Vec<Fault>, cx: &SourceCx<'_>) {
        let mut logged = 0;
        for fault in &faults {
            let (is_new, reason) = (!self.faults.contains(fault), fault.reason.name());
            if is_new && logged < LOGGED_MAX {
                logged += 1;
                log::warn!("source {}: {reason}: {}", cx.info.id, fault.text);
            }
            if is_new || fault.reason != Reason::Missing {
                cx.counters.error(reason);
            }
        }
        self.faults = faults.into_iter().collect();
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
                self.host.begin(cx.now.since_start);
                Polled::Wait(Duration::ZERO)
            }
            Err(polled) => polled,
        }
    }
}

#[cfg(test)]
mod tests;
