//! Collectors of source `jvm` inside the real binary.

use crate::support::java::{built, homes};
use crate::support::{Agent, folder, lines, wait_until};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// Timeout for events that should happen soon, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(120);

/// Number of collectors that wait for something that never comes.
const WAITING: usize = 1000;

/// A sink of lines to a file.
const SINK: &str = "sinks: { out: { type: file, inputs: [ticks], path: DIR/out.txt, sync: 100ms, encoding: { codec: text } } }\n";

/// A script that numbers its calls, over the life of the collector.
const COUNTS: &str = "state.n = (state.n ?: 0) + 1; events.add('tick ' + state.n)";

/// Returns the settings of an agent with the newest JDK, and this source.
fn config(source: &str) -> String {
    built();
    let homes = homes();
    let home = homes.last().unwrap().display();
    format!(
        "limits: {{ memory: 640MiB, threads: 2 }}\njvm: {{ home: {home}, heap: 64MiB }}\n\
         sources:\n  ticks: {{ type: jvm, language: groovy, {source} }}\n"
    )
}

/// Returns a metric of source `ticks`.
fn metric(agent: &Agent, name: &str) -> f64 {
    let labels = "component_id=\"ticks\",component_type=\"jvm\",component_kind=\"source\"";
    agent.metric(&format!("{name}{{{labels}}}")).unwrap_or(0.0)
}

/// Waits until a file has at least so many lines.
fn wait_for_lines(path: &Path, count: usize) {
    wait_until(&format!("{count} lines"), PATIENCE, || path.exists() && lines(path).len() >= count);
}

#[test]
fn a_collector_makes_events_until_the_end_of_its_first_call() {
    let dir = folder();
    let script = "3000.times { n -> events.add('tick ' + n) }";
    let config = config(&format!("interval: 1h, script: \"{script}\"")) + SINK;
    let mut agent = Agent::start(dir.path(), &config, &["--until-eof"]);
    let status = agent.wait(PATIENCE);
    assert!(status.success(), "{}", agent.log());
    let expected: Vec<String> = (0..3000).map(|n| format!("tick {n}")).collect();
    assert_eq!(lines(&dir.path().join("out.txt")), expected);
}

#[test]
fn a_collector_waits_while_its_sink_takes_nothing() {
    let dir = folder();
    let sink = "sinks: { out: { type: http, inputs: [ticks], uri: 'http://127.0.0.1:1/', encoding: { codec: text } } }\n";
    let script = "while (true) { events.add('x' * 1000) }";
    let config = config(&format!("script: \"{script}\"")) + sink + "shutdown_timeout: 1s\n";
    let mut agent = Agent::start(dir.path(), &config, &[]);
    let is_blocked = || {
        let snapshot = agent.get("/api/snapshot").unwrap_or_default();
        snapshot.contains("\"state\":\"blocked\"")
    };
    wait_until("the collector waits", PATIENCE, is_blocked);
    agent.terminate();
    agent.wait(PATIENCE);
}

#[test]
fn a_reload_keeps_a_collector_that_is_unchanged_and_replaces_one_that_changed() {
    let dir = folder();
    let counted = config(&format!("interval: 20ms, script: \"{COUNTS}\"")) + SINK;
    let mut agent = Agent::start(dir.path(), &counted, &[]);
    let out = dir.path().join("out.txt");
    wait_for_lines(&out, 3);
    let reloads = || metric_of_reloads(&agent);
    agent.reload(&counted.replace("sync: 100ms", "sync: 50ms"));
    wait_until("the reload", PATIENCE, || reloads() >= 1);
    let before = lines(&out).len();
    wait_for_lines(&out, before + 3);
    let changed = COUNTS.replace("tick", "tock");
    agent.reload(&counted.replace(COUNTS, &changed));
    wait_until("the new collector", PATIENCE, || lines(&out).iter().any(|line| line == "tock 3"));
    assert!(agent.stop().success(), "{}", agent.log());
    let all = lines(&out);
    let ticks = all.iter().take_while(|line| line.starts_with("tick")).count();
    let expected = (1..=ticks).map(|n| format!("tick {n}"));
    let expected: Vec<String> =
        expected.chain((1..=all.len() - ticks).map(|n| format!("tock {n}"))).collect();
    assert_eq!(all, expected);
}

/// Returns how many reloads the log tells of.
fn metric_of_reloads(agent: &Agent) -> usize {
    agent.log().matches("reloaded").count()
}

#[test]
fn a_collector_begins_again_after_a_kill() {
    let dir = folder();
    let config = config(&format!("interval: 20ms, script: \"{COUNTS}\"")) + SINK;
    let mut agent = Agent::start(dir.path(), &config, &[]);
    let out = dir.path().join("out.txt");
    wait_for_lines(&out, 5);
    agent.kill();
    let mut agent = Agent::start(dir.path(), &config, &[]);
    let begins = || lines(&out).iter().filter(|line| *line == "tick 1").count();
    wait_until("the collector begins again", PATIENCE, || begins() == 2);
    assert!(agent.stop().success(), "{}", agent.log());
}

#[test]
fn a_thousand_collectors_that_wait_leave_other_pipelines_alone() {
    let dir = folder();
    let script = "new java.util.concurrent.LinkedBlockingQueue().take()";
    let allow = "allow: [java.util.concurrent.LinkedBlockingQueue]";
    let source = format!("script: \"{script}\", {allow}");
    let mut config = config(&source)
        .replace("640MiB", "2GiB")
        .replace("heap: 64MiB", "heap: 128MiB, options: ['-XX:MaxMetaspaceSize=512m']");
    for n in 1..WAITING {
        config += &format!("  waits{n}: {{ type: jvm, language: groovy, {source} }}\n");
    }
    config += "  app: { type: file, include: ['DIR/app.log'] }\n";
    config += &SINK
        .replace("[ticks]", "[app]")
        .replace("sinks: {", "sinks: { none: { type: blackhole, inputs: [ticks, 'waits*'] },");
    let names: Vec<String> = (1..WAITING).map(|n| format!("waits{n}")).collect();
    let config = config.replace("'waits*'", &names.join(", "));
    let mut agent = Agent::start(dir.path(), &config, &[]);
    wait_until("all threads run", PATIENCE, || {
        agent.single("millstream_collector_threads") == Some(16.0)
    });
    writeln!(File::create(dir.path().join("app.log")).unwrap(), "one line").unwrap();
    wait_for_lines(&dir.path().join("out.txt"), 1);
    assert_eq!(metric(&agent, "millstream_collector_events_total"), 0.0);
    assert!(agent.stop().success(), "{}", agent.log());
}
