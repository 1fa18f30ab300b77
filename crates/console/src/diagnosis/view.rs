//! The input of a check: a source and the components downstream of it, now and a few seconds
//! earlier.

use super::tracks::FileTrack;
use millstream_model::snapshot::{ComponentSnapshot, Snapshot};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::LazyLock;

/// Counters of a component that is missing from a snapshot.
static NOTHING: LazyLock<ComponentSnapshot> = LazyLock::new(ComponentSnapshot::default);

/// A source whose lag is shrinking is late only if the lag takes longer than this to disappear, in
/// seconds.
const LATE_AFTER: f64 = 30.0;

/// Lag in bytes or records that is normal while events are in flight.
const LAG_ON_THE_WAY: u64 = 64 << 10;

/// Minimum time, in seconds, that unread data takes to read to be treated as a backlog.
const BACKLOG_SECONDS: f64 = 3.0;

/// Two snapshots, and the changes of each component between them.
pub struct Window<'a> {
    pub now: &'a Snapshot,
    pub before: &'a Snapshot,
    /// Snapshot from half a minute ago, or the oldest one since the start.
    pub oldest: &'a Snapshot,
    /// All snapshots of the last half minute, oldest first.
    pub history: &'a VecDeque<Snapshot>,
    pairs: Vec<Pair<'a>>,
    /// Index of each component in `pairs`, by id.
    index: HashMap<&'a str, usize>,
}

impl<'a> Window<'a> {
    /// Returns the window from `before` to the end of the history. `middle` is the snapshot halfway
    /// between them.
    pub fn of(
        history: &'a VecDeque<Snapshot>,
        before: &'a Snapshot,
        middle: &'a Snapshot,
    ) -> Option<Window<'a>> {
        let (oldest, now) = (history.front()?, history.back()?);
        let [of_before, of_middle, of_oldest] = [before, middle, oldest].map(by_id);
        let component = |known: &Components<'a>, id| known.get(id).copied().unwrap_or(&NOTHING);
        let pair = |now: &'a ComponentSnapshot| {
            let id = now.id.as_str();
            let (before, middle) = (component(&of_before, id), component(&of_middle, id));
            Pair { now, before, middle, oldest: component(&of_oldest, id) }
        };
        let pairs: Vec<Pair<'a>> = now.components.iter().map(pair).collect();
        let index = pairs.iter().enumerate().map(|(at, pair)| (pair.now.id.as_str(), at)).collect();
        Some(Window { now, before, oldest, history, pairs, index })
    }

    /// Returns the time from the oldest to the newest snapshot, in seconds.
    pub fn history_seconds(&self) -> f64 {
        (self.now.uptime_seconds - self.oldest.uptime_seconds).max(1e-3)
    }

    /// Returns the length of the window in seconds.
    pub fn seconds(&self) -> f64 {
        (self.now.uptime_seconds - self.before.uptime_seconds).max(1e-3)
    }

    /// Returns the component with this id over the window.
    pub fn pair(&self, id: &str) -> Option<Pair<'a>> {
        self.index.get(id).map(|at| self.pairs[*at])
    }

    /// Returns all components over the window.
    pub fn pairs(&self) -> impl Iterator<Item = Pair<'a>> {
        self.pairs.iter().copied()
    }

    /// Returns the seconds that the workers were busy.
    fn worker_seconds(&self) -> f64 {
        self.pairs().map(|pair| pair.worker_seconds()).sum()
    }

    /// Returns the share of the time that the workers were busy.
    pub fn workers_busy_share(&self) -> f64 {
        let workers = self.now.worker_threads.max(1) as f64;
        (self.worker_seconds() / (self.seconds() * workers)).min(1.0)
    }

    /// Returns the share of the workers' busy time that a component used.
    pub fn share_of_busy_time(&self, component: &Pair<'_>) -> f64 {
        component.worker_seconds() / self.worker_seconds().max(1e-9)
    }

    /// Returns the component that used the most worker time.
    pub fn busiest(&self) -> Option<Pair<'a>> {
        self.pairs().max_by(|a, b| a.worker_seconds().total_cmp(&b.worker_seconds()))
    }

    /// Returns the ids of the components downstream of a component.
    fn ids_behind(&self, component: &'a ComponentSnapshot) -> HashSet<&'a str> {
        ids_behind(component, |id| self.pair(id).map(|pair| pair.now))
    }

    /// Returns the number of sources upstream of a component.
    pub fn sources_before(&self, id: &str) -> usize {
        let sources = self.pairs().filter(|pair| pair.now.kind == "source");
        sources.filter(|source| self.ids_behind(source.now).contains(id)).count()
    }
}

/// Components of a snapshot, by id.
type Components<'a> = HashMap<&'a str, &'a ComponentSnapshot>;

fn by_id(snapshot: &Snapshot) -> Components<'_> {
    snapshot.components.iter().map(|component| (component.id.as_str(), component)).collect()
}

/// Returns the component with this id.
pub fn find<'s>(snapshot: &'s Snapshot, id: &str) -> Option<&'s ComponentSnapshot> {
    snapshot.components.iter().find(|component| component.id == id)
}

/// Returns the seconds that a component has waited because of `what`, including a wait that has not
/// ended.
fn wait_seconds(component: &ComponentSnapshot, what: &str) -> f64 {
    let ended = component.counters.wait_seconds.get(what).copied().unwrap_or(0.0);
    let present = component.held_back.as_ref().filter(|wait| wait.limit == what);
    ended + present.map_or(0.0, |wait| wait.seconds)
}

/// Returns the ids of the components downstream of a component.
fn ids_behind<'s>(
    component: &'s ComponentSnapshot,
    find: impl Fn(&str) -> Option<&'s ComponentSnapshot>,
) -> HashSet<&'s str> {
    let mut seen = HashSet::new();
    let mut next: Vec<&str> = component.readers.iter().map(String::as_str).collect();
    while let Some(id) = next.pop() {
        if seen.insert(id)
            && let Some(component) = find(id)
        {
            next.extend(component.readers.iter().map(String::as_str));
        }
    }
    seen
}

/// Returns the ids of the sinks downstream of a source.
pub fn sinks_behind(snapshot: &Snapshot, source: &str) -> Vec<String> {
    let components = by_id(snapshot);
    let Some(source) = components.get(source) else { return Vec::new() };
    let ids = ids_behind(source, |id| components.get(id).copied());
    let sinks = snapshot.components.iter().filter(|component| component.kind == "sink");
    let ids = sinks.map(|sink| &sink.id).filter(|id| ids.contains(id.as_str()));
    ids.cloned().collect()
}

/// A component now, and at the beginning and in the middle of a window.
#[derive(Clone, Copy)]
pub struct Pair<'a> {
    pub now: &'a ComponentSnapshot,
    pub before: &'a ComponentSnapshot,
    middle: &'a ComponentSnapshot,
    oldest: &'a ComponentSnapshot,
}

type Counts = BTreeMap<&'static str, u64>;

impl Pair<'_> {
    /// Returns the events received in the window.
    pub fn received(&self) -> u64 {
        let count = |component: &ComponentSnapshot| component.counters.received_events;
        count(self.now).saturating_sub(count(self.before))
    }

    /// Returns the bytes received in the window.
    fn received_bytes(&self) -> u64 {
        let count = |component: &ComponentSnapshot| component.counters.received_bytes;
        count(self.now).saturating_sub(count(self.before))
    }

    /// Returns the number of partition assignments and revocations in the last half minute.
    pub fn rebalances_lately(&self) -> u64 {
        self.now.counters.rebalances.saturating_sub(self.oldest.counters.rebalances)
    }

    /// Returns the events sent in the window.
    pub fn sent(&self) -> u64 {
        let count = |component: &ComponentSnapshot| component.counters.sent_events;
        count(self.now).saturating_sub(count(self.before))
    }

    /// Returns the seconds that workers were busy with the component in the window.
    pub fn worker_seconds(&self) -> f64 {
        let seconds = |component: &ComponentSnapshot| component.counters.worker_seconds;
        (seconds(self.now) - seconds(self.before)).max(0.0)
    }

    /// Returns the seconds that the component waited because of `what` in the window.
    pub fn waited(&self, what: &str) -> f64 {
        (wait_seconds(self.now, what) - wait_seconds(self.before, what)).max(0.0)
    }

    /// Returns the seconds that the component waited because of `what` in the last half minute.
    pub fn waited_lately(&self, what: &str) -> f64 {
        (wait_seconds(self.now, what) - wait_seconds(self.oldest, what)).max(0.0)
    }

    /// Returns the number of events that a sink's endpoint accepted in the window.
    pub fn accepted(&self) -> u64 {
        let (now, before) = (&self.now.counters, &self.before.counters);
        self.sent().max(now.accepted_events.saturating_sub(before.accepted_events))
    }

    /// Returns the seconds that a source waited for the capacity of a component.
    pub fn waited_for(&self, id: &str) -> f64 {
        let seconds =
            |c: &ComponentSnapshot| c.capacity_wait_seconds.get(id).copied().unwrap_or(0.0);
        (seconds(self.now) - seconds(self.before)).max(0.0)
    }

    /// Returns the number of events dropped in the window for these reasons.
    pub fn dropped(&self, reasons: &[&str]) -> u64 {
        added(self.now, self.before, |c| &c.counters.dropped_events, |key| reasons.contains(&key))
    }

    /// Returns the number of events with these notes in the window.
    pub fn noted(&self, notes: &[&str]) -> u64 {
        added(self.now, self.before, |c| &c.counters.noted_events, |key| notes.contains(&key))
    }

    /// Returns the number of events noted or dropped in the window, except those with these notes
    /// or reasons.
    pub fn noted_or_dropped_except(&self, except: &[&str]) -> u64 {
        let other = |key: &str| !except.contains(&key);
        added(self.now, self.before, |c| &c.counters.noted_events, other)
            + added(self.now, self.before, |c| &c.counters.dropped_events, other)
    }

    /// Returns the number of errors with these types in the window.
    pub fn errors(&self, kinds: &[&str]) -> u64 {
        added(self.now, self.before, |c| &c.counters.errors, |key| kinds.contains(&key))
    }

    /// Returns whether errors of these types occurred in both halves of the window.
    pub fn has_lasting_errors(&self, kinds: &[&str]) -> bool {
        let in_half = |now, before| {
            added(now, before, |c| &c.counters.errors, |key| kinds.contains(&key)) > 0
        };
        in_half(self.middle, self.before) && in_half(self.now, self.middle)
    }
}

fn added(
    now: &ComponentSnapshot,
    before: &ComponentSnapshot,
    counts_of: impl Fn(&ComponentSnapshot) -> &Counts,
    is_meant: impl Fn(&str) -> bool,
) -> u64 {
    let counts = counts_of(now).iter().filter(|(key, _)| is_meant(key));
    let before = counts_of(before);
    counts.map(|(key, n)| n.saturating_sub(before.get(key).copied().unwrap_or(0))).sum()
}

/// A source, and the components downstream of it.
pub struct View<'a> {
    pub window: &'a Window<'a>,
    pub source: Pair<'a>,
    /// Transforms and sinks downstream of the source, in flow order.
    pub chain: Vec<Pair<'a>>,
    /// Files of the source.
    pub files: Vec<&'a FileTrack>,
}

impl<'a> View<'a> {
    /// Returns the view of a source.
    pub fn of(window: &'a Window<'a>, source: Pair<'a>, files: Vec<&'a FileTrack>) -> View<'a> {
        let seen = window.ids_behind(source.now);
        let behind = window.pairs().filter(|pair| seen.contains(pair.now.id.as_str()));
        View { window, source, chain: behind.collect(), files }
    }

    /// Returns the sinks downstream of the source.
    pub fn sinks(&self) -> impl Iterator<Item = &Pair<'a>> {
        self.chain.iter().filter(|pair| pair.now.kind == "sink")
    }

    /// Returns the transforms downstream of the source.
    pub fn transforms(&self) -> impl Iterator<Item = &Pair<'a>> {
        self.chain.iter().filter(|pair| pair.now.kind == "transform")
    }

    /// Returns the share of the window in which the source waited for a component's capacity.
    pub fn share_waited_for(&self, id: &str) -> f64 {
        (self.source.waited_for(id) / self.window.seconds()).min(1.0)
    }

    /// Returns the share of the last half minute in which a limit delayed the source, at most 1.
    pub fn held_back(&self, limit: &str) -> f64 {
        (self.source.waited_lately(limit) / self.window.history_seconds()).min(1.0)
    }

    /// Returns the longest pause in the last half minute because of a limit, in seconds. Pauses
    /// that end between two snapshots are counted as one pause.
    pub fn longest_pause(&self, limit: &str) -> f64 {
        let sources =
            self.window.history.iter().map(|snapshot| find(snapshot, &self.source.now.id));
        let sources: Vec<&ComponentSnapshot> = sources.flatten().collect();
        let ended = |source: &ComponentSnapshot| source.counters.wait_seconds.get(limit).copied();
        let ended = |source| ended(source).unwrap_or(0.0);
        let ended = sources.windows(2).map(|pair| ended(pair[1]) - ended(pair[0]));
        let present = sources.iter().filter_map(|source| source.held_back.as_ref());
        let present = present.filter(|wait| wait.limit == limit).map(|wait| wait.seconds);
        ended.chain(present).fold(0.0, f64::max)
    }

    /// Returns the share of the window in which the source waited for capacity or memory.
    pub fn share_waited(&self) -> f64 {
        let ids = self.source.now.capacity_wait_seconds.keys();
        ids.map(|id| self.share_waited_for(id)).sum()
    }

    /// Returns the largest lag of the sinks in bytes or records, and its change per second.
    pub fn lag(&self) -> (u64, f64) {
        let before = |id: &str| {
            let progress_before =
                self.source.before.sinks.iter().find(|progress| progress.sink == id);
            progress_before.map_or(0, |progress| progress.lag)
        };
        let lags =
            self.source.now.sinks.iter().map(|progress| (progress.lag, before(&progress.sink)));
        let (now, before) = lags.max().unwrap_or_default();
        (now, (now as f64 - before as f64) / self.window.seconds())
    }

    /// Returns the age of the oldest unsettled event, in seconds.
    pub fn oldest_seconds(&self) -> f64 {
        self.source.now.sinks.iter().map(|progress| progress.oldest_seconds).fold(0.0, f64::max)
    }

    /// Returns the age of the oldest event that a sink has not settled, in seconds. A merge
    /// transform, not the source, holds the acknowledgements of its results.
    pub fn oldest_seconds_at(&self, sink: &str) -> f64 {
        let owing = self.chain.iter().chain([&self.source]);
        let progress = owing.flat_map(|at| &at.now.sinks).filter(|progress| progress.sink == sink);
        progress.map(|progress| progress.oldest_seconds).fold(0.0, f64::max)
    }

    /// Returns whether a sink has undelivered events. Events in the disk buffer of the sink count.
    pub fn waits_for_delivery(&self, sink: &str) -> bool {
        let is_owed = |component: &ComponentSnapshot| {
            let mut progress = component.sinks.iter().filter(|progress| progress.sink == sink);
            progress.any(|progress| progress.lag > 0 || progress.unsettled > 0)
        };
        let is_buffered = |component: &ComponentSnapshot| {
            let entries = component.disk_buffer.as_ref().map_or(0, |buffer| buffer.entries);
            component.id == sink && (entries > 0 || component.buffer_bytes.unwrap_or(0) > 0)
        };
        let behind = || self.chain.iter().map(|pair| pair.now);
        is_owed(self.source.now) || behind().any(is_owed) || behind().any(is_buffered)
    }

    /// Returns whether the source is late and the unread data, in bytes or records, takes seconds
    /// to read. Data that was read and is in flight is not a backlog.
    pub fn has_backlog(&self) -> bool {
        let unread = self
            .source
            .now
            .sinks
            .iter()
            .map(|progress| progress.lag.saturating_sub(progress.unsettled));
        let read = match self.source.now.type_name {
            "kafka" => self.source.received(),
            _ => self.source.received_bytes(),
        };
        let rate = read as f64 / self.window.seconds();
        self.is_late() && unread.max().unwrap_or(0) as f64 > BACKLOG_SECONDS * rate
    }

    /// Returns whether the source is late and will stay late for a while.
    pub fn is_late(&self) -> bool {
        let (lag, change) = self.lag();
        let is_shrinking = change < 0.0 && lag as f64 / -change < LATE_AFTER;
        let is_long = lag > LAG_ON_THE_WAY || self.oldest_seconds() > 5.0;
        is_long && !is_shrinking
    }
}
