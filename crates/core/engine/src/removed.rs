//! What reloads have removed or replaced: sources, for what their sinks have not settled, and the
//! figures of components.

use crate::core::Core;
use millstream_model::snapshot::ComponentSnapshot;
use millstream_model::{Counters, CountersSnapshot, Kind, Ledger, SinkSet};
use parking_lot::Mutex;
use std::collections::BTreeMap;
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

/// Identifies a component.
type Name = (Kind, Arc<str>);

/// The figures of components that are gone, so that the summary of a stop has all events of the run.
#[derive(Default)]
pub(crate) struct RemovedCounters(Mutex<Figures>);

#[derive(Default)]
struct Figures {
    /// Components that may still count: a removed sink delivers what it holds.
    counting: Vec<(Name, Arc<Counters>)>,
    ended: BTreeMap<Name, CountersSnapshot>,
}

impl RemovedCounters {
    /// Adds the components of a topology that the next one does not have.
    pub fn add(&self, old: &Core, next: &Core) {
        let stays = |counters: &Arc<Counters>| {
            next.counters().any(|(_, other)| Arc::ptr_eq(counters, other))
        };
        let gone = old.counters().filter(|(_, counters)| !stays(counters));
        let gone: Vec<_> = gone.map(|(name, counters)| (name, counters.clone())).collect();
        let mut figures = self.0.lock();
        figures.counting.extend(gone);
        figures.end();
    }

    /// Returns a snapshot of each component, with only the events that it has delivered and lost.
    pub fn snapshots(&self) -> Vec<ComponentSnapshot> {
        let figures = self.0.lock();
        let mut all = figures.ended.clone();
        for (name, counters) in &figures.counting {
            add(all.entry(name.clone()).or_default(), &counters.snapshot());
        }
        let component = |((kind, id), counters): (Name, CountersSnapshot)| ComponentSnapshot {
            id: id.to_string(),
            kind: kind.name(),
            counters,
            ..ComponentSnapshot::default()
        };
        all.into_iter().map(component).collect()
    }
}

impl Figures {
    /// Adds up the figures of components that no longer count, so that they take little memory.
    fn end(&mut self) {
        let ended = self.counting.extract_if(.., |(_, counters)| Arc::strong_count(counters) == 1);
        for (name, counters) in ended {
            add(self.ended.entry(name).or_default(), &counters.snapshot());
        }
    }
}

/// Adds the events that were delivered and lost.
fn add(total: &mut CountersSnapshot, more: &CountersSnapshot) {
    total.sent_events += more.sent_events;
    for (reason, events) in &more.dropped_events {
        *total.dropped_events.entry(reason).or_default() += events;
    }
    for (reason, bytes) in &more.dropped_bytes {
        *total.dropped_bytes.entry(reason).or_default() += bytes;
    }
}
