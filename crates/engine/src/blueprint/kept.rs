//! What a topology takes over from the one before: a reload.

use super::{Shared, SinkPart};
use crate::core::{Node, SourceSlot};
use crate::lane::LaneQueue;
use millstream_model::Kind;
use std::sync::Arc;

/// Whether a component goes on as it is, by kind and id.
pub(crate) type IsKept<'a> = dyn Fn(Kind, &str) -> bool + 'a;

/// Where the sinks of a blueprint are in sink sets.
pub(crate) struct SinkPlaces {
    /// Index of each sink, in the order of the blueprint.
    pub indices: Vec<usize>,
    /// For each, the lanes that must end before its own begin.
    pub after: Vec<Vec<Arc<LaneQueue>>>,
}

impl SinkPlaces {
    /// Of the sinks a start begins with.
    pub fn first(sinks: &[SinkPart]) -> SinkPlaces {
        SinkPlaces { indices: (0..sinks.len()).collect(), after: vec![Vec::new(); sinks.len()] }
    }
}

impl Shared<'_> {
    /// The node of a transform or sink that is kept.
    pub fn kept_node(&self, kind: Kind, id: &str) -> Option<Node> {
        let node = self.old.nodes.iter().find(|node| node.kind == kind && *node.id == *id);
        node.filter(|_| (self.kept)(kind, id)).cloned()
    }

    /// The slot of a source that is kept.
    pub fn kept_source(&self, id: &str) -> Option<&SourceSlot> {
        let slot = self.old.sources.iter().find(|slot| *slot.id == *id);
        slot.filter(|_| (self.kept)(Kind::Source, id))
    }
}
