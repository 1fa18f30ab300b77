//! Queue of messages from the receiver threads to the source.
//!
//! Messages are collected in chunks, each of which becomes a batch. A receiver thread waits while
//! the queue is full, and reads nothing in the meantime, so that senders over streams wait as well.
//!
//! If a reload replaces the source while a sink is down, the queue of the new source takes over the
//! messages that wait.

use millstream_model::Wake;
use millstream_model::limits::{BATCH_ROWS_MAX, BLOCK_BYTES};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
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

/// Maximum number of senders of a chunk. The limit bounds the memory if the address of each datagram
/// is forged.
const PEERS_MAX: usize = 1024;

/// Bytes of memory for a sender. A hash table has up to twice as many slots as entries.
const PEER_BYTES: usize = size_of::<SocketAddr>() + 2 * size_of::<(SocketAddr, u32)>();

/// Maximum bytes of memory that the queue takes, if messages are not larger than `message_max`.
pub fn memory_bytes_max(message_max: u64) -> u64 {
    let rest = BATCH_ROWS_MAX * size_of::<Row>() + PEERS_MAX * PEER_BYTES;
    let chunk = message_max.max(BLOCK_BYTES as u64) + rest as u64;
    chunk * (CHUNKS_MAX + SPARE_MAX + 1) as u64
}

/// The queues of this process with the ids of their sources, in order of creation.
static QUEUES: Mutex<Vec<(String, Weak<Queue>)>> = Mutex::new(Vec::new());

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
    /// When the message arrived, in nanoseconds since 1970. A chunk collects messages for hours if
    /// a sink is down and few messages arrive.
    pub received_ns: u64,
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
    /// When the first message arrived.
    begun: Option<Instant>,
}

impl Chunk {
    fn fits(&self, len: usize) -> bool {
        self.rows.len() < BATCH_ROWS_MAX
            && self.peers.len() < PEERS_MAX
            && (self.rows.is_empty() || self.text.len() + len < BLOCK_BYTES)
    }

    fn push(
        &mut self,
        text: &[u8],
        address: Option<SocketAddr>,
        is_truncated: bool,
        received_ns: u64,
    ) {
        let peer = address.map_or(NO_PEER, |address| self.peer(address));
        let (start, len) = (self.text.len() as u32, text.len() as u32);
        self.text.extend_from_slice(text);
        self.text.push(b'\n');
        self.rows.push(Row { start, len, peer, is_truncated, received_ns });
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
    /// Whether messages are added even if the queue is full.
    is_unbounded: bool,
}

impl Queue {
    /// Creates an empty queue of a source. `wake` wakes the source.
    pub fn new(source: &str, wake: Wake) -> Arc<Queue> {
        let queue = Arc::new(Queue { state: Mutex::default(), room: Condvar::new(), wake });
        let mut queues = QUEUES.lock();
        queues.retain(|(_, queue)| queue.strong_count() > 0);
        queues.push((source.to_owned(), Arc::downgrade(&queue)));
        queue
    }

    /// Begins to add messages that arrived at `received_ns`.
    pub fn begin(&self, received_ns: u64) -> Adding<'_> {
        let state = self.state.lock();
        let is_due = state.chunks.is_empty();
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

    /// Makes the receiver threads add the messages that they have read instead of waiting for room.
    /// The threads must then end.
    pub fn stop_waiting(&self) {
        self.state.lock().is_unbounded = true;
        self.room.notify_all();
    }

    /// Passes the messages that were not taken to the queue that a reload has created for the same
    /// source. Drops the messages if there is none, and returns their number.
    pub fn leave(&self) -> u64 {
        let chunks = std::mem::take(&mut self.state.lock().chunks);
        let Some(next) = self.successor() else {
            return chunks.iter().map(|chunk| chunk.rows.len() as u64).sum();
        };
        let mut state = next.state.lock();
        chunks.into_iter().rev().for_each(|chunk| state.chunks.push_front(chunk));
        0
    }

    /// Returns the last queue that was created for the same source after this one.
    fn successor(&self) -> Option<Arc<Queue>> {
        let queues = QUEUES.lock();
        let is_own = |(_, queue): &(String, Weak<Queue>)| std::ptr::eq(queue.as_ptr(), self);
        let own = queues.iter().position(is_own)?;
        let later = queues[own + 1..].iter().rev().filter(|(source, _)| *source == queues[own].0);
        later.filter_map(|(_, queue)| queue.upgrade()).next()
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
    /// Adds a message; waits for room if the queue is full.
    pub fn push(&mut self, text: &[u8], address: Option<SocketAddr>, is_truncated: bool) {
        let Some(state) = &mut self.state else { return };
        if !state.chunks.back().is_some_and(|chunk| chunk.fits(text.len())) {
            self.is_due |= !state.chunks.is_empty();
            if state.chunks.len() >= CHUNKS_MAX {
                (self.queue.wake)();
                let is_full =
                    |state: &mut State| state.chunks.len() >= CHUNKS_MAX && !state.is_unbounded;
                self.queue.room.wait_while(state, is_full);
                self.now = Instant::now();
            }
            let mut chunk = state.spare.pop().unwrap_or_default();
            chunk.begun = Some(self.now);
            state.chunks.push_back(chunk);
        }
        if let Some(chunk) = state.chunks.back_mut() {
            chunk.push(text, address, is_truncated, self.received_ns);
        }
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
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    fn queue() -> (Arc<Queue>, Arc<AtomicUsize>) {
        let woken = Arc::new(AtomicUsize::new(0));
        let count = woken.clone();
        (Queue::new("net", Arc::new(move || _ = count.fetch_add(1, SeqCst))), woken)
    }

    #[test]
    fn a_chunk_collects_messages_with_their_peers() {
        let (queue, woken) = queue();
        let [a, b] = [1, 2].map(|port| Some(SocketAddr::from(([192, 0, 2, 1], port))));
        assert_eq!(queue.waiting(true), Waiting::Nothing);
        let mut adding = queue.begin(7);
        for (text, peer) in [("one", a), ("two", b), ("three", a), ("four", None)] {
            adding.push(text.as_bytes(), peer, text == "two");
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
        assert!(chunk.rows[1].is_truncated && !chunk.rows[2].is_truncated);
        queue.give_back(chunk);
        queue.begin(9).push(b"five", b, false);
        queue.begin(1 << 60).push(b"six", b, false);
        let chunk = queue.take().unwrap();
        let times: Vec<u64> = chunk.rows.iter().map(|row| row.received_ns).collect();
        assert_eq!((chunk.peers, times), (vec![b.unwrap()], vec![9, 1 << 60]));
    }

    #[test]
    fn the_next_queue_of_a_source_takes_over_the_messages() {
        let (first, _) = queue();
        let other = Queue::new("other", Arc::new(|| ()));
        first.begin(0).push(b"one", None, false);
        let (second, _) = queue();
        second.begin(0).push(b"two", None, false);
        assert_eq!(first.leave(), 0);
        let texts = [second.take(), second.take()].map(|chunk| chunk.unwrap().text);
        assert_eq!(texts, [b"one\n", b"two\n"]);
        assert!(other.take().is_none());
        second.begin(0).push(b"three", None, false);
        assert_eq!((second.leave(), second.leave()), (1, 0), "there is no later queue");
        drop(first);
    }

    #[test]
    fn forged_addresses_are_spread_over_chunks() {
        let (queue, _) = queue();
        let mut adding = queue.begin(0);
        for port in 0..2 * PEERS_MAX as u16 {
            adding.push(b"x", Some(SocketAddr::from(([192, 0, 2, 1], port))), false);
        }
        drop(adding);
        let rows = [queue.take(), queue.take()].map(|chunk| chunk.unwrap().rows.len());
        assert_eq!((rows, queue.waiting(true)), ([PEERS_MAX; 2], Waiting::Nothing));
    }

    #[test]
    fn a_full_queue_makes_the_receiver_wait() {
        let (queue, _) = queue();
        let (sender, text) = (queue.clone(), vec![b'x'; BLOCK_BYTES / 2]);
        let added = Arc::new(AtomicUsize::new(0));
        let count = added.clone();
        let thread = std::thread::spawn(move || {
            for _ in 0..2 * CHUNKS_MAX {
                sender.begin(0).push(&text, None, false);
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
        queue.stop_waiting();
        thread.join().unwrap();
        assert_eq!(queue.leave(), 2 * CHUNKS_MAX as u64 - 1);
    }
}
