//! Tests that the agent records calls of operators.

use super::{PATIENCE, documents, each_jdk, faulty, noted, settings};
use crate::support::{Agent, folder, millstream, wait_until};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Returns the events of a type that the agent in a folder has recorded.
fn recorded(dir: &Path, kind: &str) -> Vec<Value> {
    let mut command = Command::new(millstream());
    command.args(["record", "--dump", "-o", "-", "--format", "jsonl", "-c", "millstream.yaml"]);
    let output = command.current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let events = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["event"] == kind).collect()
}

#[test]
fn calls_are_recorded_with_their_outcome() {
    each_jdk(|home| {
        let dir = folder();
        let config = settings(&home)
            + &format!(
                "sources: {{ app: {{ type: file, include: ['DIR/in/*.log'] }} }}\n\
                 transforms:\n  op: {}\n\
                 sinks: {{ out: {{ type: file, inputs: [op], path: DIR/out.json, encoding: {{ codec: json }} }} }}\n",
                faulty("remove", "")
            );
        let mut agent = Agent::start(dir.path(), &home.adapt(config), &[]);
        fs::create_dir(dir.path().join("in")).unwrap();
        // The operator removes itself when it gets the second line.
        for (number, line) in ["good one", "bad", "good three"].iter().enumerate() {
            fs::write(dir.path().join(format!("in/{number}.log")), format!("{line}\n")).unwrap();
            let is_there = || documents(&dir.path().join("out.json")).len() > number;
            wait_until("the line arrives", PATIENCE, is_there);
        }
        let failed = || agent.metric(&noted("call_failed"));
        wait_until("the failure is counted", PATIENCE, || failed() == Some(1.0));
        let of = |call: &Value| {
            assert!(call["duration_ns"].as_u64() > Some(0), "{call}");
            let fields = ["component", "rows", "bytes", "outcome"];
            Value::from_iter(fields.map(|field| call[field].clone()))
        };
        // A call may be recorded a moment after its event has arrived.
        let mut calls: Vec<Value> = Vec::new();
        wait_until("three calls are recorded", PATIENCE, || {
            calls = recorded(dir.path(), "JvmCall").iter().map(of).collect();
            calls.len() >= 3
        });
        let expected = [
            json!(["op", 1, 8, "answered"]),
            json!(["op", 1, 3, "answered"]),
            json!(["op", 1, 10, "call_failed"]),
        ];
        assert_eq!(calls, expected);
        assert!(agent.stop().success(), "{}", agent.log());
    });
}
