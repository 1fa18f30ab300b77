//! Tests operators that are replaced while events flow.

use super::{Java, PATIENCE, SetOnDrop, documents, each_jdk};
use crate::support::{Agent, folder, wait_until};
use millstream_testkit_random::{Report, TestSize};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Options that make the JVM look for unused classes often. By default it does so only after tens
/// of megabytes of new classes, and keeps softly referenced classes for about a minute.
const OPTIONS: &str = "'-XX:MaxMetaspaceSize=64m', '-XX:MetaspaceSize=16m', \
    '-XX:MinMetaspaceFreeRatio=0', '-XX:MaxMetaspaceFreeRatio=1', '-XX:SoftRefLRUPolicyMSPerMB=0'";

/// How many times a rule changes in the agent's process.
const RELOADS_INSIDE: TestSize = TestSize { gate: 300, long: 10_000 };

/// How many times a rule changes in a separate process.
const RELOADS_APART: TestSize = TestSize { gate: 30, long: 1000 };

fn reloads(home: Java<'_>) -> usize {
    if home.runs_in_child { RELOADS_APART.count() } else { RELOADS_INSIDE.count() }
}

fn config(home: Java<'_>, version: usize) -> String {
    home.adapt(format!(
        "limits: {{ memory: 640MiB, threads: 2 }}\n\
         jvm: {{ home: {}, heap: 64MiB, options: [{OPTIONS}] }}\n\
         sources: {{ app: {{ type: file, include: ['DIR/app.log'] }} }}\n\
         transforms: {{ op: {{ type: jvm, inputs: [app], language: groovy, script: 'row.version = {version}' }} }}\n\
         sinks: {{ out: {{ type: file, inputs: [op], path: DIR/out.json, sync: 100ms, encoding: {{ codec: json, metadata: [] }} }} }}\n",
        home.display()
    ))
}

/// Writes numbered lines until `stops` is set; returns their number.
fn write_lines(path: &Path, stops: &AtomicBool) -> usize {
    let mut file = File::create(path).unwrap();
    let mut count = 0;
    while !stops.load(Ordering::Relaxed) {
        let lines: String = (count..count + 100).map(|n| format!("line {n}\n")).collect();
        file.write_all(lines.as_bytes()).unwrap();
        count += 100;
        std::thread::sleep(Duration::from_millis(20));
    }
    count
}

/// Checks that the file has each line once and in order, and that the versions of the rule ascend.
fn assert_has_all(path: &Path, count: usize) {
    let mut version = 0;
    let mut found = 0;
    for line in BufReader::new(File::open(path).unwrap()).lines() {
        let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
        assert_eq!(event["message"], format!("line {found}"));
        let next = event["version"].as_u64().unwrap();
        assert!(next >= version, "{event} behind version {version}");
        version = next;
        found += 1;
    }
    assert_eq!(found, count);
}

/// Number and bytes of classes, and resident memory of the agent.
#[derive(Clone, Copy, Debug)]
struct Usage {
    classes: f64,
    metaspace: f64,
    resident: f64,
}

impl Usage {
    fn of(home: Java<'_>, agent: &Agent) -> Option<Usage> {
        Some(Usage {
            classes: home.figure(agent, "classes")?,
            metaspace: home.figure(agent, "metaspace_used_bytes")?,
            resident: agent.single("millstream_process_resident_memory_bytes")?,
        })
    }

    fn max(self, other: Usage) -> Usage {
        Usage {
            classes: self.classes.max(other.classes),
            metaspace: self.metaspace.max(other.metaspace),
            resident: self.resident.max(other.resident),
        }
    }
}

/// Replaces the script once for each version; returns the maximum usage.
fn replace(agent: &Agent, home: Java<'_>, versions: std::ops::Range<usize>) -> Usage {
    let mut most = None;
    for version in versions {
        let before = agent.single("millstream_config_hash");
        agent.reload(&config(home, version));
        wait_until("the reload", PATIENCE, || {
            let hash = agent.single("millstream_config_hash");
            hash.is_some() && hash != before
        });
        let usage = Usage::of(home, agent);
        most = most.zip(usage).map(|(most, usage): (Usage, Usage)| most.max(usage)).or(usage);
    }
    most.expect("the figures of the JVM")
}

#[test]
fn rules_that_change_under_load_lose_nothing_and_their_classes_are_unloaded() {
    let report = Report::of_test();
    each_jdk(|home| {
        let (dir, reloads) = (folder(), reloads(home));
        report.count(reloads as u64);
        let stops = AtomicBool::new(false);
        let log = dir.path().join("app.log");
        std::thread::scope(|scope| {
            let stop = SetOnDrop(&stops);
            let writer = scope.spawn(|| write_lines(&log, &stops));
            let mut agent = Agent::start(dir.path(), &config(home, 0), &[]);
            wait_until("the figures", PATIENCE, || Usage::of(home, &agent).is_some());
            let (begun, first) = (Instant::now(), Usage::of(home, &agent));
            let early = replace(&agent, home, 1..reloads / 2);
            let late = replace(&agent, home, reloads / 2..reloads + 1);
            eprintln!(
                "{} reloads in {:?}:\n{first:?}\n{early:?}\n{late:?}",
                reloads,
                begun.elapsed()
            );
            drop(stop);
            let count = writer.join().unwrap();
            let out = dir.path().join("out.json");
            let has_all = || {
                fs::read(&out).unwrap_or_default().iter().filter(|b| **b == b'\n').count() >= count
            };
            wait_until("every line arrives", PATIENCE, has_all);
            // Each script is a class. Without unloading, at least half as many classes as reloads
            // would be added. The JDK loads a few more in the meantime.
            let growth_max = 40.0 + reloads as f64 / 8.0;
            assert!(late.classes < early.classes + growth_max, "{early:?}, {late:?}");
            assert!(agent.stop().success(), "{}", agent.log());
            assert_has_all(&out, count);
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
            agent.log().contains("the previous configuration stays in use")
        });
        agent.assert_logs("script:1");
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
