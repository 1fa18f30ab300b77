//! Checks that recording never allocates, in every state of the recorder.

use millstream_recorder::record::{self, Subject};
use millstream_recorder::recorder::{self, Destination};
use millstream_recorder::schema::EventKind;
use millstream_recorder::snapshot::{SlotCounts, Snapshot};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

/// Counts the bytes that the current thread allocates.
struct Counting;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: all calls are forwarded unchanged to the system allocator, and the counter does not
// allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.set(BYTES.get() + layout.size());
        // SAFETY: the caller upholds the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Number of events, which is more than fit into all chunks.
const EVENTS: usize = 200_000;

/// Returns the number of bytes allocated while recording events of many types.
fn allocated(peer: &Subject, component: &Subject) -> usize {
    let before = BYTES.get();
    for bytes in 0..EVENTS {
        record::socket_write(recorder::start(EventKind::SocketWrite), peer, bytes);
        record::batch_stage(recorder::start(EventKind::BatchStage), component, 7, bytes);
        let timer = recorder::start(EventKind::JvmCall);
        record::jvm_call(timer, component, 7, bytes, "answered");
        record::dropped(component, "too_long", 1);
        record::retry(component, "refused", 503, 3, Duration::from_secs(1));
    }
    BYTES.get() - before
}

#[test]
fn events_allocate_nothing() {
    let peer = Subject::peer("search.example", "127.0.0.1:9200".parse().unwrap());
    let component = Subject::component("out");
    assert_eq!(allocated(&peer, &component), 0, "recorder off");
    let mut settings = recorder::defaults();
    recorder::start_run(&Destination::Memory, 1 << 20, &settings).unwrap();
    // The first events store the names, and register a destructor for the thread.
    allocated(&peer, &component);
    assert_eq!(allocated(&peer, &component), 0, "on");
    for settings in &mut settings {
        settings.threshold = Duration::from_secs(3600);
    }
    recorder::set(&settings);
    assert_eq!(allocated(&peer, &component), 0, "below the threshold");
    for settings in &mut settings {
        settings.enabled = false;
    }
    recorder::set(&settings);
    assert_eq!(allocated(&peer, &component), 0, "off");
    let snapshot = Snapshot::parse(&recorder::copy(&SlotCounts::new()).unwrap()).unwrap();
    assert!(snapshot.over_rate(EventKind::Drop) > 0);
    assert_eq!(snapshot.without_space(), 0);
}
