//! What the engine is doing, at one moment: the source of `/metrics`, `/api/snapshot` and the log.

use crate::core::{Core, SinkSlot};
use crate::limits::FULL_AFTER;
use millstream_model::CountersSnapshot;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// The whole engine.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Snapshot {
    /// Seconds since the start.
    pub uptime_seconds: f64,
    /// Bytes of the memory grant in use.
    pub memory_granted_bytes: u64,
    /// Bytes of the memory grant in all.
    pub memory_grant_bytes_max: u64,
    /// Every component: sources, transforms in the order of the flow, sinks.
    pub components: Vec<ComponentSnapshot>,
}

/// One component.
#[derive(Clone, Debug, Serialize)]
pub struct ComponentSnapshot {
    /// Component id.
    pub id: String,
    /// Component type.
    #[serde(rename = "type")]
    pub type_name: &'static str,
    /// `source`, `transform` or `sink`.
    pub kind: &'static str,
    /// Its counters.
    #[serde(flatten)]
    pub counters: CountersSnapshot,
    /// Of a source: how far behind each sink is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sinks: Vec<SinkProgress>,
    /// Of a sink: bytes that wait for delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer_bytes: Option<u64>,
    /// Of a sink: why it does not get on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Of a source: why it cannot read something, by path or pattern.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub troubles: BTreeMap<String, String>,
}

/// How far behind a sink is with the events of a source.
#[derive(Clone, Debug, Serialize)]
pub struct SinkProgress {
    /// The sink's id.
    pub sink: String,
    /// Bytes (or records) that exist and are not settled, read or not.
    pub lag: u64,
    /// Those of them that were read.
    pub unsettled: u64,
    /// Age of the oldest of them in seconds.
    pub oldest_seconds: f64,
}

impl Snapshot {
    pub(crate) fn take(core: &Core) -> Snapshot {
        let now = core.now().since_start;
        let sources = (0..core.sources.len()).map(|index| of_source(core, index, now));
        let nodes = (0..core.nodes.len()).map(|index| of_node(core, index, now));
        Snapshot {
            uptime_seconds: now.as_secs_f64(),
            memory_granted_bytes: core.grant.used(),
            memory_grant_bytes_max: core.grant.bytes_max(),
            components: sources.chain(nodes).collect(),
        }
    }

    /// Events dropped by all components, without those filtered on purpose.
    pub fn dropped_events(&self) -> u64 {
        let reasons = self.components.iter().flat_map(|c| &c.counters.dropped_events);
        reasons.filter(|(reason, _)| **reason != "filtered").map(|(_, events)| events).sum()
    }

    /// What was dropped, without what was filtered on purpose: `1 long_line (source in), 5 panic (sink out)`.
    pub fn dropped_list(&self) -> String {
        let of = |c: &ComponentSnapshot| {
            let (kind, id) = (c.kind, c.id.clone());
            let reasons =
                c.counters.dropped_events.clone().into_iter().filter(|(reason, _)| *reason != "filtered");
            reasons
                .map(move |(reason, events)| format!("{events} {reason} ({kind} {id})"))
                .collect::<Vec<_>>()
        };
        self.components.iter().flat_map(of).collect::<Vec<_>>().join(", ")
    }

    /// The sinks that still have something to deliver, with why they do not get on.
    pub fn undelivered_list(&self) -> String {
        let of = |c: &ComponentSnapshot| {
            let why = c.trouble.as_ref().map_or(String::new(), |trouble| format!(": {trouble}"));
            (c.trouble.is_some() || c.buffer_bytes.is_some_and(|bytes| bytes > 0))
                .then(|| format!("{}{why}", c.id))
        };
        self.components.iter().filter_map(of).collect::<Vec<_>>().join(", ")
    }

    /// Failures of sources to read something.
    pub fn unread(&self) -> u64 {
        let sources = self.components.iter().filter(|c| c.kind == "source");
        let errors = sources.flat_map(|c| &c.counters.errors);
        errors
            .filter(|(kind, _)| matches!(**kind, "read" | "unreadable" | "checkpoint"))
            .map(|(_, count)| count)
            .sum()
    }
}

fn of_source(core: &Core, index: usize, now: Duration) -> ComponentSnapshot {
    let source = &core.sources[index];
    let reached = core.sinks().filter(|(_, slot)| source.reach.contains(slot.index));
    let sinks = reached.map(|(node, slot)| {
        let progress = source.ledger.progress(slot.index);
        let oldest_seconds = progress.oldest.map_or(0.0, |issued| now.saturating_sub(issued).as_secs_f64());
        SinkProgress {
            sink: node.id.to_string(),
            lag: progress.lag,
            unsettled: progress.unsettled,
            oldest_seconds,
        }
    });
    ComponentSnapshot {
        id: source.id.to_string(),
        type_name: source.type_name,
        kind: "source",
        counters: source.counters.snapshot(),
        sinks: sinks.collect(),
        buffer_bytes: None,
        trouble: None,
        troubles: source.troubles.list(),
    }
}

/// Why a sink does not get on: its last failure, or that it takes too little.
fn trouble(slot: &SinkSlot, now: Duration) -> Option<String> {
    let failed = slot.lanes.iter().find_map(|lane| lane.trouble());
    let full = slot.full_for(now).filter(|full| *full >= FULL_AFTER);
    failed.or_else(|| full.map(|full| format!("its queue has been full for {} s", full.as_secs())))
}

fn of_node(core: &Core, index: usize, now: Duration) -> ComponentSnapshot {
    let node = &core.nodes[index];
    let slot = core.sinks().find(|(of, _)| of.id == node.id).map(|(_, slot)| slot);
    ComponentSnapshot {
        id: node.id.to_string(),
        type_name: node.type_name,
        kind: node.kind.name(),
        counters: node.counters.snapshot(),
        sinks: Vec::new(),
        buffer_bytes: slot.map(|slot| slot.queued()),
        trouble: slot.and_then(|slot| trouble(slot, now)),
        troubles: BTreeMap::new(),
    }
}
