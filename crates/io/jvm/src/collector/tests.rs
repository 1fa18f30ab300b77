use super::*;
use std::ptr::null_mut;

/// Accepts every chunk until it is closed.
#[derive(Default)]
struct Inbox {
    messages: Mutex<Vec<String>>,
    refused: Mutex<Vec<(u64, String)>>,
    is_closed: AtomicBool,
    does_panic: AtomicBool,
}

impl Deliver for Inbox {
    fn offer(&self, chunk: Chunk, taken: Taken) {
        assert!(!self.does_panic.load(Ordering::Relaxed), "as the test wants");
        let is_open = !self.is_closed.load(Ordering::Relaxed);
        if is_open {
            let (event, _) = chunk.event_at(0).unwrap();
            self.messages.lock().push(String::from_utf8(event.message.to_vec()).unwrap());
        }
        taken(is_open);
    }

    fn refused(&self, events: u64, reason: &str) {
        self.refused.lock().push((events, reason.to_owned()));
    }
}

/// Adds a receiver to an inbox; returns its handle.
fn add(inbox: &Arc<Inbox>) -> i64 {
    RECEIVERS.lock().add(Arc::new(Inside(inbox.clone())))
}

/// Returns an event without fields.
fn event(message: &str) -> Vec<u8> {
    let mut bytes = 7i64.to_le_bytes().to_vec();
    bytes.extend_from_slice(&(message.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&0u32.to_le_bytes());
    bytes.extend_from_slice(message.as_bytes());
    bytes
}

fn send(handle: i64, chunk: &[u8], events: i32) -> i32 {
    let address = chunk.as_ptr().expose_provenance() as i64;
    deliver(null_mut(), null_mut(), handle, address, chunk.len() as i64, events)
}

#[test]
fn a_chunk_goes_to_the_receiver_of_its_handle() {
    let (one, other) = (Arc::new(Inbox::default()), Arc::new(Inbox::default()));
    let first = add(&one);
    let second = add(&other);
    assert_ne!(first, second);
    assert_eq!(send(first, &event("for one"), 1), TAKEN);
    assert_eq!(send(second, &event("for the other"), 1), TAKEN);
    assert_eq!(*one.messages.lock(), ["for one"]);
    assert_eq!(*other.messages.lock(), ["for the other"]);
}

#[test]
fn a_receiver_is_let_go_once_and_its_handle_is_refused_afterwards() {
    let inbox = Arc::new(Inbox::default());
    let handle = add(&inbox);
    assert_eq!(Arc::strong_count(&inbox), 2);
    for _ in 0..2 {
        stopped(null_mut(), null_mut(), handle);
        assert_eq!(Arc::strong_count(&inbox), 1);
    }
    assert_eq!(send(handle, &event("late"), 1), STOPPING);
    assert_eq!(send(-1, &event("never"), 1), STOPPING);
    assert!(inbox.messages.lock().is_empty());
}

#[test]
fn a_chunk_that_is_invalid_is_counted_and_the_collector_continues() {
    let inbox = Arc::new(Inbox::default());
    let handle = add(&inbox);
    assert_eq!(send(handle, &event("x")[1..], 1), TAKEN);
    assert_eq!(send(handle, &event("x"), 2), TAKEN);
    assert_eq!(send(handle, &event("x"), -1), TAKEN);
    assert_eq!(deliver(null_mut(), null_mut(), handle, 0, -1, 1), TAKEN);
    assert_eq!(deliver(null_mut(), null_mut(), handle, 0, 8, 1), TAKEN);
    let refused: Vec<u64> = inbox.refused.lock().iter().map(|(events, _)| *events).collect();
    assert_eq!(refused, [1, 2, 0, 1, 1]);
    assert!(inbox.messages.lock().is_empty());
}

#[test]
fn a_receiver_that_is_closed_or_panics_stops_the_collector() {
    let inbox = Arc::new(Inbox::default());
    let handle = add(&inbox);
    inbox.is_closed.store(true, Ordering::Relaxed);
    assert_eq!(send(handle, &event("x"), 1), STOPPING);
    inbox.does_panic.store(true, Ordering::Relaxed);
    assert_eq!(send(handle, &event("x"), 1), STOPPING);
}

#[test]
fn stats_are_parsed() {
    let text = br#"{"threads_max":16,"threads":2,"collectors":[
        {"id":3,"component":"a","calls":5,"failures":1,"events":9,"missed":2,"running_ms":-1,
         "state":"waiting","last_failure":"java.io.IOException: no"},
        {"id":4,"component":"b","calls":1,"failures":0,"events":0,"missed":0,"running_ms":70,
         "state":"hangs","last_failure":null}]}"#;
    let stats: CollectorsStats = serde_json::from_slice(text).unwrap();
    let [one, other] = &stats.collectors[..] else { panic!("{stats:?}") };
    assert_eq!((one.id, one.calls, one.state), (3, 5, CollectorState::Waiting));
    assert_eq!(one.last_failure.as_deref(), Some("java.io.IOException: no"));
    assert_eq!((other.running_ms, other.state), (70, CollectorState::Hangs));
    for state in ["queued", "running", "blocked"] {
        let json = format!("\"{state}\"");
        assert!(serde_json::from_str::<CollectorState>(&json).is_ok(), "{state}");
    }
}
