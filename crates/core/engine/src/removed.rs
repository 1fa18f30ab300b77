//! Sources that reloads have removed or replaced, for what their sinks have not settled.

use millstream_model::{Ledger, SinkSet};
use parking_lot::Mutex;
use std::sync::Arc;

/// Sources that are gone and cannot read again what their sinks have not settled. The sinks may still
/// deliver it; what they have not delivered when the agent stops is lost.
#[derive(Default)]
pub(crate) struct RemovedSources(Mutex<Vec<(Arc<Ledger>, SinkSet)>>);

impl RemovedSources {
    /// Adds a source, unless all its sinks have settled everything.
    pub fn add(&self, ledger: &Arc<Ledger>, sinks: SinkSet) {
        let mut sources = self.0.lock();
        sources.retain(|(ledger, sinks)| unsettled(ledger, *sinks) > 0);
        if unsettled(ledger, sinks) > 0 {
            sources.push((ledger.clone(), sinks));
        }
    }

    /// Returns the bytes, or events, that the slowest sink of each has not settled.
    pub fn unsettled(&self) -> u64 {
        self.0.lock().iter().map(|(ledger, sinks)| unsettled(ledger, *sinks)).sum()
    }
}

/// Returns the bytes, or events, read from a source that its slowest sink has not settled.
pub(crate) fn unsettled(ledger: &Ledger, sinks: SinkSet) -> u64 {
    sinks.iter().map(|sink| ledger.progress(sink).unsettled).max().unwrap_or(0)
}
