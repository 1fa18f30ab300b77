//! What must not grow. `MILLSTREAM_SOAK=n` runs n times as long.

use crate::support::{Batch, jvm, operator};
use millstream_jvm::Operator;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

fn soak() -> usize {
    std::env::var("MILLSTREAM_SOAK").ok().and_then(|soak| soak.parse().ok()).unwrap_or(1)
}

/// Returns the used heap after a collection, which many short-lived objects cause.
fn heap_after_collections() -> u64 {
    let stats = || jvm().stats().unwrap();
    let before = stats().collections;
    let operator = operator();
    let message = format!("size {}", 1 << 20);
    let batch = Batch::new(&[message.as_str(); 8]);
    while stats().collections < before + 3 {
        batch.call(&operator);
    }
    stats().heap_used
}

#[test]
#[ignore = "run by every_java"]
fn calls_leave_nothing_behind() {
    let operator = operator();
    let batch = Batch::new(&["add x", "drop", "nothing", "emit y"]);
    let call = |count: usize| (0..count).for_each(|_| drop(batch.call(&operator)));
    call(10_000);
    let before = heap_after_collections();
    call(100_000 * soak());
    let after = heap_after_collections();
    // A global reference per call would hold 100,000 objects of 16 bytes at least.
    assert!(after < before + (24 << 20), "{before} bytes before, {after} after");
}

#[test]
#[ignore = "run by every_java"]
fn operators_that_are_replaced_under_load_are_unloaded() {
    replace(20);
    let before = jvm().stats().unwrap();
    // All at once they would not fit into the space for classes.
    replace(300 * soak());
    heap_after_collections();
    let after = jvm().stats().unwrap();
    assert!(after.classes < before.classes + 400, "{before:?}, {after:?}");
    assert!(after.non_heap_used < before.non_heap_used + (16 << 20), "{before:?}, {after:?}");
}

/// Replaces an operator many times while four threads call it.
fn replace(count: usize) {
    let stop = AtomicBool::new(false);
    let current = Mutex::new(operator());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| load(&current, &stop));
        }
        for _ in 0..count {
            *current.lock() = operator();
        }
        stop.store(true, Ordering::Relaxed);
    });
}

fn load(current: &Mutex<Operator>, stop: &AtomicBool) {
    let batch = Batch::new(&["add x", "drop", "throw"]);
    while !stop.load(Ordering::Relaxed) {
        let operator = current.lock().clone();
        let answer = batch.call(&operator);
        assert_eq!((answer.dropped.len(), answer.failed.len()), (1, 1));
        // Without a pause, four threads would leave no processor to the compiler.
        thread::sleep(Duration::from_micros(500));
    }
}
