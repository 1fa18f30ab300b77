//! The queue of fetched records between a thread and the source, limited in bytes.

use super::partition::Partition;
use millstream_kafka::Fetched;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Number of queued bytes at which the thread stops taking records. The limit is a few blocks, so
/// that the engine's workers need not wait for the thread.
const WAITING_BYTES_MAX: u64 = 1 << 20;

/// Records that were fetched together.
pub struct Chunk {
    /// Records of the chunk.
    pub fetched: Fetched,
    /// Parts of the chunk, in order.
    pub parts: VecDeque<Part>,
    /// Number of bytes that count toward the queue's limit: the values and the keys.
    pub bytes: u64,
}

/// A part of a chunk.
pub enum Part {
    /// Consecutive records of a partition, by their indexes in the chunk.
    Records(Arc<Partition>, Range<usize>),
    /// All records of a partition before this offset were passed on, and the offset is the end.
    End(Arc<Partition>, u64),
    /// The next records of a partition, up to this offset, were deleted before they were read.
    Lost(Arc<Partition>, u64),
}

impl Part {
    /// Returns the partition of the part.
    pub fn partition(&self) -> &Arc<Partition> {
        match self {
            Part::Records(partition, _) | Part::End(partition, _) | Part::Lost(partition, _) => {
                partition
            }
        }
    }
}

/// Returns the number of bytes that a record adds to a chunk.
pub fn record_bytes(fetched: &Fetched, index: usize) -> u64 {
    let record = fetched.get(index);
    (record.value().map_or(0, <[u8]>::len) + record.key().map_or(0, <[u8]>::len)) as u64
}

/// A queue of chunks.
#[derive(Default)]
pub struct Inbox {
    state: Mutex<(VecDeque<Chunk>, u64)>,
    has_room: Condvar,
}

impl Inbox {
    /// Waits up to `timeout` for space. Returns whether there is space.
    pub fn wait_for_room(&self, timeout: Duration) -> bool {
        let mut state = self.state.lock();
        if state.1 >= WAITING_BYTES_MAX {
            self.has_room.wait_for(&mut state, timeout);
        }
        state.1 < WAITING_BYTES_MAX
    }

    /// Appends a chunk.
    pub fn push(&self, chunk: Chunk) {
        let mut state = self.state.lock();
        state.1 += chunk.bytes;
        state.0.push_back(chunk);
    }

    /// Takes the next chunk.
    pub fn pop(&self) -> Option<Chunk> {
        let mut state = self.state.lock();
        let chunk = state.0.pop_front()?;
        state.1 -= chunk.bytes;
        self.has_room.notify_one();
        Some(chunk)
    }

    /// Returns whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.state.lock().0.is_empty()
    }

    /// Drops all chunks.
    pub fn clear(&self) {
        // Drop the chunks without the lock, because this frees memory of the library.
        let chunks = std::mem::take(&mut *self.state.lock());
        drop(chunks);
        self.has_room.notify_one();
    }
}
