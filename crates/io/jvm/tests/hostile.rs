//! Operators that exhaust resources.

use crate::support::{Batch, Mode, jvm, mode, operator, options, spec};
use millstream_jvm::{FailureReason, JvmMemory, Operator, OperatorSpec};

/// Returns the reason why one of three rows fails. The other rows must not fail.
fn reason(operator: &Operator, command: &str) -> FailureReason {
    let mut batch = Batch::new(&["change a", command, "change b"]);
    batch.own_column("value", &[b"x", b"y", b"z"]);
    let answer = batch.call(operator);
    assert_eq!(answer.failed.len(), 1, "{:?}", answer.failed);
    assert_eq!(answer.failed[0].row, 1);
    let values = [0, 1, 2].map(|row| batch.text(&answer, "value", row));
    assert_eq!(values, ["a", "y", "b"]);
    answer.failed[0].reason
}

#[test]
#[ignore = "run by every_java"]
fn a_deep_recursion_fails_its_row() {
    let operator = operator();
    for _ in 0..20 {
        assert_eq!(reason(&operator, "recurse"), FailureReason::StackOverflow);
    }
    // Make the same call on one of the agent's threads, which has a different stack size.
    let call = move || assert_eq!(reason(&operator, "recurse"), FailureReason::StackOverflow);
    std::thread::Builder::new().stack_size(1 << 20).spawn(call).unwrap().join().unwrap();
}

#[test]
#[ignore = "run by every_java"]
fn exhausted_memory_fails_its_row() {
    let operator = operator();
    for _ in 0..3 {
        assert_eq!(reason(&operator, "exhaust"), FailureReason::OutOfMemory);
    }
    let used = jvm().stats().unwrap();
    assert!(used.heap_max <= 100 << 20, "{used:?}");
}

#[test]
#[ignore = "run by every_java"]
fn a_row_that_takes_too_long_fails() {
    // The timeout is long enough for the other rows on a busy machine.
    let operator = jvm().register(&OperatorSpec { row_timeout_ms: 1000, ..spec() }).unwrap();
    assert_eq!(reason(&operator, "sleep"), FailureReason::Timeout);
}

#[test]
#[ignore = "run by every_java"]
fn an_operator_cannot_end_the_agent() {
    let operator = operator();
    assert_eq!(reason(&operator, "exit"), FailureReason::Exception);
    assert_eq!(reason(&operator, "halt"), FailureReason::Exception);
}

#[test]
#[ignore = "run by every_java"]
fn a_value_that_exceeds_the_heap_fails_its_row() {
    let operator = operator();
    assert_eq!(reason(&operator, "size 200000000"), FailureReason::OutOfMemory);
}

/// Returns the peak memory of this process in bytes.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
#[ignore = "run by every_java"]
fn the_memory_stays_within_what_was_declared() {
    // The test measures the memory of this process.
    if mode() == Mode::Process {
        return;
    }
    let own = peak_bytes();
    let operator = operator();
    reason(&operator, "exhaust");
    let message = format!("size {}", 1 << 20);
    let mut batch = Batch::new(&[message.as_str(); 8]);
    batch.own_column("value", &[&b"old"[..]; 8]);
    std::thread::scope(|scope| {
        for _ in 0..options().threads {
            scope.spawn(|| (0..50).for_each(|_| drop(batch.call(&operator))));
        }
    });
    let declared = JvmMemory::of(&options());
    let peak = peak_bytes();
    assert!(peak > declared.heap_bytes, "{peak} bytes: the heap was never full");
    assert!(peak - own <= declared.total_bytes(), "{own} bytes before, {peak} now: {declared:?}");
}
