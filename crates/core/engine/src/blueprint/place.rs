//! The place of a sink: its index and the state that it takes over from the previous topology.

use crate::disk_buffer::DiskBuffer;
use crate::lane::LaneQueue;
use millstream_model::SinkIndex;
use std::sync::Arc;

/// The index of a sink, and the state that the sink takes over from the previous topology.
pub(crate) struct SinkPlace {
    /// The sink's index in a [`SinkSet`](millstream_model::SinkSet).
    pub index: SinkIndex,
    /// Lanes of previous sinks that must end before this sink's lanes begin.
    pub after: Vec<Arc<LaneQueue>>,
    /// The disk buffer that the sink takes over.
    pub disk: Option<Arc<DiskBuffer>>,
}

impl SinkPlace {
    /// Returns the places of `sinks` sinks at the first start.
    pub fn first(sinks: usize) -> Vec<SinkPlace> {
        let place = |index| SinkPlace { index, after: Vec::new(), disk: None };
        SinkIndex::all().take(sinks).map(place).collect()
    }
}
