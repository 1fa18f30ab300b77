use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Time limit for actions that should happen immediately on another thread.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time after which a thread that has made no progress is considered to be waiting.
const WATCH: Duration = Duration::from_millis(50);

/// Returns a chunk of events with strings of these lengths.
fn chunk(lengths: &[usize]) -> Chunk {
    let mut bytes = Vec::new();
    for len in lengths {
        bytes.extend_from_slice(&i64::MIN.to_le_bytes());
        bytes.extend_from_slice(&(*len as u32).to_le_bytes());
        bytes.extend_from_slice(&0u32.to_le_bytes());
        bytes.resize(bytes.len() + len, b'x');
    }
    Chunk::new(bytes, lengths.len() as i64).unwrap()
}

/// Delivers a chunk, and waits for the result. Returns whether it was accepted.
fn deliver(queue: &Queue, chunk: Chunk) -> bool {
    let (answer, taken) = channel();
    queue.offer(chunk, Box::new(move |is_taken| answer.send(is_taken).unwrap()));
    taken.recv().unwrap()
}

/// Delivers chunks on another thread. The returned receiver yields the result for each chunk.
fn delivering(queue: &Arc<Queue>, chunks: Vec<Chunk>) -> std::sync::mpsc::Receiver<bool> {
    let (results, received) = channel();
    let queue = Arc::clone(queue);
    thread::spawn(move || {
        for chunk in chunks {
            let _ = results.send(deliver(&queue, chunk));
        }
    });
    received
}

fn read(inbox: &mut Inbox) -> Vec<usize> {
    let mut lengths = Vec::new();
    while let Some(event) = inbox.peek() {
        lengths.push(event.message.len());
        inbox.advance();
    }
    lengths
}

#[test]
fn events_come_in_their_order() {
    let queue = Arc::new(Queue::default());
    let mut inbox = Inbox::new(Arc::clone(&queue));
    assert!(queue.is_empty() && inbox.peek().is_none());
    assert!([&[1, 2][..], &[], &[3]].iter().all(|lengths| deliver(&queue, chunk(lengths))));
    assert!(!queue.is_empty());
    assert_eq!(read(&mut inbox), [1, 2, 3]);
    assert!(queue.is_empty());
}

#[test]
fn a_collector_waits_until_the_source_has_used_up_a_chunk() {
    let queue = Arc::new(Queue::default());
    let mut inbox = Inbox::new(Arc::clone(&queue));
    let half = BLOCK_BYTES / 2;
    let results = delivering(&queue, vec![chunk(&[half, 0]), chunk(&[half])]);
    assert_eq!(results.recv_timeout(PATIENCE), Ok(true));
    assert_eq!(inbox.peek().unwrap().message.len(), half);
    assert_eq!(results.recv_timeout(WATCH), Err(RecvTimeoutError::Timeout));
    inbox.advance();
    assert_eq!(results.recv_timeout(WATCH), Err(RecvTimeoutError::Timeout), "an event is left");
    inbox.advance();
    assert_eq!(results.recv_timeout(PATIENCE), Ok(true));
    assert_eq!(read(&mut inbox), [half]);
}

#[test]
fn a_chunk_larger_than_a_block_comes_alone() {
    let queue = Arc::new(Queue::default());
    let large = 3 * BLOCK_BYTES;
    let results = delivering(&queue, vec![chunk(&[large]), chunk(&[1])]);
    assert_eq!(results.recv_timeout(PATIENCE), Ok(true));
    assert_eq!(results.recv_timeout(WATCH), Err(RecvTimeoutError::Timeout));
    assert_eq!(read(&mut Inbox::new(Arc::clone(&queue))), [large, 1]);
    assert_eq!(results.recv_timeout(PATIENCE), Ok(true));
}

#[test]
fn a_stop_ends_the_wait_and_keeps_what_came() {
    let queue = Arc::new(Queue::default());
    let results = delivering(&queue, vec![chunk(&[BLOCK_BYTES]), chunk(&[1]), chunk(&[2])]);
    assert_eq!(results.recv_timeout(PATIENCE), Ok(true));
    assert_eq!(results.recv_timeout(WATCH), Err(RecvTimeoutError::Timeout));
    queue.stop();
    assert_eq!(results.recv_timeout(PATIENCE), Ok(false));
    assert_eq!(results.recv_timeout(PATIENCE), Ok(false));
    assert!(!deliver(&queue, chunk(&[3])));
    assert_eq!(read(&mut Inbox::new(queue)), [BLOCK_BYTES]);
}

#[test]
fn a_pause_holds_the_collector_back_until_it_ends() {
    let queue = Arc::new(Queue::default());
    queue.pause(true);
    let results = delivering(&queue, vec![chunk(&[1])]);
    assert_eq!(results.recv_timeout(WATCH), Err(RecvTimeoutError::Timeout));
    queue.pause(false);
    assert_eq!(results.recv_timeout(PATIENCE), Ok(true));
    queue.pause(true);
    let results = delivering(&queue, vec![chunk(&[1])]);
    queue.stop();
    assert_eq!(results.recv_timeout(PATIENCE), Ok(false));
}

#[test]
fn each_chunk_wakes_the_source_and_a_refused_one_is_counted() {
    let (queue, wakes) = (Queue::default(), Arc::new(AtomicUsize::new(0)));
    let counters = Arc::new(Counters::default());
    queue.refused(1, "without a source");
    let woken = Arc::clone(&wakes);
    let wake: Wake = Arc::new(move || {
        woken.fetch_add(1, Ordering::Relaxed);
    });
    queue.set_reader(Reader { id: "a".to_owned(), wake, counters: Arc::clone(&counters) });
    assert!(deliver(&queue, chunk(&[1])) && deliver(&queue, chunk(&[2])));
    assert_eq!(wakes.load(Ordering::Relaxed), 2);
    queue.refused(5, "as the test wants");
    let snapshot = counters.snapshot();
    assert_eq!((snapshot.dropped_events["invalid"], snapshot.errors["invalid"]), (5, 1));
}
