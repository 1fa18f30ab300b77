//! Tests more collectors that never end than there are threads.

use super::{PATIENCE, faulty, settings, wait_for_lines};
use crate::support::{Agent, folder, wait_until};
use serde_json::Value;
use std::fs;

/// Number of collectors that sleep and ignore interrupts.
const COLLECTORS: usize = 1000;

/// Number of threads for collectors.
const THREADS: usize = 16;

/// Memory limit of the agent, in the configuration and in bytes.
const MEMORY: &str = "1GiB";
const MEMORY_BYTES: f64 = (1u64 << 30) as f64;

/// Maximum number of log lines, including the lines of the start.
const LOG_LINES_MAX: usize = 60;

/// Returns the state of each collector in the API.
fn states(agent: &Agent) -> Vec<String> {
    let snapshot = agent.get("/api/snapshot").unwrap_or_default();
    let snapshot: Value = serde_json::from_str(&snapshot).unwrap_or_default();
    let all = snapshot["collectors"]["collectors"].as_array().cloned().unwrap_or_default();
    all.iter().filter_map(|of| of["state"].as_str().map(str::to_owned)).collect()
}

fn count(states: &[String], state: &str) -> usize {
    states.iter().filter(|of| *of == state).count()
}

#[test]
fn a_thousand_collectors_that_never_end_are_named_and_leave_other_pipelines_alone() {
    let dir = folder();
    let deaf = faulty("deaf", "interval: 1s, timeout: 100ms");
    let mut config =
        settings(MEMORY) + "sources:\n  app: { type: file, include: ['DIR/app.log'] }\n";
    let names: Vec<String> = (0..COLLECTORS).map(|n| format!("deaf{n}")).collect();
    for name in &names {
        config += &format!("  {name}: {deaf}\n");
    }
    config += &format!(
        "sinks:\n  none: {{ type: blackhole, inputs: [{}] }}\n  \
           out: {{ type: file, inputs: [app], path: DIR/out.txt, sync: 100ms, encoding: {{ codec: text }} }}\n",
        names.join(", ")
    );
    let mut agent = Agent::start(dir.path(), &config, &[]);
    wait_until("all threads hang", PATIENCE, || {
        let states = states(&agent);
        count(&states, "hangs") == THREADS && count(&states, "queued") == COLLECTORS - THREADS
    });
    wait_until("the log names who waits", PATIENCE, || {
        agent.log().contains("are waiting for a thread: ")
    });
    let hang = "collectors are hanging and still occupy their threads";
    wait_until("the log names who hangs", PATIENCE, || agent.log().contains(hang));
    fs::write(dir.path().join("app.log"), "one line\n").unwrap();
    wait_for_lines(&dir.path().join("out.txt"), 1);
    assert_eq!(agent.single("millstream_collector_threads"), Some(THREADS as f64));
    let resident = agent.single("millstream_memory_resident_bytes").unwrap();
    assert!(resident < MEMORY_BYTES, "{resident}");
    agent.assert_logs(" more; all 16 threads are occupied: deaf");
    agent.assert_logs("; raise jvm.coll");
    let log = agent.log();
    assert!(log.lines().count() < LOG_LINES_MAX, "{log}");
    assert!(agent.stop().success(), "{}", agent.log());
}
