//! The heap under memory pressure.

use crate::support::{Batch, operator, options};
use millstream_jvm::{HeapSize, Jvm};
use std::time::{Duration, Instant};

/// Maximum time until a garbage collector returns memory. Some collectors return it on another
/// thread.
const RETURN_TIME: Duration = Duration::from_secs(20);

/// Returns the JVM inside this process.
fn jvm() -> Jvm {
    Jvm::start(&options()).unwrap()
}

/// Fills the heap with garbage, and returns the size of the heap's committed memory.
fn fill() -> u64 {
    Batch::new(&["garbage"]).call(&operator());
    jvm().stats().unwrap().heap_committed
}

fn tighten() -> HeapSize {
    jvm().tighten_heap().unwrap()
}

#[test]
#[ignore = "run by every_java"]
fn a_tight_heap_returns_memory_and_a_relaxed_one_keeps_it() {
    let filled = fill();
    let (begin, mut tight) = (Instant::now(), tighten());
    while tight.committed > filled / 2 && begin.elapsed() < RETURN_TIME {
        std::thread::sleep(Duration::from_millis(100));
        tight = tighten();
    }
    assert!(tight.committed <= filled / 2, "{filled} {tight:?}");
    assert!(tight.used <= tight.committed, "{tight:?}");
    jvm().relax_heap().unwrap();
    assert!(fill() > tight.committed, "it grows again");
}

/// User-defined options may disable the collections that the agent requests.
#[test]
#[ignore = "run by every_java"]
fn ignoring_a_request_to_collect_is_seen() {
    let filled = fill();
    let after = tighten();
    assert!(after.committed > filled / 4 * 3, "{filled} {after:?}");
}
