//! Memory and loaded classes must not grow with the number of calls.

use crate::support::{Batch, jvm, operator};
use millstream_jvm::{JvmStats, Operator};
use millstream_testkit_random::{Report, TestSize};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Number of calls to an operator.
const CALLS: TestSize = TestSize { gate: 100_000, long: 2_000_000 };

/// Number of operators that replace another operator.
const REPLACED: TestSize = TestSize { gate: 300, long: 6000 };

/// Returns statistics after a full collection, which also unloads classes.
fn collected() -> JvmStats {
    let operator = operator();
    // Two collections may be necessary to free weakly reachable objects.
    Batch::new(&["collect", "collect"]).call(&operator);
    jvm().stats().unwrap()
}

#[test]
#[ignore = "run by every_java"]
fn calls_leave_nothing_behind() {
    let report = Report::of_test();
    report.count(CALLS.get());
    let operator = operator();
    let batch = Batch::new(&["add x", "drop", "nothing", "emit y"]);
    let call = |count: usize| (0..count).for_each(|_| drop(batch.call(&operator)));
    call(10_000);
    let before = collected();
    call(CALLS.count());
    let after = collected();
    // One reference per call would keep 100,000 objects of at least 16 bytes.
    assert!(after.heap_used < before.heap_used + (1 << 20), "{before:?}, {after:?}");
}

#[test]
#[ignore = "run by every_java"]
fn operators_that_are_replaced_under_load_are_unloaded() {
    let report = Report::of_test();
    report.count(REPLACED.get());
    replace(20);
    let before = collected();
    replace(REPLACED.count());
    let after = collected();
    // The JDK itself loads some classes in the meantime, but fewer than one per operator.
    assert!(after.classes < before.classes + 100, "{before:?}, {after:?}");
    assert!(after.heap_used < before.heap_used + (2 << 20), "{before:?}, {after:?}");
    assert!(after.non_heap_used < before.non_heap_used + (8 << 20), "{before:?}, {after:?}");
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
        // Without a pause, four threads would leave no processor for the compiler.
        thread::sleep(Duration::from_micros(500));
    }
}
