//! Tests collectors of the `jvm` source with the real binary: inside the agent, and in a separate
//! process.

mod crowd;
mod faults;
mod mistakes;
mod processes;
mod redis;

use crate::support::java::{FAST_START, built, homes, test_operators};
use crate::support::{Agent, folder, lines, wait_until};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Timeout for events that should happen soon, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(120);

/// A sink that writes lines to a file.
const SINK: &str = "sinks: { out: { type: file, inputs: [ticks], path: DIR/out.txt, sync: 100ms, encoding: { codec: text } } }\n";

/// A script that numbers its calls over the lifetime of the collector.
const COUNTS: &str = "state.n = (state.n ?: 0) + 1; events.add('tick ' + state.n)";

/// Place of the JVM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Inside,
    Process,
}

impl Mode {
    /// Returns a configuration whose collectors run in this place.
    fn adapt(self, config: String) -> String {
        match self {
            Mode::Inside => config,
            Mode::Process => config.replace("type: jvm,", "type: jvm, mode: process,"),
        }
    }
}

/// Runs a test with the JVM in each place.
fn each_mode(test: impl Fn(Mode)) {
    for mode in [Mode::Inside, Mode::Process] {
        eprintln!("{mode:?}");
        test(mode);
    }
}

/// Returns the settings of an agent with the newest JDK and a memory limit.
fn settings(memory: &str) -> String {
    built();
    let homes = homes();
    let home = homes.last().unwrap().display();
    format!(
        "limits: {{ memory: {memory}, threads: 2 }}\n\
         jvm: {{ home: {home}, heap: 64MiB, options: ['{FAST_START}'] }}\n"
    )
}

/// Returns an agent's configuration with a script as the `ticks` source.
fn config(source: &str) -> String {
    settings("640MiB")
        + &format!("sources:\n  ticks: {{ type: jvm, language: groovy, {source} }}\n")
}

/// Returns a source with the `FaultyCollector` collector and additional options.
fn faulty(fault: &str, more: &str) -> String {
    let jar = test_operators().display();
    format!(
        "{{ type: jvm, language: class, jar: {jar}, class: FaultyCollector, options: {{ fault: {fault} }}, {more} }}"
    )
}

/// Returns the API's state of the collector of a source, or null.
fn collector(agent: &Agent, id: &str) -> Value {
    let snapshot = agent.get("/api/snapshot").unwrap_or_default();
    let snapshot: Value = serde_json::from_str(&snapshot).unwrap_or_default();
    let all = snapshot["collectors"]["collectors"].as_array().cloned();
    all.into_iter().flatten().find(|of| of["component"] == id).unwrap_or_default()
}

/// Returns whether a collector has this state.
fn is_in(agent: &Agent, id: &str, state: &str) -> bool {
    collector(agent, id)["state"] == state
}

/// Waits until the agent has loaded `count` changed configurations.
fn wait_for_reloads(agent: &Agent, count: usize) {
    wait_until("the reload", PATIENCE, || agent.log().matches("reloaded").count() >= count);
}

/// Waits until a file has at least `count` lines.
fn wait_for_lines(path: &Path, count: usize) {
    wait_until(&format!("{count} lines"), PATIENCE, || path.exists() && lines(path).len() >= count);
}

#[test]
fn a_collector_makes_events_until_the_end_of_its_first_call() {
    each_mode(|mode| {
        let dir = folder();
        let script = "3000.times { n -> events.add('tick ' + n) }";
        let config = config(&format!("interval: 1h, script: \"{script}\"")) + SINK;
        let config = mode.adapt(config);
        let mut agent = Agent::start(dir.path(), &config, &["--until-eof"]);
        let status = agent.wait(PATIENCE);
        assert!(status.success(), "{}", agent.log());
        let expected: Vec<String> = (0..3000).map(|n| format!("tick {n}")).collect();
        assert_eq!(lines(&dir.path().join("out.txt")), expected);
    });
}

#[test]
fn a_reload_keeps_a_collector_that_is_unchanged_and_replaces_one_that_changed() {
    each_mode(|mode| {
        let dir = folder();
        let counted = config(&format!("interval: 20ms, script: \"{COUNTS}\"")) + SINK;
        let counted = mode.adapt(counted);
        let mut agent = Agent::start(dir.path(), &counted, &[]);
        let out = dir.path().join("out.txt");
        wait_for_lines(&out, 3);
        agent.reload(&counted.replace("sync: 100ms", "sync: 50ms"));
        wait_for_reloads(&agent, 1);
        let before = lines(&out).len();
        wait_for_lines(&out, before + 3);
        let changed = COUNTS.replace("tick", "tock");
        agent.reload(&counted.replace(COUNTS, &changed));
        wait_until("the new collector", PATIENCE, || {
            lines(&out).iter().any(|line| line == "tock 3")
        });
        assert!(agent.stop().success(), "{}", agent.log());
        let all = lines(&out);
        let ticks = all.iter().take_while(|line| line.starts_with("tick")).count();
        let expected = (1..=ticks).map(|n| format!("tick {n}"));
        let expected: Vec<String> =
            expected.chain((1..=all.len() - ticks).map(|n| format!("tock {n}"))).collect();
        assert_eq!(all, expected);
    });
}

#[test]
fn a_collector_begins_again_after_a_kill() {
    each_mode(|mode| {
        let dir = folder();
        let config = config(&format!("interval: 20ms, script: \"{COUNTS}\"")) + SINK;
        let config = mode.adapt(config);
        let mut agent = Agent::start(dir.path(), &config, &[]);
        let out = dir.path().join("out.txt");
        // Waits for synced lines, because a restart removes lines that were not synced before the
        // kill.
        wait_for_lines(&out, 50);
        wait_until("the first are synced", PATIENCE, || {
            let sent = "millstream_component_sent_events_total{component_id=\"out\"";
            agent.metric(sent).is_some_and(|sent| sent > 0.0)
        });
        agent.kill();
        let mut agent = Agent::start(dir.path(), &config, &[]);
        let begins = || lines(&out).iter().filter(|line| *line == "tick 1").count();
        wait_until("the collector begins again", PATIENCE, || begins() == 2);
        assert!(agent.stop().success(), "{}", agent.log());
    });
}
