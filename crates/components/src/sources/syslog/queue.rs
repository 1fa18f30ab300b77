//! Queue of messages from the receiver threads to the source.
//!
//! Messages are collected in chunks, each of which becomes a batch. A receiver thread waits while
//! the queue is full, and reads nothing in the meantime, so that senders over streams wait as well.

use millstream_model::Wake;
use millstream_model::limits::{BATCH_ROWS_MAX, BLOCK_BYTES};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Maximum number of chunks that wait.
const CHUNKS_MAX: usize = 4;

/// Maximum number of empty chunks that are kept for reuse.
const SPARE_MAX: usize = 2;

/// How long a chunk may collect messages before it becomes a batch. With this pause, a few thousand
/// messages per second do not become a batch each.
const COLLECT_TIME: Duration = Duration::from_millis(10);

/// Index of the peer of a message that has none.
pub const NO_PEER: u32 = u32::MAX;

/// Maximum bytes of memory that the queue takes, if messages are not larger than `message_max`.
pub fn memory_bytes_max(message_max: u64) -> u64 {
    let chunk = message_max.max(BLOCK_BYTES as u64) + (BATCH_ROWS_MAX * size_of::<Row>()) as u64;
    chunk * (CHUNKS_MAX + SPARE_MAX + 1) as u64
}

/// A message in a chunk.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Position of the message in the text.
    pub start: u32,
    /// Length of the message in bytes.
    pub len: u32,
    /// Index of the sender among the peers, or [`NO_PEER`].
    pub peer: u32,
    /// Whether the end of the message is missing.
    pub is_truncated: bool,
}

/// Messages in order of arrival.
#[derive(Debug, Default)]
pub struct Chunk {
    /// The messages, each followed by a line feed, so that no two begin at the same position.
    pub text: Vec<u8>,
    /// The position of each message.
    pub rows: Vec<Row>,
    /// Addresses of the senders.
    pub peers: Vec<SocketAddr>,
    /// Index of each address in `peers`.
    indexes: HashMap<SocketAddr, u32>,
    /// When the first message arrived, in nanoseconds since 1970.
    pub received_ns: u64,
    /// When the first message arrived.
    begun: Option<Instant>,
}

impl Chunk {
    fn fits(&self, len: usize) -> bool {
        self.rows.len() < BATCH_ROWS_MAX
            && (self.rows.is_empty() || self.text.len() + len < BLOCK_BYTES)
    }

    fn push(&mut self, text: &[u8], address: Option<SocketAddr>, is_truncated: bool) {
        let peer = address.map_or(NO_PEER, |address| self.peer(address));
        let row = Row { start: self.text.len() as u32, len: text.len() as u32, peer, is_truncated };
        self.text.extend_from_slice(text);
        self.text.push(b'\n');
        self.rows.push(row);
    }

    fn peer(&mut self, address: SocketAddr) -> u32 {
        if let Some(last) = self.rows.last().map(|row| row.peer)
            && self.peers.get(last as usize) == Some(&address)
        {
            return last;
        }
        let next = self.peers.len() as u32;
        let index = *self.indexes.entry(address).or_insert(next);
        if index == next {
            self.peers.push(address);
        }
        index
    }

    fn clear(&mut self) {
        self.text.clear();
        self.rows.clear();
        self.peers.clear();
        self.indexes.clear();
        self.begun = None;
    }
}

/// What the queue has for the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// A chunk with this many bytes.
    Chunk(usize),
    /// A chunk that collects more messages for this time.
    Later(Duration),
    /// Nothing.
    Nothing,
}

/// The queue.
pub struct Queue {
    state: Mutex<State>,
    /// Notified when there is room, and when the queue is closed.
    room: Condvar,
    wake: Wake,
}

#[derive(Default)]
struct State {
    chunks: VecDeque<Chunk>,
    spare: Vec<Chunk>,
    is_closed: bool,
}

impl Queue {
    /// Creates an empty queue. `wake` wakes the source.
    pub fn new(wake: Wake) -> Queue {
        Queue { state: Mutex::default(), room: Condvar::new(), wake }
    }

    /// Begins to add messages that arrived at `received_ns`.
    pub fn begin(&self, received_ns: u64) -> Adding<'_> {
        let state = self.state.lock();
        let was_empty = state.chunks.is_empty();
        let is_due = was_empty;
        Adding { queue: self, state: Some(state), now: Instant::now(), received_ns, is_due }
    }

    /// Returns what the source can take. With `all`, a chunk does not wait for more messages.
    pub fn waiting(&self, all: bool) -> Waiting {
        let state = self.state.lock();
        let Some(first) = state.chunks.front() else { return Waiting::Nothing };
        let age = first.begun.map_or(COLLECT_TIME, |begun| begun.elapsed());
        match all || state.chunks.len() > 1 || age >= COLLECT_TIME {
            true => Waiting::Chunk(first.text.len()),
            false => Waiting::Later(COLLECT_TIME - age),
        }
    }

    /// Takes the first chunk.
    pub fn take(&self) -> Option<Chunk> {
        let chunk = self.state.lock().chunks.pop_front();
        self.room.notify_all();
        chunk
    }

    /// Returns a chunk for reuse.
    pub fn give_back(&self, mut chunk: Chunk) {
        chunk.clear();
        let mut state = self.state.lock();
        if state.spare.len() < SPARE_MAX && chunk.text.capacity() <= 2 * BLOCK_BYTES {
            state.spare.push(chunk);
        }
    }

    /// Makes the receiver threads drop all further messages instead of waiting. Returns the number
    /// of messages that were not taken.
    pub fn close(&self) -> u64 {
        let mut state = self.state.lock();
        state.is_closed = true;
        let left = state.chunks.drain(..).map(|chunk| chunk.rows.len() as u64).sum();
        drop(state);
        self.room.notify_all();
        left
    }
}

/// Adds the messages of one receive round. Wakes the source at the end if necessary.
pub struct Adding<'a> {
    queue: &'a Queue,
    state: Option<MutexGuard<'a, State>>,
    now: Instant,
    received_ns: u64,
    /// Whether the source must be woken.
    is_due: bool,
}

impl Adding<'_> {
    /// Adds a message; waits for room if the queue is full. Returns `false` if the queue is closed.
    pub fn push(&mut self, text: &[u8], address: Option<SocketAddr>, is_truncated: bool) -> bool {
        let Some(state) = &mut self.state else { return false };
        if !state.chunks.back().is_some_and(|chunk| chunk.fits(text.len())) {
            self.is_due |= !state.chunks.is_empty();
            if state.chunks.len() >= CHUNKS_MAX {
                (self.queue.wake)();
                let is_full =
                    |state: &mut State| state.chunks.len() >= CHUNKS_MAX && !state.is_closed;
                self.queue.room.wait_while(state, is_full);
                self.now = Instant::now();
            }
            let mut chunk = state.spare.pop().unwrap_or_default();
            (chunk.received_ns, chunk.begun) = (self.received_ns, Some(self.now));
            state.chunks.push_back(chunk);
        }
        if state.is_closed {
            state.chunks.clear();
            return false;
        }
        if let Some(chunk) = state.chunks.back_mut() {
            chunk.push(text, address, is_truncated);
        }
        true
    }
}

impl Drop for Adding<'_> {
    fn drop(&mut self) {
        let is_empty = self.state.as_ref().is_none_or(|state| state.chunks.is_empty());
        self.state = None;
        if self.is_due && !is_empty {
            (self.queue.wake)();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    fn queue() -> (Arc<Queue>, Arc<AtomicUsize>) {
        let woken = Arc::new(AtomicUsize::new(0));
        let count = woken.clone();
        (Arc::new(Queue::new(Arc::new(move || _ = count.fetch_add(1, SeqCst)))), woken)
    }

    #[test]
    fn a_chunk_collects_messages_with_their_peers() {
        let (queue, woken) = queue();
        let [a, b] = [1, 2].map(|port| Some(SocketAddr::from(([192, 0, 2, 1], port))));
        assert_eq!(queue.waiting(true), Waiting::Nothing);
        let mut adding = queue.begin(7);
        for (text, peer) in [("one", a), ("two", b), ("three", a), ("four", None)] {
            assert!(adding.push(text.as_bytes(), peer, text == "two"));
        }
        drop(adding);
        drop(queue.begin(8));
        assert_eq!(woken.load(SeqCst), 1);
        assert!(matches!(queue.waiting(false), Waiting::Later(_)));
        assert_eq!(queue.waiting(true), Waiting::Chunk(19));
        let chunk = queue.take().unwrap();
        let peers: Vec<u32> = chunk.rows.iter().map(|row| row.peer).collect();
        assert_eq!(
            (peers, &chunk.text[..]),
            (vec![0, 1, 0, NO_PEER], &b"one\ntwo\nthree\nfour\n"[..])
        );
        assert_eq!((chunk.received_ns, chunk.rows[1].is_truncated), (7, true));
        queue.give_back(chunk);
        assert!(queue.begin(9).push(b"five", b, false));
        let chunk = queue.take().unwrap();
        assert_eq!((chunk.peers, chunk.received_ns), (vec![b.unwrap()], 9));
    }

    #[test]
    fn a_full_queue_makes_the_receiver_wait() {
        let (queue, _) = queue();
        let (sender, text) = (queue.clone(), vec![b'x'; BLOCK_BYTES / 2]);
        let added = Arc::new(AtomicUsize::new(0));
        let count = added.clone();
        let thread = std::thread::spawn(move || {
            while sender.begin(0).push(&text, None, false) {
                count.fetch_add(1, SeqCst);
            }
        });
        let wait_for = |n: usize| {
            while added.load(SeqCst) < n {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(added.load(SeqCst), n);
        };
        wait_for(CHUNKS_MAX);
        assert_eq!(queue.take().unwrap().rows.len(), 1);
        wait_for(CHUNKS_MAX + 1);
        assert_eq!(queue.close(), CHUNKS_MAX as u64);
        thread.join().unwrap();
    }
}
