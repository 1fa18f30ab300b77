//! Operators are replaced while events flow.

use super::{PATIENCE, documents, each_jdk, settings};
use crate::support::{Agent, folder, wait_until};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Returns how many times a rule changes: `OPERATOR_RELOADS`, or a few.
fn reloads() -> usize {
    std::env::var("OPERATOR_RELOADS").ok().and_then(|text| text.parse().ok()).unwrap_or(20)
}

fn config(home: &Path, version: usize) -> String {
    settings(home)
        + &format!(
            "sources: {{ app: {{ type: file, include: ['DIR/app.log'] }} }}\n\
             transforms: {{ op: {{ type: jvm, inputs: [app], language: groovy, script: 'row.version = {version}' }} }}\n\
             sinks: {{ out: {{ type: file, inputs: [op], path: DIR/out.json, sync: 100ms, encoding: {{ codec: json, metadata: [] }} }} }}\n"
        )
}

/// Writes numbered lines until `stops` is set; returns their number.
fn write_lines(path: &Path, stops: &AtomicBool) -> usize {
    let mut file = File::create(path).unwrap();
    let mut count = 0;
    while !stops.load(Ordering::Relaxed) {
        let lines: String = (count..count + 200).map(|n| format!("line {n}\n")).collect();
        file.write_all(lines.as_bytes()).unwrap();
        count += 200;
        std::thread::sleep(Duration::from_millis(10));
    }
    count
}

#[test]
fn rules_that_change_under_load_lose_nothing_and_their_classes_are_unloaded() {
    each_jdk(|home| {
        let dir = folder();
        let stops = AtomicBool::new(false);
        let log = dir.path().join("app.log");
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| write_lines(&log, &stops));
            let mut agent = Agent::start(dir.path(), &config(home, 0), &[]);
            wait_until("it is ready", PATIENCE, || agent.get("/ready").is_some());
            let mut hash = agent.single("millstream_config_hash");
            for version in 1..=reloads() {
                agent.reload(&config(home, version));
                let before = hash;
                wait_until("the reload", PATIENCE, || {
                    hash = agent.single("millstream_config_hash");
                    hash != before
                });
            }
            stops.store(true, Ordering::Relaxed);
            let count = writer.join().unwrap();
            let out = dir.path().join("out.json");
            let has_all = || {
                fs::read(&out).unwrap_or_default().iter().filter(|b| **b == b'\n').count() >= count
            };
            wait_until("every line arrives", PATIENCE, has_all);
            assert!(agent.stop().success(), "{}", agent.log());
            let events = documents(&out);
            let versions: Vec<u64> =
                events.iter().map(|event| event["version"].as_u64().unwrap()).collect();
            assert!(versions.is_sorted(), "each line is transformed by the rule of its time");
            let messages: Vec<&str> =
                events.iter().map(|event| event["message"].as_str().unwrap()).collect();
            let expected: Vec<String> = (0..count).map(|n| format!("line {n}")).collect();
            assert!(messages == expected, "every line once, in order");
        });
    });
}

#[test]
fn a_script_that_does_not_compile_is_refused_with_its_place() {
    each_jdk(|home| {
        let dir = folder();
        fs::write(dir.path().join("app.log"), "one\n").unwrap();
        let mut agent = Agent::start(dir.path(), &config(home, 1), &[]);
        let out = dir.path().join("out.json");
        wait_until("the first event", PATIENCE, || documents(&out).len() == 1);
        agent.reload(&config(home, 2).replace("row.version = 2", "row.version = ("));
        wait_until("the reload is rejected", PATIENCE, || {
            agent.log().contains("the previous one stays in use")
        });
        assert!(agent.log().contains("script:1"), "{}", agent.log());
        File::options()
            .append(true)
            .open(dir.path().join("app.log"))
            .unwrap()
            .write_all(b"two\n")
            .unwrap();
        wait_until("the next event", PATIENCE, || documents(&out).len() == 2);
        assert_eq!(documents(&out)[1]["version"], 1);
        assert!(agent.stop().success());
    });
}
