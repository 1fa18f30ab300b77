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

/// A transform or sink in the topology. Clones are the same component at another place.
#[derive(Clone)]
pub(crate) struct Node {
    pub id: Arc<str>,
    pub type_name: &'static str,
    pub kind: Kind,
    pub op: Op,
    /// Reading nodes, by output.
    pub outputs: Vec<Vec<NodeIndex>>,
    pub downstream: SinkSet,
    pub counters: Arc<Counters>,
    /// Tickets of all sources on their way to the node, if it is a cut.
    pub load: Arc<Load>,
    /// Where taps get what a transform makes, or what a sink takes.
    pub tap: Arc<TapPoint>,
}

/// The work of a node.
#[derive(Clone)]
pub(crate) enum Op {
    Map(Arc<dyn Fn() -> Box<dyn Map> + Send + Sync>),
    Serial(Arc<SerialStage>),
    Offload(Arc<OffloadQueue>),
    Sink(SinkSlot),
}

impl Node {
    /// Returns what delivers, if the node is a sink.
    pub fn sink(&self) -> Option<&SinkSlot> {
        match &self.op {
            Op::Sink(slot) => Some(slot),
            Op::Map(_) | Op::Serial(_) | Op::Offload(_) => None,
        }
    }

    /// Returns the queue of an offload transform.
    pub fn offload(&self) -> Option<&Arc<OffloadQueue>> {
        match &self.op {
            Op::Offload(queue) => Some(queue),
            Op::Map(_) | Op::Serial(_) | Op::Sink(_) => None,
        }
    }

    /// Whether tickets wait at the node and continue as separate steps.
    pub fn is_cut(&self) -> bool {
        matches!(self.op, Op::Serial(_) | Op::Offload(_))
    }

    /// Returns the node of a sink with another buffer.
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
