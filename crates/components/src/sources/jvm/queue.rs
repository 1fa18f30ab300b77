//! The queue between a collector and its source: at most one block of events.

use millstream_jvm::{Chunk, CollectedEvent, Deliver, Taken};
use millstream_model::limits::BLOCK_BYTES;
use millstream_model::{Counters, Wake};
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

/// The chunks that the source has not finished reading. The collector waits while they fill a
/// block.
#[derive(Default)]
pub struct Queue {
    state: Mutex<State>,
    reader: OnceLock<Reader>,
}

/// The source that reads from a queue.
pub struct Reader {
    /// Id of the source.
    pub id: String,
    /// Function that wakes the source.
    pub wake: Wake,
    /// Counters of the source.
    pub counters: Arc<Counters>,
}

#[derive(Default)]
struct State {
    chunks: VecDeque<Chunk>,
    /// Total bytes of `chunks` and of the chunk that the source is reading.
    bytes: usize,
    /// The chunk for which there is no space yet.
    waiting: Option<(Chunk, Taken)>,
    is_paused: bool,
    is_stopped: bool,
}

impl State {
    /// Returns whether there is space for the waiting chunk. A chunk larger than a block is
    /// accepted only into an empty queue.
    fn has_room(&self) -> bool {
        let bytes = self.waiting.as_ref().map_or(0, |(chunk, _)| chunk.bytes());
        !self.is_paused && (self.bytes == 0 || self.bytes.saturating_add(bytes) <= BLOCK_BYTES)
    }

    fn push(&mut self, chunk: Chunk) {
        if chunk.bytes() > 0 {
            self.bytes += chunk.bytes();
            self.chunks.push_back(chunk);
        }
    }
}

impl Queue {
    /// Sets the source. Must be called before the collector is called.
    pub fn set_reader(&self, reader: Reader) {
        // A queue has only one source, so this cannot fail.
        _ = self.reader.set(reader);
    }

    /// Pauses or resumes the collector.
    pub fn pause(&self, is_paused: bool) {
        let mut state = self.state.lock();
        state.is_paused = is_paused;
        self.settle(state);
    }

    /// Rejects the waiting chunk and all later ones, which tells the collector to stop.
    pub fn stop(&self) {
        let mut state = self.state.lock();
        state.is_stopped = true;
        self.settle(state);
    }

    /// Returns whether all received chunks were read.
    pub fn is_empty(&self) -> bool {
        self.state.lock().bytes == 0
    }

    /// Returns the next chunk. The chunk counts toward the limit until [`Queue::give_back`].
    fn next(&self) -> Option<Chunk> {
        self.state.lock().chunks.pop_front()
    }

    /// Removes a chunk of this size from the count, and accepts the waiting chunk if it now fits.
    fn give_back(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.bytes -= bytes;
        self.settle(state);
    }

    /// Accepts the waiting chunk if there is space, or rejects it if the collector must stop.
    fn settle(&self, mut state: MutexGuard<'_, State>) {
        let is_taken = !state.is_stopped;
        if is_taken && !state.has_room() {
            return;
        }
        let Some((chunk, taken)) = state.waiting.take() else { return };
        if is_taken {
            state.push(chunk);
        }
        drop(state);
        if is_taken {
            self.wake();
        }
        taken(is_taken);
    }

    fn wake(&self) {
        if let Some(reader) = self.reader.get() {
            (reader.wake)();
        }
    }
}

impl Deliver for Queue {
    fn offer(&self, chunk: Chunk, taken: Taken) {
        let mut state = self.state.lock();
        state.waiting = Some((chunk, taken));
        self.settle(state);
    }

    fn refused(&self, events: u64, reason: &str) {
        let Some(reader) = self.reader.get() else { return };
        reader.counters.error("invalid");
        reader.counters.dropped("invalid", events);
        log::error!("source {}: {events} events were rejected: {reason}", reader.id);
    }
}

/// The reading end of a queue.
pub struct Inbox {
    queue: Arc<Queue>,
    /// The chunk that is being read, and the offset of the next event in the chunk.
    current: Option<(Chunk, usize)>,
}

impl Inbox {
    /// Creates the reading end of a queue.
    pub fn new(queue: Arc<Queue>) -> Inbox {
        Inbox { queue, current: None }
    }

    /// Returns the next event. The event stays next until [`Inbox::advance`].
    pub fn peek(&mut self) -> Option<CollectedEvent<'_>> {
        if self.current.is_none() {
            self.current = self.queue.next().map(|chunk| (chunk, 0));
        }
        let (chunk, at) = self.current.as_ref()?;
        chunk.event_at(*at).map(|(event, _)| event)
    }

    /// Moves to the next event.
    pub fn advance(&mut self) {
        let Some((chunk, at)) = &mut self.current else { return };
        match chunk.event_at(*at) {
            Some((_, next)) if next < chunk.bytes() => *at = next,
            _ => {
                self.queue.give_back(chunk.bytes());
                self.current = None;
            }
        }
    }
}

#[cfg(test)]
mod tests;
