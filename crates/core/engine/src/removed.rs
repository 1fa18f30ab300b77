//! Components that reloads have removed or replaced: sources, until their sinks have settled
//! everything, and the counters of all components.

use millstream_model::snapshot::ComponentSnapshot;
use millstream_model::{Counters, CountersSnapshot, Kind, Ledger, SinkSet};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The amount of data that sinks have not settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unsettled {
    /// Data from sources whose offsets count bytes.
    pub bytes: u64,
    /// Data from sources whose offsets count records.
    pub records: u64,
}

impl Unsettled {
    /// Returns whether everything is settled.
    pub fn is_empty(self) -> bool {
        self == Unsettled::default()
    }

    fn all(self) -> u64 {
        self.bytes + self.records
    }
}

impl std::ops::AddAssign for Unsettled {
    fn add_assign(&mut self, more: Unsettled) {
        self.bytes += more.bytes;
        self.records += more.records;
    }
}

/// Removed sources that cannot reread the data that their sinks have not settled. The sinks may
/// still deliver this data; any part that is undelivered when the agent stops is lost.
#[derive(Default)]
pub(crate) struct RemovedSources(Mutex<Vec<(Arc<Ledger>, SinkSet)>>);

impl RemovedSources {
    /// Adds a source, unless all its sinks have settled everything.
    pub fn add(&self, ledger: &Arc<Ledger>, sinks: SinkSet) {
        let mut sources = self.0.lock();
        sources.retain(|(ledger, sinks)| !unsettled(ledger, *sinks).is_empty());
        if !unsettled(ledger, sinks).is_empty() {
            sources.push((ledger.clone(), sinks));
        }
    }

    /// Returns the data that the slowest sink of each source has not settled.
    pub fn unsettled(&self) -> Unsettled {
        let mut all = Unsettled::default();
        for (ledger, sinks) in self.0.lock().iter() {
            all += unsettled(ledger, *sinks);
        }
        all
    }
}

/// Returns the part of a source's data that its slowest sink has not settled yet.
pub(crate) fn unsettled(ledger: &Ledger, sinks: SinkSet) -> Unsettled {
    let of_sink = |sink| {
        let progress = ledger.progress(sink);
        let records = progress.unsettled_records;
        Unsettled { bytes: progress.unsettled - records, records }
    };
    sinks.iter().map(of_sink).max_by_key(|unsettled| unsettled.all()).unwrap_or_default()
}

/// Identifies a component: its kind and id.
pub(crate) type ComponentKey = (Kind, Arc<str>);

/// The counters of removed components, so that the summary after shutdown includes all events of
/// the run.
#[derive(Default)]
pub(crate) struct RemovedCounters(Mutex<Figures>);

#[derive(Default)]
struct Figures {
    /// Components that may still count, because a removed sink delivers its remaining payloads.
    counting: Vec<(ComponentKey, Arc<Counters>)>,
    ended: BTreeMap<ComponentKey, CountersSnapshot>,
}

impl RemovedCounters {
    /// Adds components that are missing from the next topology.
    pub fn add(&self, gone: impl IntoIterator<Item = (ComponentKey, Arc<Counters>)>) {
        let mut figures = self.0.lock();
        figures.counting.extend(gone);
        figures.end();
    }

    /// Returns a snapshot of each component, with only its delivered and lost events.
    pub fn snapshots(&self) -> Vec<ComponentSnapshot> {
        let figures = self.0.lock();
        let mut all = figures.ended.clone();
        for (name, counters) in &figures.counting {
            add(all.entry(name.clone()).or_default(), &counters.snapshot());
        }
        let component =
            |((kind, id), counters): (ComponentKey, CountersSnapshot)| ComponentSnapshot {
                id: id.to_string(),
                kind: kind.name(),
                counters,
                ..ComponentSnapshot::default()
            };
        all.into_iter().map(component).collect()
    }
}

impl Figures {
    /// Adds up the counters of components that no longer count, and drops the counters to save
    /// memory.
    fn end(&mut self) {
        let ended = self.counting.extract_if(.., |(_, counters)| Arc::strong_count(counters) == 1);
        for (name, counters) in ended {
            add(self.ended.entry(name).or_default(), &counters.snapshot());
        }
    }
}

/// Adds the delivered and dropped events of one snapshot to another.
fn add(total: &mut CountersSnapshot, more: &CountersSnapshot) {
    total.sent_events += more.sent_events;
    for (reason, events) in &more.dropped_events {
        *total.dropped_events.entry(reason).or_default() += events;
    }
    for (reason, events) in &more.dropped_on_error {
        *total.dropped_on_error.entry(reason).or_default() += events;
    }
    for (reason, bytes) in &more.dropped_bytes {
        *total.dropped_bytes.entry(reason).or_default() += bytes;
    }
}
