//! The agent's own metrics, for sources that give them out.

use std::fmt;
use std::sync::Arc;

/// One of the agent's own metrics.
#[derive(Clone, Copy, Debug)]
pub struct InternalMetric<'a> {
    /// Its name, as at `/metrics`.
    pub name: &'a str,
    /// Its labels, in no order.
    pub labels: &'a [(&'a str, &'a str)],
    /// Whether it counts since the start of the agent; else it is a state.
    pub is_counter: bool,
    /// What it is now.
    pub value: f64,
}

/// Calls back with one metric after the other.
type Tell = dyn Fn(&mut dyn FnMut(&InternalMetric<'_>)) + Send + Sync;

/// Where the agent's own metrics can be had; by default there are none.
#[derive(Clone)]
pub struct InternalMetrics(Arc<Tell>);

impl InternalMetrics {
    /// Metrics of which `tell` tells.
    pub fn new(
        tell: impl Fn(&mut dyn FnMut(&InternalMetric<'_>)) + Send + Sync + 'static,
    ) -> InternalMetrics {
        InternalMetrics(Arc::new(tell))
    }

    /// Calls `each` with every metric as it is now.
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
