//! Runs chunks under a model checker, which tries every order of several threads' reads and writes
//! that the memory model allows.

use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;
use millstream_recorder::chunks::{Appender, Copied, HEADER_WORDS, OsThread, Pool, copy};
use millstream_recorder::word::Word;
use std::collections::BTreeSet;

/// A word of the model checker.
#[derive(Debug)]
struct Modeled(AtomicU64);

impl Word for Modeled {
    fn load(&self, ordering: Ordering) -> u64 {
        self.0.load(ordering)
    }

    fn store(&self, value: u64, ordering: Ordering) {
        self.0.store(value, ordering);
    }

    fn replace(&self, from: u64, to: u64) -> bool {
        self.0.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    fn fetch_add(&self, value: u64) -> u64 {
        self.0.fetch_add(value, Ordering::Relaxed)
    }

    fn fence(ordering: Ordering) {
        fence(ordering);
    }
}

/// Number of words in a chunk with a single slot, so that each event overwrites an older one.
const CHUNK_WORDS: usize = HEADER_WORDS + 4;

struct Memory {
    words: Vec<Modeled>,
    available: Modeled,
    cursor: Modeled,
    sequence: Modeled,
}

impl Memory {
    fn new(chunks: usize) -> Memory {
        let word = |value| Modeled(AtomicU64::new(value));
        let words = (0..chunks * CHUNK_WORDS).map(|_| word(0)).collect();
        Memory { words, available: word(chunks as u64), cursor: word(0), sequence: word(0) }
    }

    fn pool(&self) -> Pool<'_, Modeled> {
        let (available, cursor, sequence) = (&self.available, &self.cursor, &self.sequence);
        Pool { words: &self.words, chunk_words: CHUNK_WORDS, available, cursor, sequence }
    }

    /// Appends events from a thread, each with a distinct number in all of its words.
    fn append(&self, thread: u32, events: u64) {
        let appender = Appender::new();
        let os_thread = OsThread { os_id: thread, name: [thread as u8; 16] };
        for event in 1..=events {
            let number = u64::from(thread) * 100 + event;
            if appender.has_space(1) || appender.renew(&self.pool(), &os_thread) {
                appender.push(&[[number; 4]]);
            }
        }
        appender.release();
    }

    /// Copies all chunks, and checks that each slot is intact and belongs to the chunk's thread.
    fn read(&self) -> Vec<u64> {
        let mut found = Vec::new();
        for chunk in self.words.chunks(CHUNK_WORDS) {
            let Some(words) = copy(chunk, |_| 0) else { continue };
            let copied = Copied::of_words(&words).unwrap();
            let thread = copied.thread;
            assert_eq!(thread.name, [thread.os_id as u8; 16]);
            for slot in copied.slots() {
                assert!(slot.iter().all(|word| *word == slot[0]), "{slot:?}");
                assert_eq!(slot[0] / 100, u64::from(thread.os_id));
                found.push(slot[0]);
            }
        }
        found
    }
}

fn model(preemptions: usize, check: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(check);
}

#[test]
fn a_reader_sees_whole_events_while_a_thread_overwrites_them() {
    model(3, || {
        let memory = Arc::new(Memory::new(1));
        let writing = Arc::clone(&memory);
        let writer = thread::spawn(move || writing.append(1, 2));
        memory.read();
        writer.join().unwrap();
        assert_eq!(memory.read(), [102]);
    });
}

#[test]
fn threads_that_take_chunks_from_each_other_lose_no_event_that_has_space() {
    model(2, || {
        let memory = Arc::new(Memory::new(2));
        let writing = Arc::clone(&memory);
        let writer = thread::spawn(move || writing.append(1, 1));
        memory.append(2, 1);
        writer.join().unwrap();
        let found: BTreeSet<u64> = memory.read().into_iter().collect();
        assert_eq!(found, BTreeSet::from([101, 201]));
    });
}

#[test]
fn a_chunk_that_one_thread_gave_back_is_whole_for_the_next_one() {
    model(2, || {
        let memory = Arc::new(Memory::new(1));
        let writing = Arc::clone(&memory);
        let writer = thread::spawn(move || writing.append(1, 1));
        memory.append(2, 1);
        memory.read();
        writer.join().unwrap();
        let found = memory.read();
        assert!(found == [101] || found == [201], "{found:?}");
    });
}
