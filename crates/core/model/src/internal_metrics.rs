//! The agent's internal metrics, for the sources that emit them.

use std::fmt;
use std::sync::Arc;

/// One of the agent's internal metrics.
#[derive(Clone, Copy, Debug)]
pub struct InternalMetric<'a> {
    /// Name, as in `/metrics`.
    pub name: &'a str,
    /// Labels, in any order.
    pub labels: &'a [(&'a str, &'a str)],
    /// Whether the metric is a counter that started at 0 with the agent; otherwise it is a gauge.
    pub is_counter: bool,
    /// Current value.
    pub value: f64,
}

/// A function that calls its argument with each metric.
type Tell = dyn Fn(&mut dyn FnMut(&InternalMetric<'_>)) + Send + Sync;

/// Provides the agent's internal metrics; empty by default.
#[derive(Clone)]
pub struct InternalMetrics(Arc<Tell>);

impl InternalMetrics {
    /// Creates a provider from a function that passes each metric to its argument.
    pub fn new(
        tell: impl Fn(&mut dyn FnMut(&InternalMetric<'_>)) + Send + Sync + 'static,
    ) -> InternalMetrics {
        InternalMetrics(Arc::new(tell))
    }

    /// Calls `each` with every metric and its current value.
    pub fn each(&self, mut each: impl FnMut(&InternalMetric<'_>)) {
        (self.0)(&mut each);
    }
}

impl Default for InternalMetrics {
    fn default() -> Self {
        InternalMetrics::new(|_| {})
    }
}

impl fmt::Debug for InternalMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnMetrics")
    }
}
