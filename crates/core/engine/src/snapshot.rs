//! Takes snapshots of the engine.

use crate::core::{Core, Feeder, Node, Op, SinkSlot, SourceSlot};
use crate::cut::Cut;
use crate::limits::FULL_AFTER;
use millstream_model::snapshot::{
    CheckpointSnapshot, ComponentSnapshot, FailureSnapshot, FileSnapshot, HeldBackSnapshot,
    SinkProgress, Snapshot, TaskSnapshot, lag_seconds, log_delay_seconds,
};
use millstream_model::{CountersSnapshot, EngineTime, Kind, Now, SinkIndex};
use millstream_store::StoreHealth;
use std::collections::BTreeSet;

/// Takes a snapshot.
pub(crate) fn take(core: &Core) -> Snapshot {
    let now = core.now();
    // The results of a merge transform are its output, not a source.
    let is_source = |index: &usize| results_of(core, *index).is_none();
    let sources = (0..core.sources.len()).filter(is_source);
    let sources = sources.map(|index| of_source(core, index, now));
    let StoreHealth { error, committed_seconds, age_seconds, errors } = core.store.health();
    let nodes = (0..core.nodes.len()).map(|index| of_node(core, index, now));
    Snapshot {
        uptime_seconds: now.since_start.uptime().as_secs_f64(),
        worker_threads: core.threads as u64,
        cpu_limit: core.cpu,
        memory: core.memory.snapshot(&core.grant),
        components: sources.chain(nodes).collect(),
        checkpoints: CheckpointSnapshot { error, committed_seconds, age_seconds, errors },
        jvm: None,
        collectors: None,
        jvm_processes: Vec::new(),
    }
}

/// Returns the merge transform whose results a source passes on, if it does.
fn results_of(core: &Core, source: usize) -> Option<&Feeder> {
    let feeder = &core.sources[source].fed.as_ref()?.feeder;
    (feeder.kind == Kind::Transform).then_some(feeder)
}

fn of_source(core: &Core, index: usize, now: Now) -> ComponentSnapshot {
    let source = &core.sources[index];
    let reached = core.sinks().filter(|(_, slot)| source.downstream.contains(slot.index));
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
    ComponentSnapshot {
        id: source.id.to_string(),
        type_name: source.type_name,
        kind: "source",
        counters: source.counters.snapshot(),
        readers: ids(core, &source.roots),
        capacity_wait_seconds: source.wait.seconds(),
        held_back: held_back(source, now.since_start),
        sinks: sinks.collect(),
        unreadable: source.unreadable.list(),
        unreadable_error: source.unreadable.error_type(),
        totals: Some(source.ledger.totals()),
        log_delay_seconds: log_delay_seconds(&origins, now.unix_ns),
        files: files.map(|progress| FileSnapshot::of(progress, &reached, now.unix_ns)).collect(),
        ..ComponentSnapshot::default()
    }
}

fn held_back(source: &SourceSlot, now: EngineTime) -> Option<HeldBackSnapshot> {
    let (limit, time) = source.held_back(now)?;
    Some(HeldBackSnapshot { limit, seconds: time.as_secs_f64() })
}

fn ids(core: &Core, nodes: &[usize]) -> Vec<String> {
    nodes.iter().map(|node| core.nodes[*node].id.to_string()).collect()
}

/// Returns the components that read from a node, those of the events that it refuses included.
fn readers(core: &Core, node: &Node) -> Vec<String> {
    let fed = core.sources.iter().filter(|source| {
        let feeder = source.fed.as_ref().map(|fed| &fed.feeder);
        feeder.is_some_and(|feeder| feeder.id == node.id)
    });
    let outputs = node.outputs.iter().flatten().chain(fed.flat_map(|source| &source.roots));
    let unique: BTreeSet<usize> = outputs.copied().collect();
    ids(core, &unique.into_iter().collect::<Vec<_>>())
}

/// Returns the seconds since which a node has had no capacity.
fn full_seconds(core: &Core, node: &Node, now: EngineTime) -> Option<f64> {
    let full = match &node.op {
        Op::Sink(slot) => core.blocked_for(slot, now),
        Op::Map(_) | Op::Serial(_) | Op::Offload(_) => {
            cuts_at(core, node).filter_map(|cut| cut.full_for(now)).max()
        }
    };
    full.map(|full| full.as_secs_f64())
}

fn cuts_at<'c>(core: &'c Core, node: &'c Node) -> impl Iterator<Item = &'c Cut> {
    let cuts = core.sources.iter().flat_map(|slot| &slot.cuts);
    cuts.filter(|cut| core.nodes[cut.node].id == node.id)
}

/// Returns why a transform or sink makes no progress.
fn error_of(core: &Core, node: &Node, now: EngineTime) -> Option<String> {
    match &node.op {
        Op::Sink(slot) => error(core, slot, now),
        Op::Offload(queue) => core.offload.hanging(queue).or_else(|| waiting(core, node, now)),
        Op::Serial(_) => waiting(core, node, now),
        Op::Map(_) => None,
    }
}

/// Returns how long events have waited at a transform, if that is long.
fn waiting(core: &Core, node: &Node, now: EngineTime) -> Option<String> {
    let longest = cuts_at(core, node).filter_map(|cut| cut.full_for(now)).max();
    let longest = longest.filter(|full| *full >= FULL_AFTER)?;
    Some(format!("events have waited at it for {} s", longest.as_secs()))
}

/// Returns why a sink makes no progress: its last failure, or that it is too slow.
fn error(core: &Core, slot: &SinkSlot, now: EngineTime) -> Option<String> {
    let failed = slot.lanes.iter().find_map(|lane| lane.error());
    let of_disk = || slot.disk.as_ref()?.error();
    let what = if slot.disk.is_some() { "disk buffer" } else { "queue" };
    let full = core.blocked_for(slot, now).filter(|full| *full >= FULL_AFTER);
    let full = full.map(|full| format!("its {what} has been full for {} s", full.as_secs()));
    failed.or_else(of_disk).or(full)
}

fn tasks(node: &Node) -> Vec<TaskSnapshot> {
    match &node.op {
        Op::Sink(slot) => slot.sink.tasks(),
        Op::Offload(queue) => queue.transform.tasks(),
        Op::Map(_) | Op::Serial(_) => Vec::new(),
    }
}

/// Reads the counters of a node. The time in which a sink had requests at its endpoint counts as
/// waited; of a sink that does not count them, the time in which its lanes had something in flight.
fn of_counters(node: &Node, slot: Option<&SinkSlot>) -> CountersSnapshot {
    let mut counters = node.counters.snapshot();
    let in_flight = slot.into_iter().flat_map(|slot| &slot.lanes).map(|lane| lane.in_flight());
    let requests = node.counters.flights().time();
    let endpoint = requests.unwrap_or_else(|| in_flight.sum()).as_secs_f64();
    if endpoint > 0.0 {
        counters.wait_seconds.insert("endpoint", endpoint);
    }
    counters
}

fn waiting_batches(core: &Core, node: &Node) -> Option<u64> {
    let is_cut = matches!(node.op, Op::Serial(_) | Op::Offload(_));
    is_cut.then(|| cuts_at(core, node).map(Cut::tickets).sum())
}

fn hanging_calls(core: &Core, node: &Node) -> Option<u64> {
    match &node.op {
        Op::Offload(queue) => Some(core.offload.hanging_calls(queue)),
        Op::Map(_) | Op::Serial(_) | Op::Sink(_) => None,
    }
}

/// Returns the failure of the lane that has failed for longest.
fn longest_failure(slot: &SinkSlot) -> Option<FailureSnapshot> {
    let failures = slot.lanes.iter().filter_map(|lane| lane.failure());
    failures.max_by(|a, b| a.span_seconds.total_cmp(&b.span_seconds))
}

fn of_node(core: &Core, index: usize, now: Now) -> ComponentSnapshot {
    let node = &core.nodes[index];
    let slot = core.sinks().find(|(of, _)| of.id == node.id).map(|(_, slot)| slot);
    let of_node = ComponentSnapshot {
        id: node.id.to_string(),
        type_name: node.type_name,
        kind: node.kind.name(),
        counters: of_counters(node, slot),
        readers: readers(core, node),
        waiting_batches: waiting_batches(core, node),
        full_seconds: full_seconds(core, node, now.since_start),
        hanging_calls: hanging_calls(core, node),
        failure: slot.and_then(longest_failure),
        buffer_bytes: slot.map(|slot| slot.queued()),
        disk_buffer: slot
            .and_then(|slot| slot.disk.as_ref())
            .map(|disk| disk.snapshot(now.unix_ns)),
        error: error_of(core, node, now.since_start),
        tasks: tasks(node),
        ..ComponentSnapshot::default()
    };
    let is_it = |source: &usize| results_of(core, *source).is_some_and(|of| of.id == node.id);
    match (0..core.sources.len()).find(is_it) {
        Some(source) => merged(of_node, of_source(core, source, now)),
        None => of_node,
    }
}

/// Returns a merge transform: what it receives as a sink, and what it sends as a source.
fn merged(mut of_sink: ComponentSnapshot, of_source: ComponentSnapshot) -> ComponentSnapshot {
    let (counters, sent) = (&mut of_sink.counters, of_source.counters);
    (counters.sent_events, counters.sent_bytes) = (sent.sent_events, sent.sent_bytes);
    counters.busy_seconds += sent.busy_seconds;
    counters.worker_seconds += sent.worker_seconds;
    for (to, from) in
        [(&mut counters.dropped_events, sent.dropped_events), (&mut counters.errors, sent.errors)]
    {
        from.into_iter().for_each(|(reason, count)| *to.entry(reason).or_default() += count);
    }
    let capacity_wait_seconds = of_source.capacity_wait_seconds;
    ComponentSnapshot { sinks: of_source.sinks, capacity_wait_seconds, ..of_sink }
}
