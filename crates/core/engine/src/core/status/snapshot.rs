//! Takes snapshots of the engine.

use super::Status;
use crate::core::{Feeder, Node, Op, SinkSlot, SourceSlot};
use crate::cut::Cut;
use crate::index::NodeIndex;
use crate::limits::FULL_AFTER;
use millstream_model::snapshot::{
    CheckpointSnapshot, ComponentSnapshot, FailureSnapshot, FileSnapshot, HeldBackSnapshot,
    SinkProgress, Snapshot, TaskSnapshot, lag_seconds, log_delay_seconds,
};
use millstream_model::{CountersSnapshot, EngineTime, Now, SinkIndex};
use millstream_store::StoreHealth;
use std::collections::{BTreeMap, BTreeSet};

impl Status<'_> {
    /// Takes a snapshot.
    pub fn snapshot(self) -> Snapshot {
        let now = self.resources.now();
        // A source of a merge transform's results is shown as the transform's output, not as a
        // source.
        let sources = self.sources.iter().filter(|source| merge_transform(source).is_none());
        let sources = sources.map(|source| self.source_snapshot(source, now));
        let nodes = self.nodes.indexed().map(|(index, _)| self.node_snapshot(index, now));
        let StoreHealth { error, committed_seconds, age_seconds, errors } =
            self.resources.store.health();
        Snapshot {
            uptime_seconds: now.since_start.uptime().as_secs_f64(),
            worker_threads: self.resources.threads as u64,
            cpu_limit: self.cpu_cores,
            memory: self.resources.memory.snapshot(&self.resources.grant),
            components: sources.chain(nodes).collect(),
            checkpoints: CheckpointSnapshot { error, committed_seconds, age_seconds, errors },
        }
    }

    fn source_snapshot(self, source: &SourceSlot, now: Now) -> ComponentSnapshot {
        let reached = self.nodes.sinks().filter(|(_, slot)| source.reaches(slot.index));
        let reached: Vec<(SinkIndex, &str)> =
            reached.map(|(node, slot)| (slot.index, &*node.id)).collect();
        let origins = source.ledger.origins();
        let sinks = reached.iter().map(|&(index, id)| {
            let progress = source.ledger.progress(index);
            let age = |issued| (now.since_start - issued).as_secs_f64();
            let oldest_seconds = progress.oldest.map_or(0.0, age);
            SinkProgress {
                sink: id.to_owned(),
                lag: progress.lag,
                unsettled: progress.unsettled,
                oldest_seconds,
                lag_seconds: lag_seconds(&origins, index, oldest_seconds, now.unix_ns),
            }
        });
        let files = origins.iter().filter(|progress| !progress.origin.name.is_empty());
        let files = files.map(|progress| FileSnapshot::of(progress, &reached, now.unix_ns));
        ComponentSnapshot {
            id: source.id.to_string(),
            type_name: source.type_name,
            kind: "source",
            counters: source.counters.snapshot(),
            readers: self.ids(source.wiring.roots.iter().copied()),
            capacity_wait_seconds: source.wait.seconds(),
            held_back: held_back(source, now.since_start),
            sinks: sinks.collect(),
            unreadable: source.unreadable.list(),
            unreadable_error: source.unreadable.error_type(),
            totals: Some(source.ledger.totals()),
            log_delay_seconds: log_delay_seconds(&origins, now.unix_ns),
            files: files.collect(),
            ..ComponentSnapshot::default()
        }
    }

    fn node_snapshot(self, index: NodeIndex, now: Now) -> ComponentSnapshot {
        let node = self.nodes.get(index);
        let slot = node.sink();
        let disk = slot.and_then(|slot| slot.disk.as_ref());
        let snapshot = ComponentSnapshot {
            id: node.id.to_string(),
            type_name: node.type_name,
            kind: node.kind.name(),
            counters: counters(node),
            readers: self.readers(node),
            waiting_batches: self.waiting_batches(index),
            full_seconds: self.full_seconds(index, now.since_start),
            hanging_calls: self.hanging_calls(node),
            failure: slot.and_then(longest_failure),
            buffer_bytes: slot.map(SinkSlot::queued),
            disk_buffer: disk.map(|disk| disk.snapshot(now.unix_ns)),
            error: self.error(index, now.since_start),
            tasks: tasks(node),
            ..ComponentSnapshot::default()
        };
        let is_result = |source: &&SourceSlot| {
            merge_transform(source).is_some_and(|feeder| feeder.id == node.id)
        };
        match self.sources.iter().find(is_result) {
            Some(source) => merged(snapshot, self.source_snapshot(source, now)),
            None => snapshot,
        }
    }

    fn ids(self, nodes: impl Iterator<Item = NodeIndex>) -> Vec<String> {
        nodes.map(|node| self.nodes.get(node).id.to_string()).collect()
    }

    /// Returns the ids of the components that read from a node, or that read the events that the
    /// node rejects.
    fn readers(self, node: &Node) -> Vec<String> {
        let is_fed =
            |source: &&SourceSlot| source.fed.as_ref().is_some_and(|fed| fed.feeder.id == node.id);
        let fed = self.sources.iter().filter(is_fed);
        let readers =
            node.outputs.iter().flatten().chain(fed.flat_map(|source| &source.wiring.roots));
        let unique: BTreeSet<NodeIndex> = readers.copied().collect();
        self.ids(unique.into_iter())
    }

    /// Returns how many seconds a node has had no capacity; `None` if it has capacity.
    fn full_seconds(self, index: NodeIndex, now: EngineTime) -> Option<f64> {
        let full = match self.nodes.get(index).sink() {
            Some(slot) => self.blocked_for(slot, now),
            None => self.waited_at(index, now),
        };
        full.map(|full| full.as_secs_f64())
    }

    /// Returns the reason why a transform or sink is not making progress.
    fn error(self, index: NodeIndex, now: EngineTime) -> Option<String> {
        match &self.nodes.get(index).op {
            Op::Sink(slot) => self.sink_error(slot, now),
            Op::Offload(queue) => {
                self.resources.offload.hanging(queue).or_else(|| self.waiting(index, now))
            }
            Op::Serial(_) => self.waiting(index, now),
            Op::Map(_) => None,
        }
    }

    /// Returns a message if events have been waiting at a transform for a long time.
    fn waiting(self, index: NodeIndex, now: EngineTime) -> Option<String> {
        let longest = self.waited_at(index, now).filter(|full| *full >= FULL_AFTER)?;
        Some(format!("events have been waiting here for {} s", longest.as_secs()))
    }

    /// Returns the reason why a sink is not making progress: its last failure, or its low speed.
    fn sink_error(self, slot: &SinkSlot, now: EngineTime) -> Option<String> {
        // Make this call in any case, because time counts from the call that first sees the sink
        // without capacity.
        let full = self.blocked_for(slot, now);
        if let Some(failure) = slot.lanes.iter().find_map(|lane| lane.error()) {
            return Some(failure);
        }
        if let Some(failure) = slot.disk.as_ref().and_then(|disk| disk.error()) {
            return Some(failure);
        }
        let full = full.filter(|full| *full >= FULL_AFTER)?;
        let what = if slot.disk.is_some() { "disk buffer" } else { "queue" };
        Some(format!("its {what} has been full for {} s", full.as_secs()))
    }

    fn waiting_batches(self, index: NodeIndex) -> Option<u64> {
        let is_cut = self.nodes.get(index).is_cut();
        is_cut.then(|| self.sources.cuts_at(index).map(Cut::tickets).sum())
    }

    fn hanging_calls(self, node: &Node) -> Option<u64> {
        Some(self.resources.offload.hanging_calls(node.offload()?))
    }
}

/// Returns the merge transform whose results a source passes on, if there is one.
fn merge_transform(source: &SourceSlot) -> Option<&Feeder> {
    let feeder = &source.fed.as_ref()?.feeder;
    feeder.passes_results().then_some(feeder)
}

fn held_back(source: &SourceSlot, now: EngineTime) -> Option<HeldBackSnapshot> {
    let (limit, time) = source.held_back(now)?;
    Some(HeldBackSnapshot { limit, seconds: time.as_secs_f64() })
}

fn tasks(node: &Node) -> Vec<TaskSnapshot> {
    match &node.op {
        Op::Sink(slot) => slot.sink.tasks(),
        Op::Offload(queue) => queue.transform.tasks(),
        Op::Map(_) | Op::Serial(_) => Vec::new(),
    }
}

/// Reads a node's counters. Time during which a sink has requests outstanding is counted as waiting
/// time. For sinks that do not track requests, time during which their lanes have data in flight
/// counts instead.
fn counters(node: &Node) -> CountersSnapshot {
    let mut counters = node.counters.snapshot();
    let lanes = node.sink().into_iter().flat_map(|slot| &slot.lanes);
    let requests = node.counters.flights().time();
    let endpoint = requests.unwrap_or_else(|| lanes.map(|lane| lane.in_flight()).sum());
    if !endpoint.is_zero() {
        counters.wait_seconds.insert("endpoint", endpoint.as_secs_f64());
    }
    counters
}

/// Returns the failure of the lane that has been failing for the longest time.
fn longest_failure(slot: &SinkSlot) -> Option<FailureSnapshot> {
    let failures = slot.lanes.iter().filter_map(|lane| lane.failure());
    failures.max_by(|a, b| a.span_seconds.total_cmp(&b.span_seconds))
}

/// Combines a merge transform's two snapshots: its input as a sink, and its output as a source.
fn merged(mut sink: ComponentSnapshot, source: ComponentSnapshot) -> ComponentSnapshot {
    let counters = &mut sink.counters;
    let sent = source.counters;
    counters.sent_events = sent.sent_events;
    counters.sent_bytes = sent.sent_bytes;
    counters.busy_seconds += sent.busy_seconds;
    counters.worker_seconds += sent.worker_seconds;
    add_counts(&mut counters.dropped_events, sent.dropped_events);
    add_counts(&mut counters.errors, sent.errors);
    let capacity_wait_seconds = source.capacity_wait_seconds;
    ComponentSnapshot { sinks: source.sinks, capacity_wait_seconds, ..sink }
}

/// Adds counts by reason.
fn add_counts(total: &mut BTreeMap<&'static str, u64>, more: BTreeMap<&'static str, u64>) {
    for (reason, count) in more {
        *total.entry(reason).or_default() += count;
    }
}
