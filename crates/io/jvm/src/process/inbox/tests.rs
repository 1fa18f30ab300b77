//! A child that violates the protocol.

use super::*;
use rustix::fd::AsFd;
use std::sync::mpsc::{Receiver, channel};

const PATIENCE: Duration = Duration::from_secs(60);

/// A queue that leaves every chunk unacknowledged until the test responds.
struct Queue {
    offers: parking_lot::Mutex<std::sync::mpsc::Sender<(usize, Taken)>>,
    refused: Mutex<Vec<(u64, String)>>,
}

impl Deliver for Queue {
    fn offer(&self, chunk: Chunk, taken: Taken) {
        self.offers.lock().send((chunk.events(), taken)).unwrap();
    }

    fn refused(&self, events: u64, reason: &str) {
        self.refused.lock().push((events, reason.to_owned()));
    }
}

/// A child that sends data determined by the test. The id of its collector is 3.
struct Fake {
    child: Channel,
    body: Arc<Body>,
    inbox: Arc<Inbox>,
    queue: Arc<Queue>,
    offers: Receiver<(usize, Taken)>,
}

impl Fake {
    fn new() -> Fake {
        let (own, other) = Channel::pair().unwrap();
        let body = Arc::new(Body::of_test());
        let inbox = Inbox::open(own, Arc::clone(&body)).unwrap();
        let (offers, received) = channel();
        let queue = Arc::new(Queue { offers: Mutex::new(offers), refused: Mutex::default() });
        inbox.add(3, queue.clone());
        Fake { child: Channel::of(other), body, inbox, queue, offers: received }
    }

    fn send(&self, kind: Kind, id: i64, events: i64, payload: Vec<u8>) {
        let frame = Frame { offset: events, payload, ..Frame::new(kind, id) };
        self.child.send(&frame, None, Patience::ENDLESS).unwrap();
    }

    /// Sends a chunk with one event without text.
    fn chunk(&self) {
        self.send(Kind::Chunk, 3, 1, vec![0; 16]);
    }

    fn answer(&self) -> (Kind, i64) {
        let until = Some(Instant::now() + PATIENCE);
        let (answer, _) = self.child.receive(Patience { until, is_over: None }).unwrap();
        (answer.kind, answer.subject)
    }

    fn is_silent(&self) -> bool {
        let until = Some(Instant::now() + Duration::from_millis(50));
        matches!(self.child.receive(Patience { until, is_over: None }), Err(Broken::Late))
    }

    /// Waits until the child has been stopped, and returns the reason.
    fn reason(&self) -> String {
        self.body.wait().to_string()
    }
}

#[test]
fn a_chunk_is_answered_once_it_is_taken() {
    let fake = Fake::new();
    for is_taken in [true, false] {
        fake.chunk();
        let (events, taken) = fake.offers.recv_timeout(PATIENCE).unwrap();
        assert!(events == 1 && fake.is_silent());
        taken(is_taken);
        let kind = if is_taken { Kind::Taken } else { Kind::Stopping };
        assert_eq!(fake.answer(), (kind, 3));
    }
    fake.send(Kind::Chunk, 4, 1, vec![0; 16]);
    assert_eq!(fake.answer(), (Kind::Stopping, 4), "a collector that is not called");
    fake.send(Kind::Stopped, 3, 0, vec![]);
    fake.chunk();
    assert_eq!(fake.answer(), (Kind::Stopping, 3), "one that has stopped");
    assert_eq!(Arc::strong_count(&fake.queue), 1);
}

#[test]
fn a_chunk_that_is_invalid_is_refused_and_counted() {
    let fake = Fake::new();
    for (events, bytes) in [(2, 16), (-1, 16), (1, 15), (i64::MAX, 0)] {
        fake.send(Kind::Chunk, 3, events, vec![0; bytes]);
        assert_eq!(fake.answer(), (Kind::Taken, 3));
    }
    let refused: Vec<u64> = fake.queue.refused.lock().iter().map(|(events, _)| *events).collect();
    assert_eq!(refused, [2, 0, 1, i64::MAX as u64]);
}

#[test]
fn a_child_that_does_not_wait_for_answers_is_ended() {
    let fake = Fake::new();
    fake.chunk();
    fake.chunk();
    let reason = fake.reason();
    assert!(reason.contains("a chunk before the response"), "{reason}");
}

#[test]
fn frames_that_make_no_sense_end_the_child() {
    for (kind, id) in [(Kind::Call, 3), (Kind::Taken, 3), (Kind::Chunk, i64::MAX)] {
        let fake = Fake::new();
        fake.send(kind, id, 0, vec![]);
        let reason = fake.reason();
        assert!(reason.contains("the agent killed it because it sent a"), "{reason}");
    }
    let fake = Fake::new();
    rustix::io::write(fake.child.as_fd(), &[0xff; 32]).unwrap();
    assert!(fake.reason().contains("unknown kind"));
}

#[test]
fn a_child_without_a_connection_is_ended_and_its_collectors_are_let_go() {
    let Fake { child, body, queue, inbox, .. } = Fake::new();
    drop(child);
    assert!(body.wait().to_string().contains("the end of a connection"));
    let begin = Instant::now();
    while Arc::strong_count(&queue) > 1 {
        assert!(begin.elapsed() < PATIENCE);
        thread::yield_now();
    }
    drop(inbox);
}

#[test]
fn a_child_that_reads_no_answers_is_ended() {
    let fake = Fake::new();
    let begin = Instant::now();
    while !fake.body.has_killed() {
        fake.inbox.answers.send(3, true);
        assert!(begin.elapsed() < PATIENCE);
    }
    assert!(fake.reason().contains("did not respond"));
}
