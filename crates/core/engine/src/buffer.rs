//! The buffer in front of a sink: its size, and its behavior when it is full.

use millstream_model::Counters;

/// Handling of events for a sink whose buffer is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// The events stay in the source, which stops reading for this sink.
    #[default]
    Block,
    /// New events are dropped and counted.
    DropNewest,
    /// The oldest events are dropped and counted.
    DropOldest,
}

/// The buffer in front of a sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffer {
    /// Size in memory, in bytes; the engine's default if `None`.
    pub bytes_max: Option<u64>,
    /// Behavior when the buffer is full.
    pub when_full: WhenFull,
    /// The part on disk, if there is one.
    pub disk: Option<DiskOptions>,
}

/// The part of a buffer that is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskOptions {
    /// Size in bytes.
    pub bytes_max: u64,
    /// Which events are written to the disk buffer.
    pub mode: DiskMode,
    /// Maximum bytes per second that are read back from disk.
    pub replay_rate: Option<u64>,
}

/// Which events are written to a disk buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskMode {
    /// Events that the memory queue cannot take, from sources that cannot reread them.
    #[default]
    Overflow,
    /// All events, before they are sent.
    Always,
}

/// Maximum size of a segment in bytes, and minimum number of segments in a buffer.
const SEGMENT_BYTES_MAX: u64 = 64 << 20;
const SEGMENTS_MIN: u64 = 8;

impl Buffer {
    /// Registers the drop reasons, so that the metrics show them from the start.
    pub(crate) fn announce(self, counters: &Counters) {
        if self.when_full != WhenFull::Block {
            counters.register_drop_reasons(&["buffer_full"]);
        }
    }

    /// Returns the size of the segments on disk in bytes. Each segment is small compared with the
    /// buffer, because the oldest segment is dropped as a whole.
    pub(crate) fn segment_bytes(self) -> u64 {
        let bytes_max = self.disk.map_or(SEGMENT_BYTES_MAX, |disk| disk.bytes_max);
        (bytes_max / SEGMENTS_MIN).clamp(1 << 20, SEGMENT_BYTES_MAX)
    }

    /// Returns the maximum bytes that may queue. `bytes` is the memory available for each sink, and
    /// `default_max` is the limit for a sink without a configured size.
    pub(crate) fn share(self, bytes: u64, default_max: u64) -> u64 {
        self.bytes_max.unwrap_or(bytes.min(default_max))
    }
}
