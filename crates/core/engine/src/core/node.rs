//! A transform or sink in the topology.

mod processing;

pub(crate) use processing::Received;

use super::SinkSlot;
use crate::buffer::Buffer;
use crate::cut::Load;
use crate::disk_buffer::DiskBuffer;
use crate::index::NodeIndex;
use crate::offload::OffloadQueue;
use crate::stage::SerialStage;
use millstream_model::tap::TapPoint;
use millstream_model::{Counters, Kind, Map, SinkSet};
use std::sync::Arc;

/// A transform or sink in the topology. A clone shares the component, and is used for its place in
/// another topology.
#[derive(Clone)]
pub(crate) struct Node {
    pub id: Arc<str>,
    pub type_name: &'static str,
    pub kind: Kind,
    pub op: Op,
    /// The readers of each output, indexed by output.
    pub outputs: Vec<Vec<NodeIndex>>,
    pub downstream: SinkSet,
    pub counters: Arc<Counters>,
    /// Tickets from all sources on their way to the node, if the node is a cut.
    pub load: Arc<Load>,
    /// Where taps receive a transform's output, or a sink's input.
    pub tap: Arc<TapPoint>,
}

/// The component at a node.
#[derive(Clone)]
pub(crate) enum Op {
    Map(Arc<dyn Fn() -> Box<dyn Map> + Send + Sync>),
    Serial(Arc<SerialStage>),
    Offload(Arc<OffloadQueue>),
    Sink(SinkSlot),
}

impl Node {
    /// Returns the sink's slot; `None` if the node is a transform.
    pub fn sink(&self) -> Option<&SinkSlot> {
        match &self.op {
            Op::Sink(slot) => Some(slot),
            Op::Map(_) | Op::Serial(_) | Op::Offload(_) => None,
        }
    }

    /// Returns the queue of an offload transform; `None` for other nodes.
    pub fn offload(&self) -> Option<&Arc<OffloadQueue>> {
        match &self.op {
            Op::Offload(queue) => Some(queue),
            Op::Map(_) | Op::Serial(_) | Op::Sink(_) => None,
        }
    }

    /// Returns whether tickets wait at the node and continue as separate steps.
    pub fn is_cut(&self) -> bool {
        matches!(self.op, Op::Serial(_) | Op::Offload(_))
    }

    /// Returns the same node with these buffer settings if it is a sink; otherwise returns it
    /// unchanged.
    pub fn with_buffer(
        mut self,
        share: u64,
        buffer: Buffer,
        disk: Option<Arc<DiskBuffer>>,
    ) -> Node {
        if let Op::Sink(slot) = &mut self.op {
            slot.share = share;
            slot.buffer = buffer;
            slot.disk = disk;
        }
        self
    }
}
