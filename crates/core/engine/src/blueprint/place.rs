//! The state that a sink takes over from the previous topology.

use crate::disk_buffer::DiskBuffer;
use crate::lane::LaneQueue;
use millstream_model::SinkIndex;
use std::sync::Arc;

/// The state that a sink in the next topology takes over.
pub(crate) struct SinkPlace {
    /// Index in sink sets.
    pub index: SinkIndex,
    /// Lanes that must end before this sink's lanes begin.
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
