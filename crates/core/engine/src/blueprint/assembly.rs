//! Builds a topology's transforms and sinks.

mod kept;

use super::graph::Graph;
use super::memory::MemoryShares;
use super::place::SinkPlace;
use super::{Settings, SinkPart, TransformPart, wake_for_room};
use crate::core::{Core, IsKept, NewSink, Node, Nodes, Op, SinkSlot};
use crate::disk_buffer::DiskBuffer;
use crate::error::EngineError;
use crate::index::{LaneIndex, NodeIndex};
use crate::lane::{LaneDriver, LaneQueue};
use crate::offload::OffloadQueue;
use crate::stage::SerialStage;
use millstream_model::TapSide;
use millstream_model::{Counters, Feed, Kind, SinkSet, Transform};
use std::sync::{Arc, Weak};

/// The inputs that are needed to build the components of a topology.
pub(super) struct Assembly<'a> {
    /// The previous topology.
    pub old: &'a Core,
    pub settings: &'a Settings,
    pub graph: &'a Graph,
    pub shares: MemoryShares,
    pub kept: &'a IsKept<'a>,
}

/// A sink or merge transform to build.
pub(super) struct PlacedSink {
    pub kind: Kind,
    pub part: SinkPart,
    pub place: SinkPlace,
}

/// Identifies a sink or merge transform, with its counters.
#[derive(Clone, Copy)]
struct SinkComponent<'a> {
    kind: Kind,
    id: &'a Arc<str>,
    counters: &'a Arc<Counters>,
}

impl Assembly<'_> {
    /// Builds the transforms in data-flow order, then the sinks. The drivers of new lanes are added
    /// to `drivers`.
    pub fn nodes(
        &self,
        transforms: Vec<TransformPart>,
        sinks: Vec<PlacedSink>,
        drivers: &mut Vec<LaneDriver>,
    ) -> Result<Nodes, EngineError> {
        let mut parts: Vec<Option<TransformPart>> = transforms.into_iter().map(Some).collect();
        let mut nodes = Vec::new();
        for part in self.graph.order.iter().filter_map(|index| parts[*index].take()) {
            let outputs = self.graph.outputs(&part.id);
            nodes.push(match self.kept_node(Kind::Transform, &part.id) {
                Some(kept) => Node { outputs, downstream: SinkSet::EMPTY, ..kept },
                None => self.transform_node(outputs, part),
            });
        }
        for sink in sinks {
            nodes.push(self.sink_node(sink, drivers)?);
        }
        for index in (0..nodes.len()).rev() {
            let mut downstream = nodes[index].downstream;
            for reader in nodes[index].outputs.iter().flatten() {
                downstream = downstream | nodes[reader.get()].downstream;
            }
            nodes[index].downstream = downstream;
        }
        Ok(Nodes::new(nodes))
    }

    fn transform_node(&self, outputs: Vec<Vec<NodeIndex>>, part: TransformPart) -> Node {
        let op = match part.transform {
            Transform::Map(make) => Op::Map(make),
            Transform::Serial(serial) => Op::Serial(SerialStage::new(serial)),
            Transform::Offload(transform) => Op::Offload(Arc::new(OffloadQueue { transform })),
            Transform::Merge(_) => unreachable!("Parts::of has made it a sink"),
        };
        Node {
            outputs,
            tap: self.settings.taps.point(TapSide::Output, &part.id),
            counters: self.counters(Kind::Transform, &part.id, part.type_name),
            id: part.id.into(),
            type_name: part.type_name,
            kind: Kind::Transform,
            op,
            downstream: SinkSet::EMPTY,
            load: Arc::default(),
        }
    }

    fn sink_node(
        &self,
        sink: PlacedSink,
        drivers: &mut Vec<LaneDriver>,
    ) -> Result<Node, EngineError> {
        let PlacedSink { kind, part, place } = sink;
        let SinkPlace { index, after, disk } = place;
        let share = part.buffer.share(self.shares.sink_bytes, self.settings.sink_bytes_max);
        let id: Arc<str> = part.id.as_str().into();
        let counters = self.counters(kind, &part.id, part.type_name);
        let disk = match kind {
            Kind::Sink => self.disk_buffer(&id, &part, disk, &counters)?,
            Kind::Source | Kind::Transform => None,
        };
        if let Some(kept) = self.kept_node(kind, &part.id) {
            return Ok(kept.with_buffer(share, part.buffer, disk));
        }
        part.buffer.announce(&counters);
        let feed = if kind == Kind::Sink { Feed::of_refused() } else { Feed::of_results() };
        let sink = part.sink;
        let buffer = part.buffer;
        let lanes = Vec::new();
        let mut new = NewSink { index, sink, feed, lanes, share, buffer, disk, after };
        let component = SinkComponent { kind, id: &id, counters: &counters };
        for lane in 0..new.sink.lanes().max(1) {
            let driver = self.lane_driver(component, &new, LaneIndex::new(lane));
            new.lanes.push(driver.queue.clone());
            drivers.push(driver);
        }
        Ok(Node {
            tap: self.settings.taps.point(TapSide::Input, &id),
            id,
            type_name: part.type_name,
            kind,
            op: Op::Sink(SinkSlot::new(new)),
            outputs: Vec::new(),
            downstream: SinkSet::one(index),
            counters,
            load: Arc::default(),
        })
    }

    /// Creates the driver of a lane with an empty queue.
    fn lane_driver(
        &self,
        component: SinkComponent<'_>,
        sink: &NewSink,
        lane: LaneIndex,
    ) -> LaneDriver {
        let resources = self.old.resources();
        LaneDriver {
            kind: component.kind,
            sink_id: component.id.clone(),
            lane,
            sink: sink.sink.clone(),
            queue: self.lane_queue(sink.disk.as_ref()),
            counters: component.counters.clone(),
            state_bytes: sink.sink.state_bytes_min() + self.shares.state_bytes,
            store: resources.store.clone(),
            clock: resources.clock,
            feed: sink.feed.clone(),
            pressure: resources.memory.pressure(),
            after: sink.after.clone(),
        }
    }

    /// Creates a queue that wakes the sources and the disk buffer when it has capacity.
    fn lane_queue(&self, disk: Option<&Arc<DiskBuffer>>) -> Arc<LaneQueue> {
        let scheduler = Arc::downgrade(&self.old.resources().scheduler);
        let disk = disk.map(Arc::downgrade);
        LaneQueue::new(move || {
            wake_for_room(&scheduler);
            if let Some(disk) = disk.as_ref().and_then(Weak::upgrade) {
                disk.on_left();
            }
        })
    }
}
