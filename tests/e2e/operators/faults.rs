//! Tests that a fault in an operator affects only the events of this operator.

use super::{Java, PATIENCE, documents, each_jdk, each_jdk_inside, faulty, noted, settings};
use crate::support::{Agent, folder, wait_until};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Number of lines before and after each bad line.
const LINES: usize = 20_000;

/// Returns a configuration with two pipelines from one source: one through the operator, one
/// without it.
fn config(home: Java<'_>, transform: &str) -> String {
    let config = settings(&home)
        + &format!(
            "shutdown_timeout: 5s\n\
             sources: {{ app: {{ type: file, include: ['DIR/in/*.log'] }} }}\n\
             transforms:\n  op: {transform}\n\
             sinks:\n  \
               out: {{ type: file, inputs: [op], path: DIR/out.json, sync: 100ms, encoding: {{ codec: json, metadata: [] }} }}\n  \
               beside: {{ type: file, inputs: [app], path: DIR/beside.txt, sync: 100ms, encoding: {{ codec: text }} }}\n"
        );
    home.adapt(config)
}

fn write_input(dir: &Path) {
    fs::create_dir_all(dir.join("in")).unwrap();
    let good = |at: usize| (at..at + LINES).map(|n| format!("good {n}\n")).collect::<String>();
    let text = format!("{}bad one\n{}bad two\n", good(0), good(LINES));
    fs::write(dir.join("in/app.log"), text).unwrap();
}

fn lines(path: &Path) -> usize {
    fs::read(path).unwrap_or_default().iter().filter(|byte| **byte == b'\n').count()
}

/// Runs the operator with a fault. Every event arrives; the bad events are unchanged and noted as
/// `note`.
fn bad_events_pass_unchanged(fault: &str, note: &str, cause: &str) {
    // Only a call that never ends has a short timeout. With it, other calls could time out on a
    // busy host.
    let event = if note == "timeout" { "5s" } else { "60s" };
    let timeouts = format!("timeouts: {{ event: {event}, batch: 60s }}");
    each_jdk(|home| {
        let dir = folder();
        write_input(dir.path());
        let mut agent = Agent::start(dir.path(), &config(home, &faulty(fault, &timeouts)), &[]);
        let (out, beside) = (dir.path().join("out.json"), dir.path().join("beside.txt"));
        wait_until("the sink beside has everything", PATIENCE, || lines(&beside) == 2 * LINES + 2);
        wait_until("the sink has everything", PATIENCE, || lines(&out) == 2 * LINES + 2);
        wait_until("both are counted", PATIENCE, || agent.metric(&noted(note)) == Some(2.0));
        wait_until("the log says why", PATIENCE, || agent.log().contains(cause));
        let events = documents(&out);
        let unseen: Vec<&str> = events
            .iter()
            .filter(|event| event.get("seen").is_none())
            .map(|event| event["message"].as_str().unwrap())
            .collect();
        assert_eq!(unseen, ["bad one", "bad two"]);
        assert!(agent.stop().success(), "{}", agent.log());
    });
}

#[test]
fn an_exception_fails_its_event_alone() {
    bad_events_pass_unchanged(
        "exception",
        "exception",
        "IllegalStateException: injected in bad one",
    );
}

#[test]
fn deep_recursion_fails_its_event_alone() {
    bad_events_pass_unchanged("recursion", "stack_overflow", "StackOverflowError");
}

#[test]
fn an_operator_without_memory_fails_its_event_alone() {
    bad_events_pass_unchanged("allocation", "out_of_memory", "OutOfMemoryError");
}

#[test]
fn an_operator_cannot_end_the_agent() {
    bad_events_pass_unchanged("exit", "exception", "SecurityException");
    bad_events_pass_unchanged("halt", "exception", "SecurityException");
}

#[test]
fn a_value_that_no_field_can_have_fails_its_event_alone() {
    bad_events_pass_unchanged("type", "wrong_type", "java.lang.Object");
}

#[test]
fn an_operator_that_sleeps_is_interrupted() {
    bad_events_pass_unchanged("interruptible", "timeout", "exceeds its timeout of 5000 ms");
}

#[test]
fn rejected_events_carry_the_exception() {
    each_jdk(|home| {
        let dir = folder();
        write_input(dir.path());
        let config = config(home, &faulty("exception", "on_error: reject"))
            .replace(
                "inputs: [app], path: DIR/beside.txt",
                "inputs: [op.rejected], path: DIR/beside.txt",
            )
            .replace("codec: text", "codec: json, metadata: []");
        let mut agent = Agent::start(dir.path(), &config, &["--until-eof"]);
        assert!(agent.wait(PATIENCE).success(), "{}", agent.log());
        let rejected = documents(&dir.path().join("beside.txt"));
        let reasons: Vec<_> =
            rejected.iter().map(|event| event["reason"].as_str().unwrap()).collect();
        let reason = |of: &str| format!("java.lang.IllegalStateException: injected in {of}");
        assert!(reasons[0].starts_with(&reason("bad one")), "{reasons:?}");
        assert_eq!((reasons.len(), lines(&dir.path().join("out.json"))), (2, 2 * LINES));
    });
}

/// Two calls with a loop that cannot be interrupted occupy two threads. After that, the operator
/// gets no more calls. `processes.rs` tests such a loop in a separate process, which is ended.
#[test]
fn an_operator_that_hangs_stops_and_the_agent_continues() {
    each_jdk_inside(|home| {
        let dir = folder();
        write_input(dir.path());
        let transform = faulty("loop", "timeouts: { event: 500ms, batch: 2s }");
        let mut agent = Agent::start(dir.path(), &config(home, &transform), &[]);
        let (out, beside) = (dir.path().join("out.json"), dir.path().join("beside.txt"));
        wait_until("the sink beside has everything", PATIENCE, || lines(&beside) == 2 * LINES + 2);
        // Cause more calls that hang.
        for number in 0..8 {
            fs::write(dir.path().join(format!("in/{number}.log")), "bad three\n").unwrap();
            std::thread::sleep(Duration::from_millis(300));
        }
        wait_until("the sink has everything", PATIENCE, || lines(&out) == 2 * LINES + 10);
        let has_stopped = || {
            agent.get("/api/snapshot").is_some_and(|text| text.contains("no more calls are made"))
        };
        wait_until("the API says so", PATIENCE, has_stopped);
        fs::write(dir.path().join("in/last.log"), "good to the end\n").unwrap();
        wait_until("events pass", PATIENCE, || lines(&out) == 2 * LINES + 11);
        // A reload replaces the operator.
        let working = faulty("exception", "");
        agent.reload(&config(home, &working));
        wait_until("the reload", PATIENCE, || agent.log().contains("changed: op"));
        fs::write(dir.path().join("in/new.log"), "good again\n").unwrap();
        let is_seen = || {
            documents(&out)
                .iter()
                .any(|event| event["message"] == "good again" && event["seen"] == true)
        };
        wait_until("the new operator works", PATIENCE, is_seen);
        agent.stop();
        assert!(!agent.log().contains("panicked"), "{}", agent.log());
    });
}
