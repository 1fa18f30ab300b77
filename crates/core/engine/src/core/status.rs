//! The work in progress in a topology, and the components that hold it up.

mod snapshot;
mod watch;

use super::{Node, Nodes, Resources, SinkSlot, SourceSlot, Sources};
use crate::index::NodeIndex;
use millstream_model::{EngineTime, SinkSet};
use std::time::Duration;

/// A view of a topology: the work in progress, the components that hold it up, and the components'
/// counters.
#[derive(Clone, Copy)]
pub(crate) struct Status<'a> {
    nodes: &'a Nodes,
    sources: &'a Sources,
    resources: &'a Resources,
    /// Maximum number of cores that the process uses, if limited.
    cpu_cores: Option<f64>,
}

impl<'a> Status<'a> {
    /// Creates the view of a topology.
    pub fn new(
        nodes: &'a Nodes,
        sources: &'a Sources,
        resources: &'a Resources,
        cpu_cores: Option<f64>,
    ) -> Status<'a> {
        Status { nodes, sources, resources, cpu_cores }
    }

    /// Returns whether every ticket from every source is released, and no source is being polled.
    pub fn is_drained(self) -> bool {
        self.sources.are_drained()
    }

    /// Returns whether everything that was read is settled and no more data can arrive.
    pub fn is_finished(self) -> bool {
        self.resources.scheduler.all_ended()
            && self.is_drained()
            && self.sources.iter().all(|source| source.ledger.is_idle())
            && self.nodes.disks().all(|(_, disk)| disk.is_empty())
    }

    /// Returns whether all undelivered data is in disk buffers.
    pub fn rest_is_on_disk(self) -> bool {
        let is_safe = |slot: &SinkSlot| {
            let is_durable = slot.disk.as_ref().is_some_and(|disk| disk.is_durable());
            is_durable || slot.lanes.iter().all(|lane| lane.has_ended())
        };
        self.is_drained() && self.nodes.sinks().all(|(_, slot)| is_safe(slot))
    }

    /// Returns whether tickets wait only at offload transforms that `goes` selects by id.
    pub fn waits_only_at(self, goes: impl Fn(&str) -> bool) -> bool {
        let is_other = |index: &NodeIndex| {
            let node = self.nodes.get(*index);
            node.offload().is_some() && !goes(&node.id)
        };
        !self.sources.waiting_at().iter().any(is_other)
    }

    /// Returns the components that prevent tickets from being released: transforms where tickets
    /// wait. If there are none, returns the sources that are being polled, or otherwise the sources
    /// with tickets in progress.
    pub fn holders(self) -> Vec<String> {
        let waiting = self.sources.waiting_at();
        let nodes: Vec<&Node> = waiting.iter().map(|index| self.nodes.get(*index)).collect();
        // Batches at a serial transform may be waiting for a ticket that is stuck upstream.
        let has_offload = nodes.iter().any(|node| node.offload().is_some());
        let stuck = nodes.iter().filter(|node| node.offload().is_some() || !has_offload);
        let stuck: Vec<String> = stuck.map(|node| format!("transform {}", node.id)).collect();
        if !stuck.is_empty() {
            return stuck;
        }
        let busy = self.sources.iter().filter(|slot| !slot.is_drained() || slot.is_busy());
        busy.map(|slot| format!("source {}", slot.id)).collect()
    }

    /// Returns the sinks that can still get payloads without a new poll.
    pub fn expected_sinks(self) -> SinkSet {
        self.sources.expected_sinks(self.nodes.all_sinks())
    }

    /// Returns the components that prevent events from being settled: transforms where tickets
    /// wait, and sinks that cannot deliver. A sink that is waiting for more events, or for its next
    /// sync, is not included.
    pub fn late(self) -> Vec<String> {
        let mut late = if self.is_drained() { Vec::new() } else { self.holders() };
        let expected = self.expected_sinks();
        for (node, slot) in self.nodes.sinks() {
            let fails = slot.lanes.iter().any(|lane| lane.error().is_some());
            if fails && !expected.contains(slot.index) {
                late.push(format!("{} {}", node.kind, node.id));
            }
        }
        late
    }

    /// Returns a number that changes whenever something is read or settled.
    pub fn progress(self) -> u64 {
        let of_source = |slot: &SourceSlot| {
            let mut settled: u64 = 0;
            for (_, sink) in self.nodes.sinks() {
                let progress = slot.ledger.progress(sink.index);
                let on_disk = sink.disk.as_ref().map_or(0, |disk| disk.progress());
                // Settled data reduces `unsettled`, and reduces the lag when the checkpoint moves.
                // The weight keeps equal and opposite changes of the two from canceling out.
                let weighted = progress.lag.wrapping_mul(3).wrapping_add(progress.unsettled);
                settled = settled.wrapping_add(weighted).wrapping_add(on_disk);
            }
            settled.wrapping_mul(31).wrapping_add(slot.issued())
        };
        let sources = self.sources.iter();
        sources.fold(0, |all: u64, slot| all.wrapping_mul(31).wrapping_add(of_source(slot)))
    }

    /// Returns how long a sink has had no capacity for at least some of its sources.
    fn blocked_for(self, slot: &SinkSlot, now: EngineTime) -> Option<Duration> {
        if let Some(disk) = &slot.disk {
            return slot.disk_full_for(disk, now);
        }
        let waits = |source: &SourceSlot| source.traits.can_wait && source.reaches(slot.index);
        if self.sources.iter().any(waits) { slot.behind_for(now) } else { slot.full_for(now) }
    }

    /// Returns how long events have waited at a transform because of missing capacity downstream.
    fn waited_at(self, node: NodeIndex, now: EngineTime) -> Option<Duration> {
        self.sources.cuts_at(node).filter_map(|cut| cut.full_for(now)).max()
    }
}
