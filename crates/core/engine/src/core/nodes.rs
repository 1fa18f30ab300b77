//! The transforms and sinks of a topology.

use super::{Node, Op, SinkSlot};
use crate::disk_buffer::DiskBuffer;
use crate::index::NodeIndex;
use crate::lane::LaneQueue;
use crate::offload::OffloadQueue;
use millstream_model::limits::{BATCH_ROWS_MAX, BLOCK_BYTES, ROW_BYTES};
use millstream_model::{SinkIndex, SinkSet};
use std::sync::Arc;

/// A topology's transforms in data-flow order, followed by its sinks.
pub(crate) struct Nodes(Vec<Node>);

impl Nodes {
    /// Creates the nodes from transforms in data-flow order, followed by sinks.
    pub fn new(nodes: Vec<Node>) -> Nodes {
        Nodes(nodes)
    }

    /// Returns a node.
    pub fn get(&self, index: NodeIndex) -> &Node {
        &self.0[index.get()]
    }

    /// Returns the nodes, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Node> {
        self.0.iter()
    }

    /// Returns the nodes with their indices, in order.
    pub fn indexed(&self) -> impl Iterator<Item = (NodeIndex, &Node)> {
        self.0.iter().enumerate().map(|(index, node)| (NodeIndex::new(index), node))
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the sinks and merge transforms.
    pub fn sinks(&self) -> impl Iterator<Item = (&Node, &SinkSlot)> {
        self.0.iter().filter_map(|node| Some((node, node.sink()?)))
    }

    /// Returns the slots of the sinks in a set.
    pub fn slots_of(&self, sinks: SinkSet) -> impl Iterator<Item = &SinkSlot> {
        self.sinks().map(|(_, slot)| slot).filter(move |slot| sinks.contains(slot.index))
    }

    /// Returns a sink by its index in sink sets.
    pub fn slot(&self, sink: SinkIndex) -> Option<&SinkSlot> {
        self.sinks().map(|(_, slot)| slot).find(|slot| slot.index == sink)
    }

    /// Returns the indices of all sinks.
    pub fn all_sinks(&self) -> SinkSet {
        self.sinks().map(|(_, slot)| slot.index).collect()
    }

    /// Returns the ids of the sinks in a set, with their indices.
    pub fn sink_ids(&self, sinks: SinkSet) -> Vec<(SinkIndex, String)> {
        let selected = self.sinks().filter(|(_, slot)| sinks.contains(slot.index));
        selected.map(|(node, slot)| (slot.index, node.id.to_string())).collect()
    }

    /// Returns the lanes of all sinks.
    pub fn lanes(&self) -> impl Iterator<Item = &Arc<LaneQueue>> {
        self.sinks().flat_map(|(_, slot)| &slot.lanes)
    }

    /// Returns the disk buffers, with their sinks.
    pub fn disks(&self) -> impl Iterator<Item = (&Node, &Arc<DiskBuffer>)> {
        self.sinks().filter_map(|(node, slot)| Some((node, slot.disk.as_ref()?)))
    }

    /// Starts delivering from the disk buffers to the lanes of these sinks.
    pub fn attach_disks(&self) {
        for (_, slot) in self.sinks() {
            slot.attach_disk();
        }
    }

    /// Returns an offload transform's node.
    pub fn of_offload(&self, queue: &Arc<OffloadQueue>) -> Option<&Node> {
        let is_same = |node: &&Node| node.offload().is_some_and(|other| Arc::ptr_eq(other, queue));
        self.0.iter().find(is_same)
    }

    /// Returns whether the topology contains offload transforms.
    pub fn has_offload(&self) -> bool {
        self.0.iter().any(|node| node.offload().is_some())
    }

    /// Lets go of the offload transforms that `goes` selects by id.
    pub fn let_go(&self, goes: impl Fn(&str) -> bool) {
        for node in self.0.iter().filter(|node| goes(&node.id)) {
            if let Some(queue) = node.offload() {
                queue.transform.let_go();
            }
        }
    }

    /// Returns the sinks downstream of these nodes.
    pub fn downstream(&self, nodes: &[NodeIndex]) -> SinkSet {
        nodes.iter().fold(SinkSet::EMPTY, |all, node| all | self.get(*node).downstream)
    }

    /// Returns the maximum bytes that the chain to the sinks in `downstream` produces from one
    /// block.
    pub fn expansion(&self, downstream: SinkSet) -> u64 {
        let rows = BATCH_ROWS_MAX as u64;
        let made = |node: &Node| match &node.op {
            Op::Sink(slot) if downstream.contains(slot.index) => {
                slot.sink.payload_bytes_max(BLOCK_BYTES as u64, rows)
            }
            Op::Offload(queue) if !(downstream & node.downstream).is_empty() => {
                queue.transform.output_bytes_max()
            }
            // Other transforms produce about as much output as they receive.
            Op::Map(_) | Op::Serial(_) if !(downstream & node.downstream).is_empty() => {
                BLOCK_BYTES as u64
            }
            _ => 0,
        };
        self.0.iter().map(made).sum::<u64>() + rows * ROW_BYTES as u64
    }

    /// Returns the set of nodes that are reachable from `roots`, including the roots.
    pub fn reachable(&self, roots: &[NodeIndex]) -> Reachable {
        let mut reached = vec![false; self.0.len()];
        for root in roots {
            reached[root.get()] = true;
        }
        for index in 0..self.0.len() {
            if reached[index] {
                for reader in self.0[index].outputs.iter().flatten() {
                    reached[reader.get()] = true;
                }
            }
        }
        Reachable(reached)
    }
}

/// The set of nodes that a batch may pass.
pub(crate) struct Reachable(Vec<bool>);

impl Reachable {
    /// Returns whether the node is in the set.
    pub fn contains(&self, node: NodeIndex) -> bool {
        self.0[node.get()]
    }
}
